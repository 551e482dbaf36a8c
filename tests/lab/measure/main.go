package measure

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

// Main runs a program until its work is done or an interrupt ends ctx. It exits with 1 after an error.
func Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Command triskele is the command-line program: it runs the services and calls them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/triskele/triskele/services/agents/cli"
)

var started = time.Now()

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	folder, _ := os.Getwd()
	os.Exit(cli.Run(ctx, os.Args[1:], cli.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Now: time.Now, Started: started, Folder: folder}))
}

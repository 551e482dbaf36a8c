// Package program is the frame of a service's own program: command line and environment, log, telemetry, signals and
// exit codes. It knows no service.
package program

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/fuser/trust"
)

// flushTime is what telemetry gets to send the rest when the program ends.
const flushTime = 5 * time.Second

// Flags are what every service can be told. Embed them; the variables are trust.Listener's.
type Flags struct {
	Listener trust.Listener   `embed:""`
	LogLevel slog.Level       `help:"Least level to log: debug, info, warn or error." default:"info" env:"TRISKELE_LOG_LEVEL"`
	Version  kong.VersionFlag `help:"Print the version and exit."`
}

// Main reads the command line into flags, a struct that embeds common, calls run until it returns or SIGINT or SIGTERM
// ends its context, and exits: 0 after an orderly stop, 1 on failure, 2 if the command line is wrong. name is the
// service's; its program is called name + "d".
func Main(name, description string, flags any, common *Flags, vars kong.Vars, run func(context.Context, *telemetry.Service, *slog.Logger) error) {
	vars = maps.Clone(vars)
	vars["version"] = telemetry.Version()
	kong.Parse(flags, kong.Name(name+"d"), kong.Description(description), kong.Exit(exit), vars)
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: common.LogLevel})).With("service", name)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := observed(ctx, name, log, run); err != nil {
		log.Error("stopped", "error", err.Error())
		os.Exit(1)
	}
}

// exit ends the program with 2 for a wrong command line, where kong would say 80.
func exit(code int) {
	if code != 0 {
		code = 2
	}
	os.Exit(code)
}

// observed calls run with telemetry, which is flushed afterwards under a deadline of its own.
func observed(ctx context.Context, name string, log *slog.Logger, run func(context.Context, *telemetry.Service, *slog.Logger) error) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := process.Shutdown(ctx); err != nil {
			log.Warn("telemetry was not flushed", "error", err.Error())
		}
	}()
	return run(ctx, process.Service(name), log)
}

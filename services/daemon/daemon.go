// Package daemon is the frame of a service's own program: flags and environment, database, health, signals.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/rpc"
	"github.com/triskele/triskele/fuser/telemetry"
	"github.com/triskele/triskele/services/backend"
)

// Flags are what every service can be told.
type Flags struct {
	Listen      string           `help:"Address to serve gRPC on." default:"${listen}" env:"TRISKELE_LISTEN" placeholder:"HOST:PORT"`
	Postgres    string           `help:"PostgreSQL connection URL." required:"" env:"TRISKELE_POSTGRES" placeholder:"URL"`
	AllowRemote bool             `help:"Serve on an address other machines can reach, although there is no authentication." env:"TRISKELE_ALLOW_REMOTE"`
	LogLevel    slog.Level       `help:"Least level to log: debug, info, warn or error." default:"info" env:"TRISKELE_LOG_LEVEL"`
	Version     kong.VersionFlag `help:"Print the version and exit."`
}

// Service is what a program builds on the database.
type Service struct {
	Register func(server *rpc.Server)
	Work     func(ctx context.Context) // runs beside the server until ctx ends; may be nil
}

// Build makes the service on an open database whose schema has been checked.
type Build func(ctx context.Context, b backend.Backend, tel *telemetry.Service, log *slog.Logger) (Service, error)

// Main parses the command line, runs the service until SIGINT or SIGTERM, and exits: 0 after an orderly stop, 1 on
// failure, 2 if the command line is wrong. name is the service's, listen its default address, and track the schema
// track it needs.
func Main(name, description, listen, track string, build Build) {
	var flags Flags
	kong.Parse(&flags, kong.Name(name+"d"), kong.Description(description), kong.Exit(exit),
		kong.Vars{"listen": listen, "version": telemetry.Version()})
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: flags.LogLevel})).With("service", name)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, name, track, flags, build, log); err != nil {
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

func run(ctx context.Context, name, track string, flags Flags, build Build, log *slog.Logger) error {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := process.Shutdown(ctx); err != nil {
			log.Warn("telemetry was not flushed", "error", err.Error())
		}
	}()
	tel := process.Service(name)
	b, err := backend.OpenPostgres(ctx, flags.Postgres, tel)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	if err := backend.WaitReady(ctx, b, log); err != nil {
		return nil // told to stop while waiting
	}
	if err := b.Check(ctx, track); err != nil {
		return err
	}
	service, err := build(ctx, b, tel, log)
	if err != nil {
		return err
	}
	server, err := rpc.NewServer(tel, log)
	if err != nil {
		return err
	}
	service.Register(server)
	listener, err := rpc.Listen(flags.Listen, flags.AllowRemote)
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	defer working.Wait()
	if service.Work != nil {
		working.Go(func() { service.Work(ctx) })
	}
	server.Watch(ctx, 2*time.Second, b.Ping)
	log.Info("serving", "address", listener.Addr().String(), "version", telemetry.Version())
	if err := server.Run(ctx, listener); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

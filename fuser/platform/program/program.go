// Package program is the main function of a service's own program. It knows no service.
//
//  1. Main parses the command line, the environment and the configuration file with kong.
//  2. It makes the log, and a context that SIGINT or SIGTERM ends.
//  3. observed starts telemetry and the admin server, and calls the service's Run.
//  4. Telemetry is flushed under a deadline of its own, and the program exits with a code from exits.
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

	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/manual"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
)

var exits = []manual.Exit{
	{Code: 0, Meaning: "Orderly stop by SIGINT or SIGTERM."},
	{Code: 1, Meaning: "Failure: the last line of the log has the cause."},
	{Code: 2, Meaning: "Wrong usage: an error in the command line, an environment variable or the configuration file."},
}

// flushTime bounds the flush of telemetry when the program ends.
const flushTime = 5 * time.Second

// Flags are every service's flags. Embed them; the variables are auth.Listener's.
type Flags struct {
	settings.Source
	Manual   manual.Flag      `help:"Print the manual page (man), the reference (markdown) or a completion script (bash, zsh, fish), and exit." placeholder:"FORM"`
	Listener auth.Listener    `embed:"" group:"Address and callers:"`
	Admin    admin.Flags      `embed:"" group:"Observability:"`
	Keep     telemetry.Keep   `embed:"" group:"Observability:"`
	LogLevel slog.Level       `help:"Lowest level to log: debug, info, warn or error." default:"info" env:"TRISKELE_LOG_LEVEL" group:"Observability:"`
	Version  kong.VersionFlag `help:"Print the version and exit."`
}

// Validate refuses flags that would be ignored.
func (Flags) Validate(ctx *kong.Context) error { return settings.Needs(ctx) }

// Run runs a service until it is done or ctx ends. It registers its pages for operators with admin.
type Run func(ctx context.Context, tel *telemetry.Service, admin *admin.Server, log *slog.Logger) error

// Main reads the command line into flags, a struct that embeds common, and calls run. SIGINT or SIGTERM ends run's
// context. The exit code is 0 after an orderly stop, 1 on failure and 2 on wrong usage. The program is called name +
// "d". vars has its default address as "listen".
func Main(name, description string, flags any, common *Flags, vars kong.Vars, run Run) {
	vars = maps.Clone(vars)
	vars["version"] = telemetry.Version()
	vars["admin"] = admin.Beside(vars["listen"])
	about := manual.Program{Name: name + "d", Description: description, Exits: exits}
	kong.Parse(flags, kong.Name(about.Name), kong.Description(about.Help()), kong.Exit(exit), settings.Durations(), vars, kong.Bind(about))
	log := slog.New(telemetry.Traced(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: common.LogLevel}))).With("service", name)
	slog.SetDefault(log) // for code without a log
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := observed(ctx, name, common, log, run); err != nil {
		log.Error("stopped", "error", err.Error())
		if settings.IsWrong(err) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// exit ends the program with 2 on wrong usage, in place of kong's 80.
func exit(code int) {
	if code != 0 {
		code = 2
	}
	os.Exit(code)
}

// observed calls run with telemetry and an admin server. Telemetry is flushed afterwards under its own
// deadline.
func observed(ctx context.Context, name string, common *Flags, log *slog.Logger, run Run) error {
	options := []telemetry.Option{telemetry.Keeping(common.Keep)}
	if common.Admin.On() {
		options = append(options, telemetry.Scraped)
	}
	process, err := telemetry.Start(ctx, options...)
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
	operators, err := admin.Listen(common.Admin, process.Metrics(), log)
	if err != nil {
		return err
	}
	defer operators.Start(ctx)()
	return run(ctx, process.Service(name), operators, log)
}

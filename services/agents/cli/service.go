package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/triskele/triskele/services/agents/userservice"
)

type serviceCmd struct {
	Install   serviceInstallCmd   `cmd:"" help:"Start the gateway now and at each login."`
	Status    serviceStatusCmd    `cmd:"" help:"Show whether the service is installed and runs."`
	Uninstall serviceUninstallCmd `cmd:"" help:"Stop the service and remove it. The memories stay."`
}

type serviceInstallCmd struct {
	Listen string `help:"Address to listen on." default:"127.0.0.1:7400" env:"TRISKELE_LISTEN" placeholder:"HOST:PORT"`
	SQLite string `name:"sqlite" help:"Path of the SQLite file; the platform's data folder if not given." env:"TRISKELE_SQLITE" placeholder:"PATH"`
}

// userService returns the service on this platform that runs the program with these arguments.
func userService(env *Env, args ...string) (userservice.Service, error) {
	path, err := os.Executable()
	return userservice.Service{GOOS: runtime.GOOS, Getenv: env.Getenv, Line: append([]string{path}, args...)}, err
}

func (c *serviceInstallCmd) Run(ctx context.Context, env *Env) error {
	args := []string{"up", "--listen", c.Listen}
	if c.SQLite != "" {
		path, err := filepath.Abs(c.SQLite)
		if err != nil {
			return err
		}
		args = append(args, "--sqlite", path)
	}
	service, err := userService(env, args...)
	if err != nil {
		return err
	}
	if err := service.Install(ctx); err != nil {
		return err
	}
	text := "The gateway runs on " + c.Listen + ", now and after each login.\n"
	if runtime.GOOS == "linux" {
		text += "To have it before the login, too: loginctl enable-linger\n"
	}
	return env.print(text)
}

type serviceStatusCmd struct {
	jsonFlag
}

func (c *serviceStatusCmd) Run(ctx context.Context, env *Env) error {
	service, err := userService(env)
	if err != nil {
		return err
	}
	installed, running, err := service.Status(ctx)
	text := "not installed\n"
	switch {
	case running:
		text = "installed, and runs\n"
	case installed:
		text = "installed, but does not run\n"
	}
	return env.answer(err, c.JSON, map[string]bool{"installed": installed, "running": running}, text)
}

type serviceUninstallCmd struct{}

func (*serviceUninstallCmd) Run(ctx context.Context, env *Env) error {
	service, err := userService(env)
	if err != nil {
		return err
	}
	was, err := service.Uninstall(ctx)
	switch {
	case err != nil:
		return err
	case !was:
		return env.print("No service is installed.\n")
	}
	return env.print("The service is removed.\n")
}

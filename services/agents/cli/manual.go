package cli

import (
	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/manual"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

func (c *completionCmd) Run(env *Env, parsed *kong.Context) error {
	return env.print(manual.Completion(c.Shell, parsed.Model))
}

type manCmd struct {
	Markdown bool `help:"Print it as Markdown."`
}

func (c *manCmd) Run(env *Env, parsed *kong.Context) error {
	if c.Markdown {
		return env.print(about.Markdown(parsed.Model))
	}
	return env.print(about.Man(parsed.Model, 1))
}

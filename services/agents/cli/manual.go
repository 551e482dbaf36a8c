package cli

import (
	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/manual"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

// Help is shown below the flags.
func (*completionCmd) Help() string {
	return `For the current bash: source <(triskele completion bash). For all shells, as files that they read at start:

    triskele completion bash > ~/.local/share/bash-completion/completions/triskele
    triskele completion zsh > "${fpath[1]}/_triskele"
    triskele completion fish > ~/.config/fish/completions/triskele.fish`
}

// Run prints the script.
func (c *completionCmd) Run(env *Env, parsed *kong.Context) error {
	return env.print(manual.Completion(c.Shell, parsed.Model))
}

type manCmd struct {
	Markdown bool `help:"Print it as Markdown."`
}

// Help is shown below the flags.
func (*manCmd) Help() string { return "To read it: triskele man | man -l -" }

// Run prints the page.
func (c *manCmd) Run(env *Env, parsed *kong.Context) error {
	if c.Markdown {
		return env.print(about.Markdown(parsed.Model))
	}
	return env.print(about.Man(parsed.Model, 1))
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/services/agents/internal/render"
)

type configCmd struct {
	Show configShowCmd `cmd:"" help:"Show each setting and its source: the environment, the configuration file or the default."`
}

type configShowCmd struct {
	Command []string `arg:"" optional:"" help:"Show all settings of this command, such as recall or graph stats. By default, only changed settings of all commands are shown."`
	JSON    bool     `help:"Print each setting as a line of JSON."`
}

// Help is shown below the flags.
func (*configShowCmd) Help() string {
	return "A flag overrides its environment variable, which overrides the configuration file, which overrides the default. In the file, a setting at the top level applies to all commands and has its variable's name without TRISKELE_, in lower case and with hyphens. A setting for one command stands below the command's name and has the flag's name. Secrets are masked."
}

// Run lists settings.
func (c *configShowCmd) Run(_ context.Context, env *Env, parsed *kong.Context, source *settings.Source) error {
	node := parsed.Model.Node
	for _, name := range c.Command {
		if node = child(node, name); node == nil {
			return fmt.Errorf("no command is called %q: see `triskele --help`", strings.Join(c.Command, " "))
		}
	}
	var list []settings.Setting
	if len(c.Command) > 0 {
		list = source.Effective(parsed, node)
	} else {
		list = given(source, parsed)
	}
	if c.JSON {
		return showLines(env, list)
	}
	text := "no configuration file; looked for " + strings.Join(settings.Candidates(parsed.Model.Name), ", ") + "\n"
	if file := source.File(); file != "" {
		text = "configuration file " + file + "\n"
	}
	if len(list) == 0 {
		return env.print(text + "nothing is set\n")
	}
	table := render.Table{Columns: []render.Column{{Name: "command"}, {Name: "setting"}, {Name: "value", Gives: true}, {Name: "from", Gives: true}}}
	for _, one := range list {
		table.Add(cmp.Or(one.Command, "several"), one.Flag, one.Value, strings.TrimSpace(one.Source+" "+one.Where))
	}
	return env.print(text + env.style().Table(table))
}

// child returns the visible command of that name below a node, or nil.
func child(node *kong.Node, name string) *kong.Node {
	for _, n := range node.Children {
		if n.Name == name && !n.Hidden {
			return n
		}
	}
	return nil
}

// given returns the settings of all commands that are not defaults. Commands that share a setting list it once.
func given(source *settings.Source, parsed *kong.Context) (list []settings.Setting) {
	seen := map[settings.Setting]int{}
	for _, leaf := range parsed.Model.Leaves(true) {
		for _, one := range source.Effective(parsed, leaf) {
			if one.Source == "default" || one.Source == "flag" {
				continue
			}
			shared := one
			shared.Command = ""
			if i, ok := seen[shared]; ok {
				list[i].Command = ""
				continue
			}
			seen[shared] = len(list)
			list = append(list, one)
		}
	}
	return list
}

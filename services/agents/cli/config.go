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

// Run lists settings.
func (c *configShowCmd) Run(_ context.Context, env *Env, parsed *kong.Context, source *settings.Source) error {
	node := commandAt(parsed.Model.Node, c.Command)
	if node == nil {
		return fmt.Errorf("no command is called %q: see `triskele --help`", strings.Join(c.Command, " "))
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
	switch file := source.File(); {
	case file != "":
		text = "configuration file " + file + "\n"
	case source.Config == settings.Off:
		text = "no configuration file is read: it is off\n"
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

package manual

import (
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// Flag prints the manual page ("man"), the reference ("markdown") or a shell's completion script, and exits. It is
// for programs without commands for it. Bind the Program.
type Flag string

// BeforeReset implements kong's interface. It runs before any check.
func (Flag) BeforeReset(ctx *kong.Context, trace *kong.Path, p Program) error {
	var text string
	switch form := string(ctx.FlagValue(trace.Flag).(Flag)); {
	case form == "man":
		text = p.Man(ctx.Model, 8)
	case form == "markdown":
		text = p.Markdown(ctx.Model)
	case slices.Contains(Shells, form):
		text = Completion(form, ctx.Model)
	default:
		return fmt.Errorf("--%s must be man, markdown or one of %v", trace.Flag.Name, Shells)
	}
	if _, err := ctx.Stdout.Write([]byte(text)); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

package settings

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Wrong marks an error in the command line, a variable or the configuration file that shows only after they are parsed.
// Programs exit with 2 for it. It returns nil for nil.
func Wrong(err error) error {
	if err == nil {
		return nil
	}
	return &wrongError{err}
}

// IsWrong reports whether an error is marked by Wrong.
func IsWrong(err error) bool {
	_, is := errors.AsType[*wrongError](err)
	return is
}

type wrongError struct{ error }

func (e *wrongError) Unwrap() error { return e.error }

// Durations is an option of every program's parser: no flag may be a negative duration.
func Durations() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return fmt.Errorf("expected duration but got %q: %w", text, err)
		case d < 0:
			return fmt.Errorf("must not be negative, but is %s", text)
		}
		target.SetInt(int64(d))
		return nil
	}))
}

// Needs refuses a flag that would be ignored. A flag with the tag `needs:"a,b"` counts only if --a or --b is set. It
// checks the flags of the selected command, wherever their values come from.
func Needs(ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	flags := map[string]*kong.Flag{}
	for _, flag := range node.Flags {
		flags[flag.Name] = flag
	}
	for _, flag := range node.Flags {
		if !flag.Tag.Has("needs") || !set(ctx, flag) {
			continue
		}
		met, needs := false, strings.Split(flag.Tag.Get("needs"), ",")
		for _, name := range needs {
			met = met || !flags[name].Target.IsZero()
		}
		if !met {
			return fmt.Errorf("--%s counts only with --%s: give that as well", flag.Name, strings.Join(needs, " or --"))
		}
	}
	return nil
}

// set reports whether a flag has a value that is not its default. An empty one, or 0, is like none.
func set(ctx *kong.Context, flag *kong.Flag) bool {
	_, value, _ := variable(flag)
	given := value != ""
	for _, path := range ctx.Path { // of the command line and the file
		given = given || path.Flag == flag
	}
	return given && !flag.Target.IsZero() && (flag.Target.Kind() != reflect.Slice || flag.Target.Len() > 0)
}

package settings

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// Setting is the value of a command's flag.
type Setting struct {
	Command string `json:"command,omitempty"` // "curation list"; "" for the program itself or several commands
	Flag    string `json:"flag"`              // without hyphens before it
	Value   string `json:"value"`             // as it would be given to the flag; secrets are masked
	Source  string `json:"source"`            // "flag", "environment", "file" or "default"
	Where   string `json:"where,omitempty"`   // the variable, or the file and its line
}

// Effective returns the settings of a command and of those above it. Only ctx's own command has any from the command
// line.
func (s *Source) Effective(ctx *kong.Context, node *kong.Node) (out []Setting) {
	for _, flags := range node.AllFlags(false) {
		for _, flag := range flags {
			if settable(flag) {
				out = append(out, s.effective(ctx, node, flag))
			}
		}
	}
	return out
}

func (s *Source) effective(ctx *kong.Context, node *kong.Node, flag *kong.Flag) Setting {
	one := Setting{Command: strings.Join(names(node), " "), Flag: flag.Name, Value: flag.Default, Source: "default"}
	if name, value, ok := variable(flag); ok {
		one.Value, one.Source, one.Where = value, "environment", name
	} else if s.file != nil {
		for owner := node; owner != nil; owner = owner.Parent {
			value := s.file.find(owner, flag)
			if value == nil {
				continue
			}
			if text, err := s.file.text(flag, value); err == nil {
				one.Value, one.Source, one.Where = text, "file", fmt.Sprintf("%s:%d", s.file.path, value.Line)
			}
			break
		}
	}
	for _, path := range ctx.Path {
		if path.Flag == flag && !path.Resolved {
			one.Value, one.Source, one.Where = given(ctx, flag), "flag", ""
		}
	}
	one.Value = masked(flag, one.Value)
	return one
}

// given is a flag's value on the command line.
func given(ctx *kong.Context, flag *kong.Flag) string {
	switch value := ctx.FlagValue(flag).(type) {
	case []byte:
		return fmt.Sprintf("a file of %d bytes", len(value))
	case []string:
		return kong.JoinEscaped(value, flag.Tag.Sep)
	default:
		return fmt.Sprint(reflect.Indirect(reflect.ValueOf(value)))
	}
}

// mask stands for a secret, whatever its length.
const mask = "********"

var (
	passwordInURL = regexp.MustCompile(`(://[^:@/\s]*:)\S*@`)
	passwordField = regexp.MustCompile(`(?i)\b((?:sslpassword|password|passwd|token|secret|api_?key|key)=)('[^']*'|[^&\s]+)`)
)

// masked is a value without secrets: flags with the tag `secret:""` hold one, and URLs may hold a password.
func masked(flag *kong.Flag, value string) string {
	if flag.Tag.Has("secret") && value != "" {
		return mask
	}
	return passwordField.ReplaceAllString(passwordInURL.ReplaceAllString(value, "${1}"+mask+"@"), "${1}"+mask)
}

// Write prints settings as a table.
func Write(out io.Writer, settings []Setting) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SETTING\tVALUE\tFROM")
	for _, s := range settings {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", s.Flag, s.Value, strings.TrimSpace(s.Source+" "+s.Where))
	}
	return table.Flush()
}

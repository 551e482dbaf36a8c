// Package settings lets a program's settings come from a YAML file, too. The precedence in all programs is: flag,
// environment variable, file, default.
//
//  1. A program embeds Source in its flags. BeforeResolve reads the file that --config names, else the first
//     candidate that exists.
//  2. read finds the values of flags, and refuses unknown keys.
//  3. kong calls Resolve for flags that the command line does not set. The value of the command's section of the file counts,
//     else that at the top.
package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// envPrefix starts the project's environment variables. A key at the top of a file is a variable's name without it,
// in lower case and with hyphens. It sets every flag that reads the variable.
const envPrefix = "TRISKELE_"

// unsettable are flags that no file sets: they are not about the work.
var unsettable = []string{"help", "version", "config", "manual"}

// Source is the settings file. Embed it, without a name, in a program's flags.
type Source struct {
	Config string `help:"Configuration file, or \"off\" for none. By default, triskele/PROGRAM.yaml in ~/.config or the platform's configuration folder, else in /etc." env:"TRISKELE_CONFIG" placeholder:"FILE"`
}

// BeforeResolve implements kong's interface. It reads the file and refuses unknown keys.
func (s *Source) BeforeResolve(ctx *kong.Context) error {
	path := ""
	for _, flag := range ctx.Model.Flags {
		if flag.Name == "config" {
			path, _ = ctx.FlagValue(flag).(string)
		}
	}
	f, err := open(path, Candidates(ctx.Model.Name))
	if err != nil || f == nil {
		return err
	}
	if err := f.read(ctx.Model.Node, f.root); err != nil {
		return err
	}
	ctx.AddResolver(f)
	return nil
}

// Candidates are the default paths of the file. The first that exists is read.
func Candidates(program string) (paths []string) {
	if folder, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(folder, "triskele", program+".yaml"))
	}
	if runtime.GOOS != "windows" {
		paths = append(paths, filepath.Join("/etc/triskele", program+".yaml"))
	}
	return paths
}

// file is a parsed file. It implements kong.Resolver.
type file struct {
	path string
	root *yaml.Node                // a mapping
	own  map[*kong.Flag]*yaml.Node // values in the section of a flag's command
	top  map[string]*yaml.Node     // values at the top
}

// open parses the file at path, or the first candidate that exists if path is empty. It returns nil for none.
func open(path string, candidates []string) (*file, error) {
	switch path {
	case "off":
		return nil, nil
	case "":
	default:
		candidates = []string{path}
	}
	for _, candidate := range candidates {
		text, err := os.ReadFile(candidate)
		if path == "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w (--config names another configuration file, or \"off\")", err)
		}
		return parse(candidate, text)
	}
	return nil, nil
}

func parse(path string, text []byte) (*file, error) {
	f := &file{path: path, own: map[*kong.Flag]*yaml.Node{}, top: map[string]*yaml.Node{}}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&document)
	if err == nil {
		err = decoder.Decode(&second)
	}
	if err == nil {
		return nil, f.wrong(&second, "the file must have one YAML document: anything after --- would be ignored")
	}
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(document.Content) == 0 {
		f.root = &yaml.Node{Kind: yaml.MappingNode}
		return f, nil
	}
	if f.root = document.Content[0]; f.root.Kind != yaml.MappingNode {
		return nil, f.wrong(f.root, "settings must have the form KEY: VALUE")
	}
	return f, nil
}

func (f *file) wrong(at *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.path, at.Line, fmt.Sprintf(format, args...))
}

// read reads a command's section. It refuses a key that is no flag of the command, no command below it and, at the top, no variable.
func (f *file) read(node *kong.Node, section *yaml.Node) error {
	known := map[string]*kong.Flag{} // nil for a variable's
	if node.Parent == nil {
		_ = kong.Visit(node, func(v kong.Visitable, next kong.Next) error {
			if flag, ok := v.(*kong.Flag); ok && settable(flag) {
				for _, key := range keys(flag) {
					known[key] = nil
				}
			}
			return next(nil)
		})
	}
	for _, flag := range node.Flags {
		if settable(flag) {
			known[flag.Name] = flag
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		flag, isKnown := known[key.Value]
		child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == key.Value })
		switch {
		case seen[key.Value]:
			return f.wrong(key, "%q is set twice", key.Value)
		case child >= 0 && value.Kind == yaml.MappingNode:
			if err := f.read(node.Children[child], value); err != nil {
				return err
			}
		case isKnown:
			f.own[flag] = value
			if node.Parent == nil {
				f.top[key.Value] = value
			}
		case child >= 0:
			return f.wrong(key, "%q is a command: its settings must follow below it, each as KEY: VALUE", key.Value)
		default:
			return f.wrong(key, "no setting is called %q", key.Value)
		}
		seen[key.Value] = true
	}
	return nil
}

func settable(flag *kong.Flag) bool { return !slices.Contains(unsettable, flag.Name) }

// keys are a flag's names at the top of a file, from its environment variables.
func keys(flag *kong.Flag) (out []string) {
	for _, env := range flag.Tag.Envs {
		if name, ours := strings.CutPrefix(env, envPrefix); ours {
			out = append(out, strings.ToLower(strings.ReplaceAll(name, "_", "-")))
		}
	}
	return out
}

func variable(flag *kong.Flag) (name, value string, ok bool) {
	for _, name := range flag.Tag.Envs {
		if value, ok := os.LookupEnv(name); ok {
			return name, value, true
		}
	}
	return "", "", false
}

// Validate implements kong.Resolver. The file has been checked by then.
func (*file) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver. It returns the file's text, unless a variable sets the flag.
func (f *file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if _, _, given := variable(flag); given || !settable(flag) {
		return nil, nil
	}
	value := f.own[flag]
	for _, key := range keys(flag) {
		if top := f.top[key]; value == nil && top != nil && top.Kind != yaml.MappingNode {
			value = top
		}
	}
	if value == nil {
		return nil, nil
	}
	text, err := f.text(flag, value)
	if err != nil {
		return nil, err
	}
	// An invalid value is refused here, where its line is known.
	set := flag.Set
	err = flag.Parse(kong.Scan().PushTyped(text, kong.FlagValueToken), reflect.New(flag.Target.Type()).Elem())
	flag.Set = set
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the flag's name, which kong adds again
		}
		return nil, f.wrong(value, "%v", err)
	}
	return text, nil
}

// text is a value as in an environment variable. Lists and maps are one line, with the flag's separator.
func (f *file) text(flag *kong.Flag, value *yaml.Node) (string, error) {
	scalar := func(n *yaml.Node) (string, error) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return "", f.wrong(n, "--%s needs a value", flag.Name)
		}
		return n.Value, nil
	}
	var parts []string
	separator := flag.Tag.Sep
	switch {
	case value.Kind == yaml.SequenceNode && flag.IsCumulative():
		for _, n := range value.Content {
			part, err := scalar(n)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
	case value.Kind == yaml.MappingNode && flag.IsMap():
		separator = flag.Tag.MapSep
		for i := 0; i+1 < len(value.Content); i += 2 {
			part, err := scalar(value.Content[i+1])
			if err != nil {
				return "", err
			}
			parts = append(parts, value.Content[i].Value+"="+part)
		}
	default:
		return scalar(value)
	}
	return kong.JoinEscaped(parts, separator), nil
}

// Secret returns the text of a file, without white space around it. Without a file it is the first of the values that is not empty.
func Secret(file string, values ...string) (string, error) {
	if file == "" {
		return cmp.Or(values...), nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

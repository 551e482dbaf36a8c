package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// document is a JSON text with its comments, trailing commas and white space.
type document struct {
	root   hujson.Value
	indent string
}

// mark is the byte order mark, with which editors on Windows begin a text.
const mark = "\ufeff"

// unmarked returns the byte order mark that a text may begin with, and the rest.
func unmarked(text []byte) (bom, rest []byte) {
	n := len(text) - len(bytes.TrimPrefix(text, []byte(mark)))
	return text[:n], text[n:]
}

// parse parses a JSON text, which may begin with a byte order mark. An empty one is an empty object.
func parse(text []byte) (*document, error) {
	text, marked := bytes.CutPrefix(text, []byte(mark))
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it has no JSON object")
	}
	if marked {
		root.BeforeExtra = append(hujson.Extra(mark), root.BeforeExtra...)
	}
	d := &document{root, "  "}
	if len(object.Members) > 0 {
		if space := string(object.Members[0].Name.BeforeExtra); strings.Contains(space, "\n") {
			if last := space[strings.LastIndexByte(space, '\n')+1:]; last != "" && strings.Trim(last, " \t") == "" {
				d.indent = last
			}
		}
	}
	return d, nil
}

// text returns the document. parse(d.text()) gives the same.
func (d *document) text() []byte { return d.root.Pack() }

// line is a line end with the indentation of a depth.
func (d *document) line(depth int) string { return "\n" + strings.Repeat(d.indent, depth) }

// value converts v for a depth of the document.
func (d *document) value(v any, depth int) (hujson.Value, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(strings.Repeat(d.indent, depth), d.indent)
	if err := encoder.Encode(v); err != nil {
		return hujson.Value{}, err
	}
	return hujson.Parse(bytes.TrimSpace(b.Bytes()))
}

// find returns the value at a path of member names, or nil.
func (d *document) find(path ...string) *hujson.Value {
	value := &d.root
	for _, name := range path {
		object, ok := value.Value.(*hujson.Object)
		if !ok {
			return nil
		}
		at := member(object, name)
		if at < 0 {
			return nil
		}
		value = &object.Members[at].Value
	}
	return value
}

// member returns the index of a member, or -1. Of several with the name, agents read the last.
func member(o *hujson.Object, name string) int {
	for i, m := range slices.Backward(o.Members) {
		if literal, ok := m.Name.Value.(hujson.Literal); ok && literal.String() == name {
			return i
		}
	}
	return -1
}

// set stores v at a path. It makes the objects on the way. A value that says the same stays as it is.
func (d *document) set(v any, path ...string) error {
	if old := d.find(path...); old != nil {
		if same(*old, v) {
			return nil
		}
		packed, err := d.value(v, len(path))
		if err != nil {
			return err
		}
		old.Value = packed.Value
		return nil
	}
	depth := 0 // of the innermost object that is there
	for d.find(path[:depth+1]...) != nil {
		depth++
	}
	object, ok := d.find(path[:depth]...).Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%q is no object", strings.Join(path[:depth], "."))
	}
	for _, name := range slices.Backward(path[depth+1:]) {
		v = map[string]any{name: v}
	}
	packed, err := d.value(v, depth+1)
	if err != nil {
		return err
	}
	packed.BeforeExtra = hujson.Extra(" ")
	one := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(path[depth])}, Value: packed}
	object.Members = appended(object.Members, &object.AfterExtra, one, d.line(depth+1), d.line(depth))
	return nil
}

// remove removes the value at a path, and the objects around it that are empty then.
func (d *document) remove(path ...string) {
	if d.find(path...) == nil {
		return // an empty object was somebody else's
	}
	for n := len(path); n > 0; n-- {
		object := d.find(path[:n-1]...).Value.(*hujson.Object)
		i := member(object, path[n-1])
		if n < len(path) && !empty(object.Members[i].Value) {
			return
		}
		object.Members = cut(object.Members, &object.AfterExtra, i)
	}
}

// empty reports whether a value is an object or an array without contents and comments.
func empty(v hujson.Value) bool {
	text := strings.Join(strings.Fields(string(v.Pack())), "")
	return text == "{}" || text == "[]"
}

// item is a part of a list of values: a member of an object, or an element of an array.
type item interface {
	hujson.ObjectMember | hujson.Value
}

// edges returns the white space and comments before and after an item.
func edges[T item](i *T) (before, after *hujson.Extra) {
	switch i := any(i).(type) {
	case *hujson.ObjectMember:
		return &i.Name.BeforeExtra, &i.Value.AfterExtra
	case *hujson.Value:
		return &i.BeforeExtra, &i.AfterExtra
	}
	return nil, nil
}

// appended appends an item to a list. end is the text before the closing bracket. Comments after the last item stay with that item.
// inner and outer are line ends with the indentation of items and of the bracket. A list in one line stays in one.
func appended[T item](items []T, end *hujson.Extra, one T, inner, outer string) []T {
	before, after := edges(&one)
	if len(items) > 0 {
		_, last := edges(&items[len(items)-1])
		if *last != nil { // there is a trailing comma
			*after = hujson.Extra{}
		}
	}
	comments := strings.TrimRight(string(*end), " \t\r\n")
	if len(items) > 0 && !strings.Contains(string(*end), "\n") {
		inner, outer = " ", string(*end)[len(comments):]
	}
	*before = append(hujson.Extra(comments), inner...)
	*end = hujson.Extra(outer)
	return append(items, one)
}

// cut removes an item from a list. Comments before it stay.
func cut[T item](items []T, end *hujson.Extra, i int) []T {
	before, after := edges(&items[i])
	comments := strings.TrimRight(string(*before), " \t\r\n")
	trailing := *after
	rest := slices.Delete(slices.Clone(items), i, i+1)
	switch {
	case len(rest) == 0:
		*end = append(hujson.Extra(comments), *end...)
		if strings.TrimSpace(string(*end)) == "" {
			*end = nil
		}
	case i < len(rest):
		next, _ := edges(&rest[i])
		*next = append(hujson.Extra(comments), *next...)
	default:
		_, last := edges(&rest[i-1])
		if trailing == nil {
			*end = append(hujson.Extra(string(*last)+comments), *end...)
			*last = nil
		} else {
			*end = append(hujson.Extra(comments), *end...)
			if *last == nil {
				*last = hujson.Extra{}
			}
		}
	}
	return rest
}

// same reports whether a value says the same as v, whatever its comments and white space.
func same(value hujson.Value, v any) bool {
	var x, y any
	want, err := json.Marshal(v)
	return err == nil && decode(value, &x) == nil && json.Unmarshal(want, &y) == nil && reflect.DeepEqual(x, y)
}

// decode unmarshals a value without its comments.
func decode(value hujson.Value, into any) error {
	plain := value.Clone()
	plain.Standardize()
	return json.Unmarshal(plain.Pack(), into)
}

// nothing reports whether a text has no content: no member but a version.
func nothing(text []byte) bool {
	d, err := parse(text)
	if err != nil {
		return len(bytes.TrimSpace(text)) == 0
	}
	d.remove("version")
	return empty(d.root)
}

// word is a word of a command line as a shell reads it.
const word = `(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"';&|<>()])+`

var (
	// line matches the command of a hook: what stands before the program, the program, its flags, and what the shell does with it.
	line  = regexp.MustCompile(`^(|(?:` + word + `|[\s;&|<>()])*?[\s;&|<>()])(` + word + `) hook((?:\s+` + word + `)*)((?s:[\s;&|<>()].*)?)$`)
	words = regexp.MustCompile(word)
	// variables matches what sets variables for one program.
	variables = regexp.MustCompile(`^(?:(?:env|\w+=(?:` + word + `)?)\s+)*$`)
	// usual matches this program by its usual name.
	usual = regexp.MustCompile(`^["']?(?:.*[/\\])?triskele(?:\.exe)?["']?$`)
)

// hook is an entry in a list of hooks. Clients of the Claude family nest it in a group; Cursor does not.
type hook struct {
	Type    string `json:"type,omitempty"`
	Command string `json:"command"`
	Timeout int    `json:"timeout,omitempty"`
}

type group struct {
	Hooks []hook `json:"hooks"`
}

// isOurs reports whether a hook runs this program, which may be at other paths than the usual.
func isOurs(command string, paths ...string) bool {
	found := line.FindStringSubmatch(command)
	if found == nil {
		return false
	}
	if !variables.MatchString(found[1]) && !strings.ContainsAny(found[2], `/\`) {
		return false // the name alone may be a word of another program
	}
	return usual.MatchString(found[2]) || slices.ContainsFunc(paths, func(path string) bool { return path != "" && found[2] == quoted(path) })
}

// updated returns the command of a hook with the path and the flags of p. All else that stands there stays.
func updated(command string, p Program) string {
	found := line.FindStringSubmatch(command)
	if strings.HasPrefix(found[4], "(") || strings.Contains(found[3], "`") { // a word that a shell makes of another command: its flags are unknown
		return found[1] + quoted(p.Path) + " hook" + found[3] + found[4]
	}
	have := append([]string{"hook"}, words.FindAllString(found[3], -1)...)
	want := slice.Map(p.Hook, quoted)
	if found[2] == quoted(p.Path) && slices.Equal(merged(have, want), have) {
		return command
	}
	return found[1] + strings.Join(append([]string{quoted(p.Path)}, merged(have, want)...), " ") + found[4]
}

// each calls keep with the command of each hook in a list and with the matcher of its group, which may be "". keep may change the command.
// The hooks that it does not keep are cut, and the groups that have none left.
func each(list *hujson.Array, matcher string, keep func(command *string, matcher string) bool) {
	for i := 0; i < len(list.Elements); {
		entry := document{root: list.Elements[i]}
		kept := true
		var fields struct{ Matcher, Command string }
		_ = decode(entry.root, &fields) // the rest may have any form
		if nested := entry.find("hooks"); nested == nil {
			command := fields.Command
			kept = command == "" || keep(&command, matcher)
			if command != fields.Command {
				entry.find("command").Value = hujson.String(command)
			}
		} else if group, ok := nested.Value.(*hujson.Array); ok && len(group.Elements) > 0 {
			each(group, fields.Matcher, keep)
			kept = len(group.Elements) > 0
		}
		if kept {
			i++
		} else {
			list.Elements = cut(list.Elements, &list.AfterExtra, i)
		}
	}
}

// hooks returns the list of an event, or nil if there is none.
func (d *document) hooks(event string) (*hujson.Array, error) {
	found := d.find("hooks", event)
	if found == nil {
		return nil, nil
	}
	list, ok := found.Value.(*hujson.Array)
	if !ok {
		return nil, fmt.Errorf("hooks.%s is no array", event)
	}
	return list, nil
}

// setHook brings this program's hook of an event up to date, removes others with the same matcher, and adds entry if there is none.
func (d *document) setHook(event string, entry any, p Program, started string) error {
	if d.find("hooks", event) == nil {
		if err := d.set([]any{}, "hooks", event); err != nil {
			return err
		}
	}
	list, err := d.hooks(event)
	if err != nil {
		return err
	}
	kept := map[string]bool{} // by the matcher: hooks with different ones do not run twice
	each(list, "", func(command *string, matcher string) bool {
		if !isOurs(*command, p.Path, started) {
			return true
		}
		if kept[matcher] {
			return false
		}
		kept[matcher] = true
		*command = updated(*command, p)
		return true
	})
	if len(kept) > 0 {
		return nil
	}
	packed, err := d.value(entry, 3)
	if err != nil {
		return err
	}
	list.Elements = appended(list.Elements, &list.AfterExtra, packed, d.line(3), d.line(2))
	return nil
}

// removeHooks removes this program's entries of an event.
func (d *document) removeHooks(event string, paths ...string) {
	list, err := d.hooks(event)
	if err != nil || list == nil {
		return
	}
	before := len(list.Elements)
	each(list, "", func(command *string, _ string) bool { return !isOurs(*command, paths...) })
	if len(list.Elements) < before && empty(*d.find("hooks", event)) {
		d.remove("hooks", event)
	}
}

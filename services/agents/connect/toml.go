package connect

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/triskele/triskele/fuser/platform/slice"
)

const tables = "mcp_servers"

var table = []string{tables, "triskele"}

var (
	errInline  = errors.New("it has the server triskele in a form that this program does not edit; remove that server by hand")
	errServers = errors.New("its mcp_servers is an inline table, to which this program adds no server; write each server as a table of its own, as in [mcp_servers.NAME]")
)

// part is a header, a key with its value, or a comment in lines of its own. Parts are lines; blank lines stand between them.
type part struct {
	kind     unstable.Kind
	in       []string // the table of the last header
	key      []string
	from, to int // of the lines, with the last line's end
	value    int // where the key ends
	end      int // where the value ends
}

func parts(text []byte) (list []part, err error) {
	p := unstable.Parser{KeepComments: true}
	p.Reset(text)
	var in []string
	for p.NextExpression() {
		node := p.Expression()
		one := part{kind: node.Kind, end: -1}
		at := node.Raw
		if node.Kind != unstable.Comment {
			for keys := node.Key(); keys.Next(); {
				if len(one.key) == 0 {
					at = keys.Node().Raw
				}
				one.key = append(one.key, string(keys.Node().Data))
				one.value = int(keys.Node().Raw.Offset + keys.Node().Raw.Length)
			}
			if comment := node.Next(); comment != nil {
				one.end = int(comment.Raw.Offset)
			}
		}
		if node.Kind == unstable.Table || node.Kind == unstable.ArrayTable {
			in = one.key
		}
		one.in = in
		one.from = bytes.LastIndexByte(text[:at.Offset], '\n') + 1
		list = append(list, one)
	}
	if p.Error() != nil {
		return nil, fmt.Errorf("it is not TOML: %w", p.Error())
	}
	for i := range list {
		next := len(text)
		if i+1 < len(list) {
			next = list[i+1].from
		}
		last := list[i].from + len(bytes.TrimRight(text[list[i].from:next], " \t\r\n"))
		list[i].to = next
		if end := bytes.IndexByte(text[last:next], '\n'); end >= 0 {
			list[i].to = last + end + 1
		}
		if list[i].end < 0 {
			list[i].end = last
		}
		list[i].end = list[i].value + len(bytes.TrimRight(text[list[i].value:list[i].end], " \t"))
	}
	return list, nil
}

// addTable appends the MCP server as a table, or sets the command line in the one there is. All other bytes stay as they are.
func addTable(text []byte, p Program) ([]byte, error) {
	want, err := unmarshal(text)
	if err != nil {
		return nil, err
	}
	servers, _ := want[tables].(map[string]any)
	server, has := servers["triskele"].(map[string]any)
	given := p.MCP
	if list, ok := server["args"].([]any); ok {
		given = merged(slice.Map(list, func(arg any) string { return fmt.Sprint(arg) }), p.MCP)
	}
	args := slice.Map(given, func(arg string) any { return arg })
	lines := []struct {
		key, text string
		value     any
	}{{"command", strconv.Quote(p.Path), p.Path}, {"args", "[" + strings.Join(slice.Map(given, strconv.Quote), ", ") + "]", args}}
	after := slices.Clone(text)
	if server["command"] == nil { // there is none, or one that is not started as a program
		if after, _, err = removeTable(text); err != nil {
			return nil, err
		}
		if after = ended(after); len(after) > 0 {
			after = append(after, '\n')
		}
		after = fmt.Appendf(after, "[%s.triskele]\n", tables)
		for _, line := range lines {
			after = fmt.Appendf(after, "%s = %s\n", line.key, line.text)
		}
		if servers == nil {
			servers = map[string]any{}
			want[tables] = servers
		}
		server = map[string]any{"command": p.Path, "args": args}
		servers["triskele"] = server
	}
	for _, line := range lines {
		if reflect.DeepEqual(server[line.key], line.value) {
			continue
		}
		list, err := parts(after)
		if err != nil {
			return nil, err
		}
		at := func(kind unstable.Kind, key ...string) int {
			return slices.IndexFunc(list, func(x part) bool { return x.kind == kind && slices.Equal(x.in, table) && slices.Equal(x.key, key) })
		}
		if i := at(unstable.KeyValue, line.key); i >= 0 {
			after = slices.Replace(after, list[i].value, list[i].end, []byte(" = "+line.text)...)
		} else if i := at(unstable.KeyValue, "command"); i >= 0 {
			after = slices.Insert(after, list[i].end, []byte("\n"+line.key+" = "+line.text)...)
		}
		server[line.key] = line.value
	}
	switch got, err := unmarshal(after); {
	case err != nil && !has:
		return nil, errServers
	case err != nil || !reflect.DeepEqual(got, want):
		return nil, errInline
	}
	return after, nil
}

// ended returns a text with the end of its last line.
func ended(text []byte) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return append(text, '\n')
	}
	return text
}

// removeTable removes the tables of this program, each with the blank line before it, and checks that nothing else is gone. It returns
// the text without them, and them.
func removeTable(text []byte) (after, removed []byte, err error) {
	want, err := unmarshal(text)
	if err != nil {
		return nil, nil, err
	}
	list, err := parts(text)
	if err != nil {
		return nil, nil, err
	}
	after = slices.Clone(text)
	for i, to := len(list)-1, 0; i >= 0; i-- { // backwards, so that the places of those before stay
		if len(list[i].in) < 2 || !slices.Equal(list[i].in[:2], table) {
			continue
		}
		if list[i].kind != unstable.Comment { // a comment below the last line of a table may be about the next one
			to = max(to, list[i].to)
		}
		if list[i].kind == unstable.Table || list[i].kind == unstable.ArrayTable {
			from := list[i].from
			if before := bytes.TrimSuffix(bytes.TrimSuffix(text[:from], []byte("\n")), []byte("\r")); len(before) == 0 || before[len(before)-1] == '\n' {
				from = len(before)
			}
			removed = slices.Concat(after[from:to], removed)
			after, to = slices.Delete(after, from, to), 0
		}
	}
	if servers, ok := want[tables].(map[string]any); ok {
		delete(servers, "triskele")
		if len(servers) == 0 {
			delete(want, tables)
		}
	}
	got, err := unmarshal(after)
	if servers, ok := got[tables].(map[string]any); ok && len(servers) == 0 {
		delete(got, tables)
	}
	if err != nil || !reflect.DeepEqual(want, got) {
		return nil, nil, errInline
	}
	return after, removed, nil
}

func unmarshal(text []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	return values, nil
}

// tableServer returns the command line of the MCP server, or nil.
func tableServer(text []byte) ([]string, error) {
	var config struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	server, ok := config.Servers["triskele"]
	if !ok {
		return nil, nil
	}
	return append([]string{server.Command}, server.Args...), nil
}

package connect

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// tables is the key of MCP servers in Codex's configuration.
const tables = "mcp_servers"

// header matches the headers of this program's tables.
var header = regexp.MustCompile(`^\s*\[\s*` + tables + `\s*\.\s*"?triskele"?\s*[\].]`)

var errInline = errors.New("it has the server triskele in a form that this program does not edit; remove that server by hand")

// addTable appends the MCP server as a table, or replaces it. The other lines stay as they are.
func addTable(text []byte, p Program) ([]byte, error) {
	rest, err := removeTable(text)
	if err != nil {
		return nil, err
	}
	quoted := make([]string, len(p.MCP))
	for i, arg := range p.MCP {
		quoted[i] = strconv.Quote(arg)
	}
	table := fmt.Sprintf("[%s.triskele]\ncommand = %s\nargs = [%s]\n", tables, strconv.Quote(p.Path), strings.Join(quoted, ", "))
	if held, err := tableServer(text); err == nil && reflect.DeepEqual(held, append([]string{p.Path}, p.MCP...)) {
		return text, nil
	}
	after := string(rest)
	if after != "" {
		after = strings.TrimRight(after, "\n") + "\n\n"
	}
	after += table
	if held, err := tableServer([]byte(after)); err != nil || !reflect.DeepEqual(held, append([]string{p.Path}, p.MCP...)) {
		return nil, errors.Join(errInline, err)
	}
	return []byte(after), nil
}

// removeTable removes the tables of this program, and checks that nothing else is gone.
func removeTable(text []byte) ([]byte, error) {
	var want, got map[string]any
	if err := toml.Unmarshal(text, &want); err != nil {
		return nil, fmt.Errorf("it is not TOML: %w", err)
	}
	var b strings.Builder
	inside := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "[") {
			inside = header.MatchString(line)
		}
		if !inside {
			b.WriteString(line)
		}
	}
	after := b.String()
	if len(after) < len(text) {
		after = strings.TrimRight(after, "\n")
		if after != "" {
			after += "\n"
		}
	}
	if err := toml.Unmarshal([]byte(after), &got); err != nil {
		return nil, errInline
	}
	if servers, ok := want[tables].(map[string]any); ok {
		delete(servers, "triskele")
		if len(servers) == 0 {
			delete(want, tables)
		}
	}
	if len(want) != len(got) || len(want) > 0 && !reflect.DeepEqual(want, got) {
		return nil, errInline
	}
	return []byte(after), nil
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

package connect

import (
	"bytes"
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/triskele/triskele/fuser/platform/slice"
)

// Clients are the agents that can be connected, by name.
var Clients = []Client{
	{"claude-code", "Claude Code", true, func(h Home) ([]file, error) {
		settings, servers, err := claude(h)
		return []file{
			{path: servers, servers: "mcpServers", kind: "stdio"},
			{path: settings, events: []string{"SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"}},
		}, err
	}},
	{"claude-desktop", "Claude Desktop", false, func(h Home) ([]file, error) {
		folder, err := h.Settings("Claude")
		return []file{{path: filepath.Join(folder, "claude_desktop_config.json"), servers: "mcpServers"}}, err
	}},
	{"codex", "Codex", true, func(h Home) ([]file, error) {
		folder, err := h.Under("CODEX_HOME", ".codex")
		return []file{
			{path: filepath.Join(folder, "config.toml"), toml: true},
			{path: filepath.Join(folder, "hooks.json"), events: []string{"SessionStart", "UserPromptSubmit", "Stop", "PreCompact"}},
		}, err
	}},
	{"cursor", "Cursor", true, func(h Home) ([]file, error) {
		folder, err := h.Under("", ".cursor")
		return []file{
			{path: filepath.Join(folder, "mcp.json"), servers: "mcpServers"},
			{path: filepath.Join(folder, "hooks.json"), events: []string{"beforeSubmitPrompt"}, flat: true},
		}, err
	}},
	{"gemini", "Gemini CLI", true, func(h Home) ([]file, error) {
		folder, err := h.Under("", ".gemini")
		return []file{{
			path: filepath.Join(folder, "settings.json"), servers: "mcpServers", milliseconds: true,
			events: []string{"SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd"},
		}}, err
	}},
	{"vscode", "VS Code", false, func(h Home) ([]file, error) {
		folder, err := h.Settings("Code")
		return []file{{path: filepath.Join(folder, "User", "mcp.json"), servers: "servers", kind: "stdio"}}, err
	}},
	{"zed", "Zed", false, func(h Home) ([]file, error) {
		folder, err := zed(h)
		return []file{{path: filepath.Join(folder, "settings.json"), servers: "context_servers"}}, err
	}},
}

// claude returns the settings, and the file of MCP servers, which is beside the folder of settings unless that is moved.
func claude(h Home) (settings, servers string, err error) {
	folder, err := h.Under("CLAUDE_CONFIG_DIR", ".claude")
	if filepath.IsAbs(h.Getenv("CLAUDE_CONFIG_DIR")) {
		return filepath.Join(folder, "settings.json"), filepath.Join(folder, ".claude.json"), err
	}
	return filepath.Join(folder, "settings.json"), folder + ".json", err
}

func zed(h Home) (string, error) {
	switch h.GOOS {
	case "darwin":
		return h.Under("", ".config", "zed")
	case "windows":
		return h.Settings("Zed")
	}
	return h.Settings("zed")
}

// file is a configuration file: JSON with MCP servers, with hooks or with both, or Codex's TOML.
type file struct {
	path    string
	toml    bool
	servers string // the member that has the MCP servers; "" if none has
	kind    string // what a server says of its type; may be ""
	events  []string
	flat    bool // the hooks of an event are in no groups, as in Cursor, and the file has a version
	// milliseconds is the unit of timeouts, instead of seconds.
	milliseconds bool
}

// server is an MCP server in the JSON of most clients.
type server struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// timeout of a hook in seconds. The hook itself is faster: the timeout is for a stuck machine.
const timeout = 5

// add puts the server and the hooks into a text. started is the program that the client starts now, or "": hooks may start it by any
// name.
func (f file) add(text []byte, p Program, started string) ([]byte, error) {
	if f.toml {
		bom, text := unmarked(text)
		after, err := addTable(text, p)
		return slices.Concat(bom, after), err
	}
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := f.addServer(d, p); err != nil {
		return nil, err
	}
	if f.flat && d.find("version") == nil {
		err = d.set(1, "version")
	}
	for _, event := range f.events {
		err = cmp.Or(err, d.setHook(event, f.entry(p), p, started))
	}
	return d.text(), err
}

func (f file) addServer(d *document, p Program) error {
	switch {
	case f.servers == "":
		return nil
	case d.find(f.servers, "triskele", "command") == nil:
		return d.set(server{f.kind, p.Path, p.MCP}, f.servers, "triskele")
	}
	var s server // what else the user wrote there stays
	err := decode(*d.find(f.servers, "triskele"), &s)
	if f.kind != "" {
		err = errors.Join(err, d.set(f.kind, f.servers, "triskele", "type"))
	}
	return errors.Join(err, d.set(p.Path, f.servers, "triskele", "command"), d.set(merged(s.Args, p.MCP), f.servers, "triskele", "args"))
}

// entry is what stands in the list of an event.
func (f file) entry(p Program) any {
	switch {
	case f.flat:
		return hook{Command: p.hook()}
	case f.milliseconds:
		return group{[]hook{{"command", p.hook(), timeout * 1000}}}
	}
	return group{[]hook{{"command", p.hook(), timeout}}}
}

// remove takes the server and the hooks out of a text. It puts the server back that kept, the text from before, has; kept may be nil.
func (f file) remove(text, kept []byte, started string) ([]byte, error) {
	if f.toml {
		if bytes.Equal(text, kept) {
			return text, nil
		}
		bom, text := unmarked(text)
		_, kept := unmarked(kept)
		after, _, err := removeTable(text)
		if _, own, keptErr := removeTable(kept); err == nil && keptErr == nil && len(own) > 0 {
			after = append(ended(after), own...)
			_, err = unmarshal(after)
		}
		return slices.Concat(bom, after), err
	}
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	before := string(d.text())
	if own := d.find(f.servers, "triskele"); f.servers != "" && own != nil {
		if k, err := parse(kept); err == nil && k.find(f.servers, "triskele") != nil {
			own.Value = k.find(f.servers, "triskele").Value
		} else {
			d.remove(f.servers, "triskele")
		}
	}
	for _, event := range f.events {
		d.removeHooks(event, started)
	}
	if after := d.text(); string(after) != before {
		return after, nil
	}
	return text, nil // an empty file stays empty
}

// server returns the command line of the MCP server in a text, or nil.
func (f file) server(text []byte) ([]string, error) {
	if f.toml {
		_, text := unmarked(text)
		return tableServer(text)
	}
	if f.servers == "" {
		return nil, nil
	}
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	found := d.find(f.servers, "triskele")
	if found == nil {
		return nil, nil
	}
	var s server
	if err := decode(*found, &s); err != nil {
		return nil, err
	}
	return append([]string{s.Command}, s.Args...), nil
}

// hooked reports whether each of the events has a hook of this program.
func (f file) hooked(text []byte, started string) bool {
	d, err := parse(text)
	return len(f.events) > 0 && err == nil && !slices.ContainsFunc(f.events, func(event string) bool {
		found := false
		if list, err := d.hooks(event); err == nil && list != nil {
			each(list, "", func(command *string, _ string) bool {
				found = found || isOurs(*command, started)
				return true
			})
		}
		return !found
	})
}

// managed are the flags that connect sets.
var managed = []string{"--namespace", "-n", "--address", "--sqlite"}

// merged returns the words of a command with the managed flags of want. The user's other words stay behind them. Other commands are replaced.
func merged(have, want []string) []string {
	if len(have) == 0 || have[0] != want[0] {
		return want
	}
	set, others := have[:1:1], []string(nil)
	for i := 1; i < len(have); i++ {
		name, value, joined := strings.Cut(have[i], "=")
		switch {
		case !slices.Contains(managed, name):
			others = append(others, have[i])
		case joined:
			set = append(set, name, value)
		default:
			set = append(set, have[i:min(i+2, len(have))]...)
			i++
		}
	}
	if slices.Equal(set, want) {
		return have
	}
	return slices.Concat(want, others)
}

// hook returns the hook's command line for a shell.
func (p Program) hook() string {
	return strings.Join(slice.Map(append([]string{p.Path}, p.Hook...), quoted), " ")
}

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if strings.ContainsAny(word, " \t'$&;()<>|*?`\\") {
		return `"` + strings.NewReplacer("$", `\$`, "`", "\\`").Replace(word) + `"` // a shell expands these within quotes, too
	}
	return word
}

package connect

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// server is an MCP server in the JSON of most clients.
type server struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// Clients are the agents that can be connected, by name.
var Clients = []Client{
	{"claude-code", "Claude Code", true, func(h Home) ([]file, error) {
		settings, servers, err := h.claude()
		return []file{jsonServer(servers, "stdio", "mcpServers"), jsonHooks(settings, claudeEvents, 1)}, err
	}},
	{"claude-desktop", "Claude Desktop", false, func(h Home) ([]file, error) {
		folder, err := h.application("Claude")
		return []file{jsonServer(filepath.Join(folder, "claude_desktop_config.json"), "", "mcpServers")}, err
	}},
	{"codex", "Codex", true, func(h Home) ([]file, error) {
		folder, err := h.under("CODEX_HOME", ".codex")
		return []file{
			{path: filepath.Join(folder, "config.toml"), add: addTable, remove: removeTable, server: tableServer},
			jsonHooks(filepath.Join(folder, "hooks.json"), codexEvents, 1),
		}, err
	}},
	{"cursor", "Cursor", true, func(h Home) ([]file, error) {
		folder, err := h.under("", ".cursor")
		return []file{jsonServer(filepath.Join(folder, "mcp.json"), "", "mcpServers"), cursorHooks(filepath.Join(folder, "hooks.json"))}, err
	}},
	{"gemini", "Gemini CLI", true, func(h Home) ([]file, error) {
		folder, err := h.under("", ".gemini")
		path := filepath.Join(folder, "settings.json")
		return []file{both(jsonServer(path, "", "mcpServers"), jsonHooks(path, geminiEvents, 1000))}, err
	}},
	{"vscode", "VS Code", false, func(h Home) ([]file, error) {
		folder, err := h.application("Code")
		return []file{jsonServer(filepath.Join(folder, "User", "mcp.json"), "stdio", "servers")}, err
	}},
	{"zed", "Zed", false, func(h Home) ([]file, error) {
		folder, err := h.zed()
		return []file{jsonServer(filepath.Join(folder, "settings.json"), "", "context_servers")}, err
	}},
}

// The events that the hook answers, with its timeout in seconds. The hook itself is faster: the timeout is for a stuck machine.
var (
	claudeEvents = []event{{"SessionStart", 5}, {"UserPromptSubmit", 5}, {"Stop", 5}, {"PreCompact", 5}, {"SessionEnd", 5}}
	codexEvents  = []event{{"SessionStart", 5}, {"UserPromptSubmit", 5}, {"Stop", 5}, {"PreCompact", 5}}
	geminiEvents = []event{{"SessionStart", 5}, {"BeforeAgent", 5}, {"AfterAgent", 5}, {"PreCompress", 5}, {"SessionEnd", 5}}
)

type event struct {
	name    string
	timeout int
}

// under returns the folder that a variable names, or one in the home folder.
func (h Home) under(variable string, elements ...string) (string, error) {
	if variable != "" {
		if folder := h.Getenv(variable); filepath.IsAbs(folder) {
			return folder, nil
		}
	}
	home := h.Getenv("HOME")
	if h.GOOS == "windows" {
		home = h.Getenv("USERPROFILE")
	}
	if !filepath.IsAbs(home) {
		return "", errors.New("the home folder is unknown: HOME is not set")
	}
	return filepath.Join(append([]string{home}, elements...)...), nil
}

// claude returns the settings, and the file of MCP servers, which is beside the folder of settings unless that is moved.
func (h Home) claude() (settings, servers string, err error) {
	folder, err := h.under("CLAUDE_CONFIG_DIR", ".claude")
	if filepath.IsAbs(h.Getenv("CLAUDE_CONFIG_DIR")) {
		return filepath.Join(folder, "settings.json"), filepath.Join(folder, ".claude.json"), err
	}
	return filepath.Join(folder, "settings.json"), folder + ".json", err
}

// application returns the folder of a desktop program's settings.
func (h Home) application(name string) (string, error) {
	switch h.GOOS {
	case "darwin":
		return h.under("", "Library", "Application Support", name)
	case "windows":
		folder, err := h.under("APPDATA", "AppData", "Roaming")
		return filepath.Join(folder, name), err
	}
	folder, err := h.under("XDG_CONFIG_HOME", ".config")
	return filepath.Join(folder, name), err
}

func (h Home) zed() (string, error) {
	switch h.GOOS {
	case "darwin":
		return h.under("", ".config", "zed")
	case "windows":
		return h.application("Zed")
	}
	return h.application("zed")
}

// jsonServer is a file with MCP servers in an object.
func jsonServer(path, kind, servers string) file {
	return file{
		path: path,
		add: edited(func(d *document, p Program, _ string) error {
			if d.find(servers, "triskele", "command") == nil {
				return d.set(server{kind, p.Path, p.MCP}, servers, "triskele")
			}
			var err error // what else the user wrote there stays
			if kind != "" {
				err = d.set(kind, servers, "triskele", "type")
			}
			return errors.Join(err, d.set(p.Path, servers, "triskele", "command"), d.set(p.MCP, servers, "triskele", "args"))
		}),
		remove: removed(func(d *document, _ string) { d.remove(servers, "triskele") }),
		server: func(text []byte) ([]string, error) {
			d, err := parse(text)
			if err != nil {
				return nil, err
			}
			found := d.find(servers, "triskele")
			if found == nil {
				return nil, nil
			}
			var s server
			if err := decode(*found, &s); err != nil {
				return nil, err
			}
			return append([]string{s.Command}, s.Args...), nil
		},
	}
}

// jsonHooks is a file with hooks in groups by event, in the form of Claude Code. second is the unit of timeouts.
func jsonHooks(path string, events []event, second int) file {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.name
	}
	return file{
		path: path,
		add: edited(func(d *document, p Program, started string) error {
			for _, e := range events {
				if err := d.setHook(e.name, group{[]hook{{"command", p.hook(), e.timeout * second}}}, p.Path, started); err != nil {
					return err
				}
			}
			return nil
		}),
		remove: removed(func(d *document, started string) {
			for _, name := range names {
				d.removeHooks(name, started)
			}
		}),
		hooked: func(text []byte, started string) bool { return hooked(text, names, started) },
	}
}

// cursorHooks is Cursor's file of hooks, whose entries are in no group.
func cursorHooks(path string) file {
	const name = "beforeSubmitPrompt"
	return file{
		path: path,
		add: edited(func(d *document, p Program, started string) error {
			if d.find("version") == nil {
				if err := d.set(1, "version"); err != nil {
					return err
				}
			}
			return d.setHook(name, hook{Command: p.hook()}, p.Path, started)
		}),
		remove: removed(func(d *document, started string) { d.removeHooks(name, started) }),
		hooked: func(text []byte, started string) bool { return hooked(text, []string{name}, started) },
	}
}

// both joins the edits of a server and of hooks in one file.
func both(s, h file) file {
	return file{
		path: s.path, server: s.server, hooked: h.hooked,
		add: func(text []byte, p Program, started string) ([]byte, error) {
			text, err := s.add(text, p, started)
			if err != nil {
				return nil, err
			}
			return h.add(text, p, started)
		},
		remove: func(text []byte, started string) ([]byte, error) {
			text, err := s.remove(text, started)
			if err != nil {
				return nil, err
			}
			return h.remove(text, started)
		},
	}
}

func edited(edit func(d *document, p Program, started string) error) func([]byte, Program, string) ([]byte, error) {
	return func(text []byte, p Program, started string) ([]byte, error) {
		d, err := parse(text)
		if err != nil {
			return nil, err
		}
		if err := edit(d, p, started); err != nil {
			return nil, err
		}
		return d.text(), nil
	}
}

func removed(edit func(d *document, started string)) func([]byte, string) ([]byte, error) {
	return func(text []byte, started string) ([]byte, error) {
		d, err := parse(text)
		if err != nil {
			return nil, err
		}
		before := d.text()
		edit(d, started)
		if after := d.text(); string(after) != string(before) {
			return after, nil
		}
		return text, nil // an empty file stays empty
	}
}

// hooked reports whether each of the events has a hook of this program.
func hooked(text []byte, events []string, started string) bool {
	d, err := parse(text)
	if err != nil {
		return false
	}
	for _, name := range events {
		found := d.find("hooks", name)
		if found == nil {
			return false
		}
		list, ok := found.Value.(*hujson.Array)
		if !ok || !slices.ContainsFunc(list.Elements, func(v hujson.Value) bool { return isOurs(v, started) }) {
			return false
		}
	}
	return true
}

// hook returns the hook's command line for a shell.
func (p Program) hook() string {
	words := append([]string{p.Path}, p.Hook...)
	for i, word := range words {
		if strings.ContainsAny(word, " \t'$&;()<>|*?`\\") {
			words[i] = `"` + word + `"`
		}
	}
	return strings.Join(words, " ")
}

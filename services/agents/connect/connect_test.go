package connect_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/triskele/triskele/services/agents/connect"
)

var program = connect.Program{Path: "/opt/my tools/triskele", MCP: []string{"mcp", "--namespace", "work"}, Hook: []string{"hook", "--namespace", "work"}}

// at returns a home folder in a temporary one.
func at(t *testing.T, goos string) (connect.Home, string) {
	t.Helper()
	folder := t.TempDir()
	return connect.Home{GOOS: goos, Getenv: func(name string) string { return map[string]string{"HOME": folder}[name] }}, folder
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func apply(t *testing.T, changes []connect.Change, err error) []connect.Change {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if err := c.Apply(); err != nil {
			t.Fatal(err)
		}
	}
	return changes
}

func client(t *testing.T, name string) connect.Client {
	t.Helper()
	c, ok := connect.Find(name)
	if !ok {
		t.Fatalf("no client %s", name)
	}
	return c
}

// The files of each client on Linux, with contents that must survive: comments, trailing commas, other servers and hooks.
var files = map[string]map[string]string{
	"claude-code": {
		".claude.json":          "{\n  \"numStartups\": 12345678901234567890,\n  \"mcpServers\": {\n    \"other\": {\"command\": \"other\"}\n  },\n  \"tips\": {\"a\": 1}\n}",
		".claude/settings.json": "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n\t\t]\n\t},\n\t\"model\": \"x\"\n}\n",
	},
	"claude-desktop": {".config/Claude/claude_desktop_config.json": "{}"},
	"codex": {
		".codex/config.toml": "# mine\nmodel = \"o\" # best\n\n[mcp_servers.docs]\ncommand = \"docs\"\n\n[tui]\ntheme = \"dark\"\n",
		".codex/hooks.json":  "{\n  \"hooks\": {}\n}\n",
	},
	"cursor": {".cursor/mcp.json": "{\"mcpServers\":{\"a\":{\"command\":\"a\"}}}", ".cursor/hooks.json": "{\"version\": 1, \"hooks\": {\"stop\": [{\"command\": \"x\"}]}}"},
	"gemini": {".gemini/settings.json": "{\n  // theme\n  \"theme\": \"Default\",\n}\n"},
	"vscode": {".config/Code/User/mcp.json": "{\n\t\"servers\": {\n\t\t// the company's\n\t\t\"corp\": { \"type\": \"http\", \"url\": \"https://example.com\" }, // keep\n\t},\n\t\"inputs\": [],\n}\n"},
	"zed":    {".config/zed/settings.json": "// Zed settings\n//\n{\n  \"theme\": \"One Dark\", // dark\n  \"vim_mode\": true /* yes */\n  // the end\n}\n"},
}

// Undo gives back every byte, and a second run changes nothing.
func TestConnectTwiceAndUndo(t *testing.T) {
	t.Parallel()
	if len(files) != len(connect.Clients) {
		t.Fatalf("%d clients are tested, want %d", len(files), len(connect.Clients))
	}
	for name, texts := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, folder := at(t, "linux")
			for path, text := range texts {
				put(t, filepath.Join(folder, path), text)
			}
			c := client(t, name)
			changes, err := c.Plan(home, program)
			if apply(t, changes, err); len(changes) != len(texts) {
				t.Errorf("%d files changed, want %d", len(changes), len(texts))
			}
			for path, text := range texts {
				wantParts(t, text, get(t, filepath.Join(folder, path)))
				if kept := get(t, filepath.Join(folder, path+".before-triskele")); kept != text {
					t.Errorf("%s: the copy is %q, want %q", path, kept, text)
				}
				info, err := os.Stat(filepath.Join(folder, path))
				if err != nil || info.Mode().Perm() != 0o640 {
					t.Errorf("%s: mode %v, want 0640 (%v)", path, info.Mode().Perm(), err)
				}
			}
			state, err := c.Look(home)
			if err != nil || !state.Found || strings.Join(state.Server, " ") != "/opt/my tools/triskele mcp --namespace work" || state.Hooked != c.Hooks {
				t.Errorf("state %+v, %v", state, err)
			}
			if again, err := c.Plan(home, program); err != nil || len(again) > 0 {
				t.Errorf("a second run changes %v, %v; want nothing", again, err)
			}
			changes, err = c.PlanUndo(home)
			apply(t, changes, err)
			for path, text := range texts {
				if got := get(t, filepath.Join(folder, path)); got != text {
					t.Errorf("%s after undo: got\n%s\nwant\n%s", path, got, text)
				}
			}
			if state, err := c.Look(home); err != nil || state.Server != nil || state.Hooked {
				t.Errorf("after undo: %+v, %v", state, err)
			}
		})
	}
}

// wantParts checks that a text still has each word of another one, and is valid.
func wantParts(t *testing.T, before, after string) {
	t.Helper()
	for word := range strings.FieldsSeq(before) {
		if word = strings.Trim(word, "{},[]"); !strings.Contains(after, word) {
			t.Errorf("%q is lost:\n%s", word, after)
		}
	}
	var v any
	if strings.Contains(before, "# mine") || strings.Contains(after, "# changed") {
		if err := toml.Unmarshal([]byte(after), &v); err != nil {
			t.Errorf("%v:\n%s", err, after)
		}
		return
	}
	plain, err := hujson.Standardize([]byte(after))
	if err == nil {
		err = json.Unmarshal(plain, &v)
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, after)
	}
}

// A client without files gets new ones, and undo removes them.
func TestConnectNew(t *testing.T) {
	t.Parallel()
	for _, c := range connect.Clients {
		for _, goos := range []string{"linux", "darwin"} {
			home, folder := at(t, goos)
			changes, err := c.Plan(home, program)
			if apply(t, changes, err); len(changes) == 0 || !strings.Contains(changes[0].Diff(), "/dev/null") {
				t.Errorf("%s: changes %v", c.Name, changes)
			}
			if state, err := c.Look(home); err != nil || state.Server == nil {
				t.Errorf("%s on %s: %+v, %v", c.Name, goos, state, err)
			}
			changes, err = c.PlanUndo(home)
			apply(t, changes, err)
			_ = filepath.WalkDir(folder, func(path string, entry os.DirEntry, _ error) error {
				if !entry.IsDir() || path != folder && !slices.Contains([]string{".local", "state", "Library", "Application Support", "triskele"}, entry.Name()) {
					t.Errorf("%s on %s leaves %s behind", c.Name, goos, path)
				}
				return nil
			})
		}
	}
}

// written is where each client looks for the server and the hooks on Linux, by its own documentation.
var written = map[string]struct {
	servers, member, kind string
	hooks                 string
	timeout               float64
	events                []string
}{
	"claude-code": {
		".claude.json", "mcpServers", "stdio", ".claude/settings.json", 5,
		[]string{"PreCompact", "SessionEnd", "SessionStart", "Stop", "UserPromptSubmit"},
	},
	"claude-desktop": {".config/Claude/claude_desktop_config.json", "mcpServers", "", "", 0, nil},
	"codex":          {".codex/config.toml", "mcp_servers", "", ".codex/hooks.json", 5, []string{"PreCompact", "SessionStart", "Stop", "UserPromptSubmit"}},
	"cursor":         {".cursor/mcp.json", "mcpServers", "", ".cursor/hooks.json", 0, []string{"beforeSubmitPrompt"}},
	"gemini": {
		".gemini/settings.json", "mcpServers", "", ".gemini/settings.json", 5000,
		[]string{"AfterAgent", "BeforeAgent", "PreCompress", "SessionEnd", "SessionStart"},
	},
	"vscode": {".config/Code/User/mcp.json", "servers", "stdio", "", 0, nil},
	"zed":    {".config/zed/settings.json", "context_servers", "", "", 0, nil},
}

func TestConnectWritesWhatClientsRead(t *testing.T) {
	t.Parallel()
	home, folder := at(t, "linux")
	read := func(path string) (v map[string]any) {
		t.Helper()
		decode := json.Unmarshal
		if filepath.Ext(path) == ".toml" {
			decode = toml.Unmarshal
		}
		if err := decode([]byte(get(t, filepath.Join(folder, path))), &v); err != nil {
			t.Fatal(path, err)
		}
		return v
	}
	for _, c := range connect.Clients {
		changes, err := c.Plan(home, program)
		apply(t, changes, err)
		want := written[c.Name]
		entry := map[string]any{"command": program.Path, "args": []any{"mcp", "--namespace", "work"}}
		if want.kind != "" {
			entry["type"] = want.kind
		}
		if got := read(want.servers)[want.member]; !reflect.DeepEqual(got, map[string]any{"triskele": entry}) {
			t.Errorf("%s: got the servers %v, want %v", c.Name, got, entry)
		}
		if c.Hooks != (want.hooks != "") {
			t.Errorf("%s has hooks: %t, and a file of them: %q", c.Name, c.Hooks, want.hooks)
			continue
		} else if !c.Hooks {
			continue
		}
		file := read(want.hooks)
		hook := map[string]any{"command": `"/opt/my tools/triskele" hook --namespace work`}
		var group any = hook // of Cursor, which has no groups
		if want.timeout > 0 {
			hook["type"], hook["timeout"] = "command", want.timeout
			group = map[string]any{"hooks": []any{hook}}
		} else if file["version"] != 1.0 {
			t.Errorf("%s: got the version %v, want 1", c.Name, file["version"])
		}
		hooks := map[string]any{}
		for _, event := range want.events {
			hooks[event] = []any{group}
		}
		if !reflect.DeepEqual(file["hooks"], hooks) {
			t.Errorf("%s: got the hooks %v, want %v", c.Name, file["hooks"], hooks)
		}
	}
	const servers = `{
  "mcpServers": {
    "triskele": {
      "type": "stdio",
      "command": "/opt/my tools/triskele",
      "args": [
        "mcp",
        "--namespace",
        "work"
      ]
    }
  }
}
`
	if got := get(t, filepath.Join(folder, ".claude.json")); got != servers {
		t.Errorf("got\n%s\nwant\n%s", got, servers)
	}
	const table = "[mcp_servers.triskele]\ncommand = \"/opt/my tools/triskele\"\nargs = [\"mcp\", \"--namespace\", \"work\"]\n"
	if got := get(t, filepath.Join(folder, ".codex", "config.toml")); got != table {
		t.Errorf("got\n%s\nwant\n%s", got, table)
	}
}

// A newer setting replaces the older one, and other hooks of the same event stay.
func TestConnectReplaces(t *testing.T) {
	t.Parallel()
	home, folder := at(t, "linux")
	put(t, filepath.Join(folder, ".claude", "settings.json"), files["claude-code"][".claude/settings.json"])
	put(t, filepath.Join(folder, ".codex", "config.toml"), "[mcp_servers.triskele]\ncommand = \"old\"\n[mcp_servers.triskele.env]\nA = \"1\"\n[tui]\ntheme = \"dark\"\n")
	other := program
	other.Path = "/usr/bin/triskele"
	for _, p := range []connect.Program{program, other} {
		for _, name := range []string{"claude-code", "codex"} {
			changes, err := client(t, name).Plan(home, p)
			apply(t, changes, err)
		}
	}
	settings := get(t, filepath.Join(folder, ".claude", "settings.json"))
	if strings.Contains(settings, "my tools") || strings.Count(settings, "/usr/bin/triskele hook") != 5 || !strings.Contains(settings, "say done") {
		t.Errorf("settings:\n%s", settings)
	}
	config := get(t, filepath.Join(folder, ".codex", "config.toml"))
	if strings.Contains(config, "old") || strings.Contains(config, "my tools") || !strings.Contains(config, "[tui]\ntheme = \"dark\"") {
		t.Errorf("config:\n%s", config)
	}
}

// Undo leaves alone what Triskele never wrote: files with empty objects and lists, and files that changed since the plan.
func TestConnectUndoesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	for path, x := range map[string]struct{ client, text string }{
		".cursor/mcp.json":      {"cursor", "{\n  \"mcpServers\": {}\n}\n"},
		".cursor/hooks.json":    {"cursor", "{\"version\": 1, \"hooks\": {}}\n"},
		".claude/settings.json": {"claude-code", "{\"hooks\": {\"Stop\": []}}\n"},
		".codex/hooks.json":     {"codex", "{\"hooks\": {}}\n"},
		".codex/config.toml":    {"codex", "[mcp_servers]\n"},
	} {
		home, folder := at(t, "linux")
		put(t, filepath.Join(folder, path), x.text)
		if changes, err := client(t, x.client).PlanUndo(home); err != nil || len(changes) > 0 {
			t.Errorf("%s: undo changes %v, %v; want nothing", path, changes, err)
		}
	}
	home, folder := at(t, "linux")
	c := client(t, "claude-desktop")
	changes, err := c.Plan(home, program)
	apply(t, changes, err)
	if changes, err = c.PlanUndo(home); err != nil || len(changes) != 1 || changes[0].After != nil {
		t.Fatalf("undo changes %v, %v; want the file's end", changes, err)
	}
	path := filepath.Join(folder, ".config", "Claude", "claude_desktop_config.json")
	put(t, path, "{\"theme\": \"dark\"}\n")
	if err := changes[0].Apply(); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("error %v, want that the file has changed", err)
	}
	if got := get(t, path); !strings.Contains(got, "dark") {
		t.Errorf("got %q", got)
	}
}

// A new command line changes nothing else in Triskele's own entry, nor in the comments around it.
func TestConnectKeepsWhatUsersAdd(t *testing.T) {
	t.Parallel()
	const toml = `model = "o" # best


# Ours since May.
[mcp_servers.triskele] # team
command = "/old/triskele" # pinned
# Ask Ada.
args = [
  "mcp", # tools
]
startup_timeout_sec = 60

[mcp_servers.triskele.env]
TRISKELE_TOKEN_FILE = "/x"

# Ask Bo before you change the profile.
# profile = "old"
[profiles.fast]
notes = """
[mcp_servers.triskele]
"""
`
	const json = `{
  "mcpServers": {
    // ours
    "triskele": {
      // of the team
      "env": {"TRISKELE_TOKEN_FILE": "/x"},
      "command": "/old/triskele", // pinned
      "args": ["mcp"],
      "disabled": false
    }
  }
}
`
	replaced := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for path, x := range map[string]struct{ client, before, after string }{
		".codex/config.toml": {
			"codex", toml,
			replaced(toml, "/old/", "/opt/my tools/", "[\n  \"mcp\", # tools\n]", `["mcp", "--namespace", "work"]`),
		},
		".cursor/mcp.json": {
			"cursor", json,
			replaced(json, "/old/", "/opt/my tools/", `["mcp"]`, "[\n        \"mcp\",\n        \"--namespace\",\n        \"work\"\n      ]"),
		},
	} {
		home, folder := at(t, "linux")
		put(t, filepath.Join(folder, path), x.before)
		c := client(t, x.client)
		changes, err := c.Plan(home, program)
		apply(t, changes, err)
		if got := get(t, filepath.Join(folder, path)); got != x.after {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, x.after)
		}
		if again, err := c.Plan(home, program); err != nil || len(again) > 0 {
			t.Errorf("%s: a second run changes %v, %v; want nothing", path, again, err)
		}
		changes, err = c.PlanUndo(home)
		apply(t, changes, err)
		if got := get(t, filepath.Join(folder, path)); got != x.before {
			t.Errorf("%s after undo: got\n%s\nwant\n%s", path, got, x.before)
		}
	}
}

// Another connect changes the program and its own flags. Words that users have added stay, as do variables, timeouts and matchers.
func TestConnectKeepsWords(t *testing.T) {
	t.Parallel()
	home, folder := at(t, "linux")
	connected := func(name string, flags ...string) (changes int) {
		t.Helper()
		p := connect.Program{Path: name, MCP: append([]string{"mcp"}, flags...), Hook: append([]string{"hook"}, flags...)}
		for _, c := range connect.Clients {
			planned, err := c.Plan(home, p)
			changes += len(apply(t, planned, err))
		}
		return changes
	}
	connected("/opt/triskele", "--address", "a:1")
	for path, edits := range map[string][]string{
		".claude.json":       {"\"a:1\"\n", "\"a:1\", \"--tls-ca\", \"system\"\n"},
		".codex/config.toml": {`"a:1"]`, `"a:1", "--token-file", "/x"]`},
		".claude/settings.json": {
			`"/opt/triskele hook --address a:1"`, `"TRISKELE_CAPTURE=no X='a b' /opt/triskele hook --no-capture --address=a:1 --tls-ca 'my ca' 2>>/tmp/log"`,
			`"timeout": 5`, `"timeout": 9`, `"hooks": [` + "\n", `"matcher": "y", "hooks": [` + "\n",
		},
		".cursor/hooks.json": {"/opt/triskele hook --address a:1", "env A=1 triskele hook -n one --no-capture; echo triskele hook"},
	} {
		path = filepath.Join(folder, path)
		put(t, path, strings.NewReplacer(edits...).Replace(get(t, path)))
	}
	for _, x := range []struct{ name, flags, shown string }{
		{"/opt/triskele", "--address a:1", "/opt/triskele"},
		{"/opt/my tools/triskele", "--namespace b", `\"/opt/my tools/triskele\"`},
		{"/opt/tk", "--namespace c --sqlite /d", "/opt/tk"},
	} {
		connected(x.name, strings.Fields(x.flags)...)
		claude, settings, cursor := get(t, filepath.Join(folder, ".claude.json")), get(t, filepath.Join(folder, ".claude/settings.json")), get(t, filepath.Join(folder, ".cursor/hooks.json"))
		args := `"` + strings.Join(append([]string{"mcp"}, append(strings.Fields(x.flags), "--tls-ca", "system")...), `","`) + `"`
		if got := strings.Join(strings.Fields(claude), ""); !strings.Contains(got, `"args":[`+args+`]`) {
			t.Errorf("%s: got %s, want %s", x.name, got, args)
		}
		flags := x.flags + " --no-capture"
		if x.name == "/opt/triskele" {
			flags = "--no-capture --address=a:1" // it says the same
		}
		want := `"TRISKELE_CAPTURE=no X='a b' ` + x.shown + " hook " + flags + ` --tls-ca 'my ca' 2>>/tmp/log"`
		if strings.Count(settings, want) != 5 || strings.Count(settings, `"timeout": 9`) != 5 || strings.Count(settings, `"matcher": "y"`) != 5 {
			t.Errorf("%s: got %s, want %s", x.name, settings, want)
		}
		if want := `"env A=1 ` + x.shown + " hook " + x.flags + ` --no-capture; echo triskele hook"`; !strings.Contains(cursor, want) || strings.Count(cursor, "command") != 1 {
			t.Errorf("%s: got %s, want %s", x.name, cursor, want)
		}
		if got := get(t, filepath.Join(folder, ".codex/config.toml")); !strings.Contains(got, `, "--token-file", "/x"]`) {
			t.Errorf("%s: got %s, want the token's file", x.name, got)
		}
		if changes := connected(x.name, strings.Fields(x.flags)...); changes > 0 {
			t.Errorf("%s: a second run changes %d files, want none", x.name, changes)
		}
	}
	path := filepath.Join(folder, ".cursor/hooks.json")
	for _, made := range []string{"$(basename .)", "`basename .`"} { // by a shell
		put(t, path, `{"version": 1, "hooks": {"beforeSubmitPrompt": [{"command": "triskele hook --namespace `+made+` --no-capture"}]}}`)
		connected("/opt/tk", "--namespace", "d")
		if want := `"/opt/tk hook --namespace ` + made + ` --no-capture"`; !strings.Contains(get(t, path), want) {
			t.Errorf("got %s, want %s", get(t, path), want)
		}
	}
}

// Undo gives back every byte of a file that only connect has changed, however often, and the user's own server in any file.
func TestUndoGivesBack(t *testing.T) {
	t.Parallel()
	cases := []struct{ client, path, text string }{
		{"vscode", ".config/Code/User/mcp.json", `{"servers": {}, "inputs": []}`},
		{"claude-code", ".claude.json", `{"mcpServers": {}}`},
		{"claude-code", ".claude/settings.json", `{"hooks":{"UserPromptSubmit":[]}}`},
		{"gemini", ".gemini/settings.json", ""},
		{"gemini", ".gemini/settings.json", "{\n}"},
		{"claude-desktop", ".config/Claude/claude_desktop_config.json", `{"mcpServers":{"triskele":{"command":"mine"}},"theme":"dark"}`},
		{"zed", ".config/zed/settings.json", "// Zed\n{\"context_servers\": {\"triskele\": {\"command\": \"mine\"}},}\n"},
		{"cursor", ".cursor/mcp.json", `{"mcpServers":{"triskele":{"command":"mine"}}}`},
		{"cursor", ".cursor/mcp.json", `{"mcpServers":{"triskele":{"url":"https://mine.example.com"}}}`},
		{"codex", ".codex/config.toml", "model = \"o\""},
		{"codex", ".codex/config.toml", "[mcp_servers.triskele]\ncommand = \"mine\"\n\n[mcp_servers.triskele.env]\nA = \"1\"\n"},
		{"codex", ".codex/config.toml", "[mcp_servers.triskele]\ncommand = \"mine\"\n\n[features]\ncodex_hooks = true"},
	}
	tested := map[string]bool{}
	for _, x := range cases {
		tested[x.client] = true
		home, folder := at(t, "linux")
		c := client(t, x.client)
		path := filepath.Join(folder, x.path)
		put(t, path, x.text)
		connected := func() {
			t.Helper()
			for _, name := range []string{"/opt/triskele", "/opt/my tools/triskele"} {
				p := program
				p.Path = name
				changes, err := c.Plan(home, p)
				apply(t, changes, err)
			}
		}
		undo := func() string {
			t.Helper()
			changes, err := c.PlanUndo(home)
			apply(t, changes, err)
			return get(t, path)
		}
		connected()
		for range 2 {
			if got := undo(); got != x.text || exists(path+".before-triskele") {
				t.Errorf("after undo: got %q, want %q without a copy", got, x.text)
			}
		}
		connected()
		changed := map[bool]string{false: get(t, path) + "\n// changed\n", true: "# changed\n" + get(t, path)}[x.client == "codex"]
		put(t, path, changed)
		got := undo()
		wantParts(t, "", got)
		if !strings.Contains(got, "changed") || strings.Contains(got, "my tools") || strings.Contains(got, "mine") != strings.Contains(x.text, "mine") || strings.Contains(got, "A = ") != strings.Contains(x.text, "A = ") {
			t.Errorf("undo of a changed file %q: got %q", x.text, got)
		}
		got = strings.ReplaceAll(got, "mine", "mine-2")
		put(t, path, got)
		connected() // the copy is of the changed file now
		if again := undo(); again != got {
			t.Errorf("after another undo: got %q, want %q", again, got)
		}
	}
	if len(tested) != len(connect.Clients) {
		t.Errorf("%d clients are tested, want %d", len(tested), len(connect.Clients))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Undo removes a file that connect made, though connect has written it twice and an older copy is there.
func TestUndoRemoves(t *testing.T) {
	t.Parallel()
	home, folder := at(t, "linux")
	c := client(t, "zed")
	path := filepath.Join(folder, ".config", "zed", "settings.json")
	put(t, path+".before-triskele", "{}")
	for _, name := range []string{"/opt/triskele", "/usr/bin/triskele"} {
		p := program
		p.Path = name
		changes, err := c.Plan(home, p)
		apply(t, changes, err)
	}
	changes, err := c.PlanUndo(home)
	if apply(t, changes, err); exists(path) || !exists(path+".before-triskele") {
		t.Error("the file is there, or the copy is not")
	}
}

// Hooks are known by the program of the MCP server, whatever its name is.
func TestConnectKnowsItsHooksByAnyName(t *testing.T) {
	t.Parallel()
	for name, events := range map[string]int{"claude-code": 5, "codex": 4, "cursor": 1, "gemini": 5} {
		home, folder := at(t, "linux")
		c := client(t, name)
		hooks := func() string {
			files, _ := filepath.Glob(filepath.Join(folder, ".*", "*.json"))
			text := ""
			for _, file := range files {
				text += get(t, file)
			}
			return text
		}
		for _, path := range []string{"/opt/triskele-linux-amd64", "/opt/my tools/tk", "/opt/triskele"} {
			p := program
			p.Path = path
			changes, err := c.Plan(home, p)
			apply(t, changes, err)
			if again, err := c.Plan(home, p); err != nil || len(again) > 0 {
				t.Errorf("%s: a second run with %s changes %v, %v; want nothing", name, path, again, err)
			}
			if got := strings.Count(hooks(), " hook --namespace"); got != events {
				t.Errorf("%s: %d hooks with %s, want %d", name, got, path, events)
			}
			if state, err := c.Look(home); err != nil || !state.Hooked {
				t.Errorf("%s with %s: state %+v, %v; want hooks", name, path, state, err)
			}
		}
		p := program
		p.Path = "/opt/tk"
		changes, err := c.Plan(home, p)
		apply(t, changes, err)
		changes, err = c.PlanUndo(home)
		apply(t, changes, err)
		if got := hooks(); strings.Contains(got, "tk") {
			t.Errorf("%s: undo leaves\n%s", name, got)
		}
	}
}

func TestConnectLeavesWhatItCannotEdit(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ client, path, text, want string }{
		{"claude-code", ".claude.json", `{"mcpServers": [1]}`, `"mcpServers" is no object`},
		{"gemini", ".gemini/settings.json", `{"theme": `, "not JSON"},
		{"codex", ".codex/config.toml", "mcp_servers = { triskele = { command = \"x\" } }\n", "by hand"},
		{"codex", ".codex/config.toml", "mcp_servers = { other = { command = \"x\" } }\n", "its mcp_servers is an inline table"},
		{"codex", ".codex/config.toml", "mcp_servers = {}\n", "its mcp_servers is an inline table"},
		{"codex", ".codex/hooks.json", `{"hooks": {"Stop": {}}}`, "hooks.Stop is no array"},
	} {
		home, folder := at(t, "linux")
		put(t, filepath.Join(folder, x.path), x.text)
		if _, err := client(t, x.client).Plan(home, program); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want %q", x.path, err, x.want)
		}
		if got := get(t, filepath.Join(folder, x.path)); got != x.text {
			t.Errorf("%s: got %q, want %q", x.path, got, x.text)
		}
	}
}

// A link into a folder of settings stays a link, also one to a file that is not there yet.
func TestConnectFollowsLinks(t *testing.T) {
	t.Parallel()
	home, folder := at(t, "linux")
	put(t, filepath.Join(folder, "dotfiles", "mcp.json"), "{}\n")
	if err := os.Mkdir(filepath.Join(folder, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{"mcp.json", "hooks.json"}
	for _, name := range names {
		if err := os.Symlink(filepath.Join("..", "dotfiles", name), filepath.Join(folder, ".cursor", name)); err != nil {
			t.Fatal(err)
		}
	}
	linked := func(when string, connected bool) {
		t.Helper()
		for _, name := range names {
			if info, err := os.Lstat(filepath.Join(folder, ".cursor", name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s, the link %s is gone: %v, %v", when, name, info, err)
			}
			if text, _ := os.ReadFile(filepath.Join(folder, "dotfiles", name)); strings.Contains(string(text), "triskele") != connected {
				t.Errorf("%s, %s has %s", when, name, text)
			}
		}
	}
	changes, err := client(t, "cursor").Plan(home, program)
	apply(t, changes, err)
	linked("connected", true)
	changes, err = client(t, "cursor").PlanUndo(home)
	apply(t, changes, err)
	linked("undone", false)
}

// The documentation's table has every client with what it gets, and tests that exist.
func TestMatrix(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); len(cells) == 8 {
			rows[strings.Trim(cells[1], "`")] = cells
		}
	}
	answer := map[bool]string{true: "yes", false: "–"}
	for _, c := range connect.Clients {
		home, _ := at(t, "linux")
		changes, err := c.Plan(home, program)
		if err != nil {
			t.Fatal(err)
		}
		var added strings.Builder
		for _, change := range changes {
			added.Write(change.After)
		}
		has := func(events ...string) string {
			return answer[slices.ContainsFunc(events, func(event string) bool { return strings.Contains(added.String(), `"`+event+`"`) })]
		}
		want := []string{"yes", has("UserPromptSubmit", "BeforeAgent", "beforeSubmitPrompt"), has("SessionStart"), has("Stop", "AfterAgent"), "yes"}
		if row := rows[c.Name]; len(row) != 8 || !slices.Equal(row[2:7], want) || want[1] != answer[c.Hooks] {
			t.Errorf("%s: docs/agents.md has %q, want %q", c.Name, row, want)
		}
	}
	tests := rows["–"]
	if len(tests) != 8 {
		t.Fatal("docs/agents.md names no tests")
	}
	targets, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, folder := range []string{"connect", "cli", "hook", "transcript"} {
		files, _ := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for _, cell := range tests[2:7] {
		for name := range strings.SplitSeq(cell, ", ") {
			name = strings.Trim(name, "`")
			target, isTarget := strings.CutPrefix(name, "make ")
			if !isTarget && !strings.Contains(source.String(), "func "+name+"(t *testing.T)") || isTarget && !strings.Contains(string(targets), "\n"+target+":") {
				t.Errorf("docs/agents.md names the test %s, which does not exist", name)
			}
		}
	}
}

// TestUndoKeepsEdits: what the user adds between two connects, or before a connect without a record, is kept.
func TestUndoKeepsEdits(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} {
		home, folder := at(t, "linux")
		c := client(t, "cursor")
		path := filepath.Join(folder, ".cursor/mcp.json")
		put(t, path, `{"mcpServers": {}}`)
		for _, name := range []string{"/opt/triskele", "/opt/my tools/triskele"} {
			p := program
			p.Path = name
			changes, err := c.Plan(home, p)
			apply(t, changes, err)
			if name != program.Path {
				put(t, path, strings.Replace(get(t, path), `"mcpServers": {`, `"mcpServers": {"github": {"command": "gh"},`, 1))
			}
			if !recorded {
				state, err := home.State("triskele")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(filepath.Join(state, "connect.json")); err != nil {
					t.Fatal(err)
				}
			}
		}
		changes, err := c.PlanUndo(home)
		apply(t, changes, err)
		if got := get(t, path); !strings.Contains(got, "github") || strings.Contains(got, "triskele") {
			t.Errorf("recorded %t: after undo: %s, want the user's server alone", recorded, got)
		}
	}
}

// A hook that shares a group with the user's own is there once, and undo removes it alone.
func TestConnectSharesGroups(t *testing.T) {
	t.Parallel()
	const group = `{"hooks": [{"type": "command", "command": "mine"}, {"type": "command", "command": "triskele hook --namespace work"}]}`
	home, folder := at(t, "linux")
	c := client(t, "claude-code")
	path := filepath.Join(folder, ".claude", "settings.json")
	put(t, path, `{"hooks": {"Stop": [`+group+`, {"hooks": [{"type": "command", "command": "/opt/triskele hook"}]}], "PreCompact": [{"hooks": [{"command": "x"}]}, /* once */ ]}}`)
	for _, name := range []string{"triskele", "/opt/triskele"} {
		p := program
		p.Path = name
		changes, err := c.Plan(home, p)
		apply(t, changes, err)
		if got := get(t, path); strings.Count(got, "triskele hook") != 5 || strings.Count(got, "mine") != 1 || strings.Count(got, "/* once */") != 1 {
			t.Errorf("as %s: got %s, want one hook for each event, and the comment", name, got)
		}
		if again, err := c.Plan(home, p); err != nil || len(again) > 0 {
			t.Errorf("as %s: a second run changes %v, %v; want nothing", name, again, err)
		}
		put(t, path, "// changed\n"+get(t, path))
	}
	put(t, path, strings.Replace(get(t, path), `"mine"}`, `"mine"}, {"command": "/opt/triskele hook"}`, 1))
	if state, err := c.Look(home); err != nil || !state.Hooked {
		t.Errorf("state %+v, %v; want hooks", state, err)
	}
	changes, err := c.PlanUndo(home)
	apply(t, changes, err)
	if got := get(t, path); strings.Contains(got, "triskele") || !strings.Contains(got, `"mine"`) || strings.Count(got, "/* once */") != 1 {
		t.Errorf("undo leaves %s, want the user's hook", got)
	}
}

// A shell starts the hook with the words that it was connected with, whatever characters they have.
func TestHookWords(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no POSIX shell: on Windows")
	}
	home, folder := at(t, "linux")
	words := []string{"/opt/$HOME `id` (x)/triskele", "hook", "--sqlite", "/data/a$b;c 'd'.db"}
	changes, err := client(t, "cursor").Plan(home, connect.Program{Path: words[0], MCP: []string{"mcp"}, Hook: words[1:]})
	apply(t, changes, err)
	var written struct {
		Hooks map[string][]struct{ Command string }
	}
	if err := json.Unmarshal([]byte(get(t, filepath.Join(folder, ".cursor", "hooks.json"))), &written); err != nil {
		t.Fatal(err)
	}
	command := written.Hooks["beforeSubmitPrompt"][0].Command
	out, err := exec.Command(shell, "-c", "printf '%s\\n' "+command).Output()
	if got, want := string(out), strings.Join(words, "\n")+"\n"; err != nil || got != want {
		t.Errorf("%s: got %q, %v; want %q", command, got, err, want)
	}
	if again, err := client(t, "cursor").Plan(home, connect.Program{Path: words[0], MCP: []string{"mcp"}, Hook: words[1:]}); err != nil || len(again) > 0 {
		t.Errorf("a second run changes %v, %v; want nothing", again, err)
	}
}

// Files that an editor on Windows has written keep their line ends and their byte order mark.
func TestConnectKeepsWindowsForms(t *testing.T) {
	t.Parallel()
	for name, texts := range files {
		home, folder := at(t, "linux")
		c, before := client(t, name), map[string]string{}
		for path, text := range texts {
			text = "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n")
			before[path] = text
			put(t, filepath.Join(folder, path), text)
		}
		changes, err := c.Plan(home, program)
		apply(t, changes, err)
		for path, text := range before {
			got := get(t, filepath.Join(folder, path))
			if strings.Contains(text, "\n") && strings.Count(got, "\n") != strings.Count(got, "\r\n") || strings.HasPrefix(got, "\ufeff") != strings.HasPrefix(text, "\ufeff") {
				t.Errorf("%s: got %q from %q, want the same line ends and the mark", path, got, text)
			}
		}
		if again, err := c.Plan(home, program); err != nil || len(again) > 0 {
			t.Errorf("%s: a second run changes %v, %v; want nothing", name, again, err)
		}
		for path := range before { // so that undo must edit the files
			put(t, filepath.Join(folder, path), get(t, filepath.Join(folder, path))+"\r\n")
		}
		changes, err = c.PlanUndo(home)
		apply(t, changes, err)
		for path, text := range before {
			if got := get(t, filepath.Join(folder, path)); strings.Contains(got, "triskele") || strings.Count(text, "\r\n") > 0 && strings.Count(got, "\n") != strings.Count(got, "\r\n") {
				t.Errorf("%s after undo: got %q, before it was %q", path, got, text)
			}
		}
	}
}

// Of two members with one name, agents read the last.
func TestConnectWritesIntoTheLastMember(t *testing.T) {
	t.Parallel()
	home, folder := at(t, "linux")
	path := filepath.Join(folder, ".config/Claude/claude_desktop_config.json")
	put(t, path, `{"mcpServers": {}, "mcpServers": {"a": {"command": "a"}}}`)
	changes, err := client(t, "claude-desktop").Plan(home, program)
	apply(t, changes, err)
	var got map[string]map[string]any
	if err := json.Unmarshal([]byte(get(t, path)), &got); err != nil || len(got["mcpServers"]) != 2 {
		t.Errorf("agents read %v, %v; want the servers a and triskele", got, err)
	}
}

package cli_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/wiring/standalone"
)

var update = flag.Bool("update", false, "write the golden files anew")

var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, text, want)
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"import": {"import"}, "export": {"export"}, "curation": {"curation"}, "curation-list": {"curation", "list"}, "curation-revert": {"curation", "revert"},
	} {
		golden(t, "help-"+name, must(t, "", append(args, "--help")...))
	}
}

// transcript runs commands in turn and returns what they print, as at a shell; the exit code if it is not 0.
func transcript(to string, commands ...[]string) string {
	var b strings.Builder
	for _, args := range commands {
		got := run("", append(args, to)...)
		fmt.Fprintf(&b, "$ triskele %s\n%s", strings.Join(args, " "), got.out)
		for line := range strings.Lines(got.err) {
			b.WriteString("! " + line)
		}
		if got.code != 0 {
			fmt.Fprintf(&b, "exit code %d\n", got.code)
		}
	}
	return b.String()
}

func TestImportDryRun(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"notes.jsonl": `{"content": "The crane is serviced in spring.", "idempotency_key": "crane"}
{"content": "tea", "importance": 7}

{"contnt": "tea"}
{"content": "another crane", "idempotency_key": "crane"}
{"content": "tea", "metadata": {"order": 12345678901234567890}}
`,
		"vault/Crane.md":       "---\nsensitive: true\n---\nIts code is 4711. See [[Harbour]] and [[Nobody]].",
		"vault/Harbour.md":     "# The harbour",
		"vault/open.md":        "---\nsensitive: true",
		"vault/\x1b[31mred.md": "[[\x1b[2Jgone]]",
	} {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	notes, vault := filepath.Join(folder, "notes.jsonl"), filepath.Join(folder, "vault")
	text := transcript("--address="+serve(t),
		[]string{"import", notes, "--dry-run"}, []string{"import", notes, "--dry-run", "--json"}, []string{"import", notes, "--dry-run", "--strict"},
		[]string{"import", vault, "--dry-run"}, []string{"import", vault, "--from=markdown", "--dry-run"}, []string{"list"},
	)
	golden(t, "import-dry-run", ids.ReplaceAllString(strings.ReplaceAll(text, folder+"/", ""), "ID"))
}

func TestCuration(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": `{"action": "supersede", "target": 1, "content": ""}`}}}})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(answer)
	}))
	defer model.Close()
	to := "--address=" + serveWith(t, standalone.Config{Curator: curator.Config{URL: model.URL, Model: "scripted", PerMinute: 60_000}})
	var decision struct{ ID string } // the last
	stored := func(text string) string {
		id := strings.TrimSpace(strings.TrimPrefix(must(t, "", "remember", text, to), "remembered "))
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			listed := must(t, "", "curation", "list", "--json", "--memory="+id, to)
			if listed != "" {
				if err := json.Unmarshal([]byte(listed), &decision); err != nil {
					t.Fatalf("%s: %v", listed, err)
				}
				return id
			}
			if time.Now().After(deadline) {
				t.Fatalf("nothing was decided about %q", text)
			}
		}
	}
	older := stored("The gate is green.")
	newer := stored("The gate is blue.")
	text := transcript(to, []string{"curation", "list"}, []string{"curation", "list", "--limit=1", "--json"}, []string{"curation", "show", newer}, []string{"list"},
		[]string{"curation", "revert", decision.ID}, []string{"curation", "revert", decision.ID}, []string{"curation", "revert", older},
		[]string{"curation", "list", "--memory=" + newer}, []string{"list"})
	text = strings.NewReplacer(older, "OLDER", newer, "NEWER", decision.ID, "DECISION").Replace(text)
	golden(t, "curation", regexp.MustCompile(`\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d+Z)?)?`).ReplaceAllString(ids.ReplaceAllString(text, "ID"), "TIME"))
}

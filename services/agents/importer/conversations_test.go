package importer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/triskele/triskele/services/agents/capture"
	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/agents/transcript"
)

// A link to a session is read. One to a folder is not followed, and named.
func TestLinkedSessions(t *testing.T) {
	t.Parallel()
	folder, elsewhere := t.TempDir(), t.TempDir()
	const turn = `{"type":"user","uuid":"1","sessionId":"s","message":{"content":"When is the harbour crane serviced?"}}` + "\n"
	if err := os.WriteFile(filepath.Join(elsewhere, "a.jsonl"), []byte(turn), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"project": elsewhere, "b.jsonl": filepath.Join(elsewhere, "a.jsonl"), "gone.jsonl": "nothing", "gone": "nothing"} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	source, err := importer.OpenConversations(transcript.ClaudeCode, folder, "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, source)
	if len(got) != 3 || got["b.jsonl:1"].Memory == nil || got["project"].Problem.Reason != "link to a folder" || got["gone.jsonl"].Problem.Reason != "not readable" {
		t.Errorf("got %+v, want a turn, a link to a folder and one to nothing", got)
	}
}

// What Claude Code's subagents and workflows have said is beside the session that started them, and so is a journal of each workflow. None
// of that is a session of the user's.
func TestSubagents(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for path, text := range map[string]string{
		"p/s.jsonl": `{"type":"user","uuid":"1","sessionId":"s","message":{"content":"When is the harbour crane serviced?"}}`,
		"p/s/subagents/workflows/wf_1/journal.jsonl": `{"type":"started","key":"v2:a","agentId":"a1"}`,
		"p/s/subagents/agent-a1.jsonl":               `{"type":"user","uuid":"2","sessionId":"s","isSidechain":true,"message":{"content":"Look the harbour crane up in the calendar."}}`,
	} {
		path = filepath.Join(folder, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	source, err := importer.OpenConversations(transcript.ClaudeCode, folder, "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, source); len(got) != 1 || got["p/s.jsonl:1"].Memory == nil {
		t.Errorf("got %+v, want the user's turn alone", got)
	}
	if err := os.WriteFile(filepath.Join(folder, "p/s/subagents/session-1.jsonl"), []byte(`{"sessionId":"g"}`+"\n"+`{"id":"1","type":"user","content":"When is the harbour crane serviced?"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if source, err = importer.OpenConversations(transcript.Gemini, folder, "n", nil); err != nil {
		t.Fatal(err)
	}
	if got := read(t, source); len(got) != 1 {
		t.Errorf("got %+v of a project of Gemini's that is called subagents, want its turn", got)
	}
}

// A session that is gone when it is read, and a folder that cannot be read, are named. All others are imported.
func TestSessionsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const turn = `{"type":"user","uuid":"1","sessionId":"s","message":{"content":"When is the harbour crane serviced?"}}` + "\n"
	for _, name := range []string{"a.jsonl", "b.jsonl"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(turn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(strings.Repeat(strings.Repeat("x", 250)+"/", 20), 0o700); err != nil { // its path is too long to be opened
		t.Fatal(err)
	}
	source, err := importer.OpenConversations(transcript.ClaudeCode, folder, "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "a.jsonl")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for position, item := range read(t, source) {
		if item.Problem == nil {
			got = append(got, position)
		} else {
			got = append(got, position[:min(len(position), 10)]+" "+item.Problem.Reason+": "+item.Problem.Detail)
		}
	}
	text := strings.Join(got, "\n")
	if len(got) != 3 || !strings.Contains(text, "b.jsonl:1") || !strings.Contains(text, "a.jsonl not readable: no such file or directory") ||
		!strings.Contains(text, "xxxxxxxxxx folder cannot be read: file name too long") {
		t.Errorf("got %q, want one turn and two problems", got)
	}
}

// Sessions of Gemini CLI are of the project that is named beside their folder, and so is what it ignores.
func TestGeminiProjects(t *testing.T) {
	t.Parallel()
	folder, kept, ignored := t.TempDir(), t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(ignored, ".triskeleignore"): "", filepath.Join(kept, ".git", "HEAD"): "", filepath.Join(kept, "docs", "x"): "",
		filepath.Join(folder, "a", ".project_root"): filepath.Join(kept, "docs"), filepath.Join(folder, "b", ".project_root"): ignored,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, project := range []string{"a", "b"} {
		path := filepath.Join(folder, project, "chats", "session-1.json")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"sessionId":"s","projectHash":"h","messages":[{"id":"1","type":"user","content":"When is the harbour crane serviced?"}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for location, want := range map[string]int{folder: 1, filepath.Join(folder, "a", "chats", "session-1.json"): 1, filepath.Join(folder, "b", "chats", "session-1.json"): 0} {
		source, err := importer.OpenConversations(transcript.Gemini, location, "n", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := read(t, source)
		for position, item := range got {
			if of := item.Memory.GetMetadata().GetFields()[capture.Project].GetStringValue(); of != kept {
				t.Errorf("%s: got the project %q, want %q", position, of, kept)
			}
		}
		if len(got) != want {
			t.Errorf("%s: got %v, want %d turns", location, got, want)
		}
	}
}

// Codex compresses its sessions after a week. What was said in them has the same ids as before, also if a later session copies it.
func TestCompressedSessions(t *testing.T) {
	t.Parallel()
	session := func(id, more string) []byte {
		return []byte(`{"type":"session_meta","payload":{"id":"` + id + `"` + more + `}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"When is the harbour crane serviced?"}]}}
`)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for name, text := range map[string][]byte{"rollout-1-a.jsonl": session("a", ""), "rollout-1-a.jsonl.zst": encoder.EncodeAll(session("a", ""), nil)} {
		folder := t.TempDir()
		for name, text := range map[string][]byte{name: text, "rollout-2-b.jsonl": session("b", `,"forked_from_id":"a"`), "rollout-3.jsonl.zst": []byte("damaged")} {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		source, err := importer.OpenConversations(transcript.Codex, folder, "n", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := read(t, source)
		if len(got) != 3 || got[name+":1"].Memory == nil || got["rollout-3.jsonl.zst"].Problem.Reason != "not readable" {
			t.Fatalf("%s: got %+v, want two turns and one file that is damaged", name, got)
		}
		ids[got[name+":1"].Memory.GetId()], ids[got["rollout-2-b.jsonl:1"].Memory.GetId()] = true, true
	}
	if len(ids) != 1 {
		t.Errorf("got the ids %v, want one", ids)
	}
}

// A path with ".." after a link leads where the system says.
func TestConversationsPastALink(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	real := filepath.Join(folder, "real")
	write := func(name, text string) {
		t.Helper()
		line := `{"type":"user","uuid":"1","sessionId":"s","message":{"content":"` + text + `"}}`
		if err := os.WriteFile(name, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(real, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(real, "sub"), filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(real, "s.jsonl"), "When is the harbour crane serviced?")
	write(filepath.Join(folder, "s.jsonl"), "Where is the other file of this name?")
	source, err := importer.OpenConversations(transcript.ClaudeCode, folder+"/link/../s.jsonl", "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range read(t, source) {
		if got := item.Memory.GetContent(); !strings.Contains(got, "crane") {
			t.Errorf("got %q, want the crane", got)
		}
	}
}

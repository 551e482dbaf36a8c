package capture_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/shingles"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/capture"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// shelf is a store in memory.
type shelf struct {
	held  []*triskelev1.Memory
	calls int
	down  bool
}

func (s *shelf) Get(_ context.Context, req *triskelev1.GetRequest, _ ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	s.calls++
	if s.down {
		return nil, status.Error(codes.Unavailable, "down")
	}
	resp := &triskelev1.GetResponse{}
	for _, m := range s.held {
		if slices.Contains(req.GetIds(), m.GetId()) {
			resp.Memories = append(resp.Memories, m)
		}
	}
	return resp, nil
}

func (s *shelf) Recall(_ context.Context, req *triskelev1.RecallRequest, _ ...grpc.CallOption) (*triskelev1.RecallResponse, error) {
	resp := &triskelev1.RecallResponse{}
	for _, m := range s.held {
		if shingles.Of(m.GetContent()).Similarity(shingles.Of(req.GetQuery())) > 0.1 {
			resp.Hits = append(resp.Hits, &triskelev1.Hit{Memory: m})
		}
	}
	return resp, nil
}

func (s *shelf) Import(_ context.Context, memories []*triskelev1.Memory) (*triskelev1.ImportResponse, error) {
	s.held = append(s.held, memories...)
	return &triskelev1.ImportResponse{}, nil
}

func (s *shelf) store() capture.Store {
	return capture.Store{Get: s.Get, Recall: s.Recall, Import: s.Import}
}

func (s *shelf) texts() (texts []string) {
	for _, m := range s.held {
		texts = append(texts, m.GetContent())
	}
	return texts
}

// line is a record of Claude Code.
func line(id, role, folder, text string) string {
	out, err := json.Marshal(map[string]any{
		"type": role, "uuid": id, "sessionId": "s1", "cwd": folder, "timestamp": now.Add(-time.Hour), "message": map[string]any{"role": role, "content": text},
	})
	if err != nil {
		panic(err)
	}
	return string(out) + "\n"
}

func session(t *testing.T, text string) capture.Session {
	t.Helper()
	folder := t.TempDir()
	s := capture.Session{Path: filepath.Join(folder, "s1.jsonl"), Namespace: "work", State: filepath.Join(folder, "state"), Now: now}
	grow(t, s, text)
	return s
}

func grow(t *testing.T, s capture.Session, text string) {
	t.Helper()
	file, err := os.OpenFile(s.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, s capture.Session, store capture.Store) capture.Report {
	t.Helper()
	report, err := s.Run(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	report.Memories = nil
	return report
}

func TestTurnsBecomeMemories(t *testing.T) {
	t.Parallel()
	key := "gh" + "p_" + strings.Repeat("aB3dE5gH7j", 4)
	s := session(t, line("1", "user", "/w", "When is the harbour crane serviced? The token is "+key)+line("2", "user", "/w", "yes, go on")+
		line("3", "assistant", "/w", "The harbour crane is serviced in spring, by Ada.")+line("4", "user", "/w", "And when is the pier painted this year?"))
	var store shelf
	preview, err := s.Preview()
	if err != nil || preview.Kept != 3 || store.calls > 0 {
		t.Errorf("preview %+v, %v", preview, err)
	}
	if got, want := fmt.Sprint(run(t, s, store.store())), fmt.Sprint(capture.Report{Kept: 3, Short: 1, Redacted: 1}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := []string{
		"When is the harbour crane serviced? The token is [redacted: GitHub token]", "The harbour crane is serviced in spring, by Ada.",
		"And when is the pier painted this year?",
	}
	if got := store.texts(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	m := store.held[0]
	if m.GetImportance() >= 0.5 || m.GetImportance() <= store.held[1].GetImportance() || !m.GetExpiresAt().AsTime().Equal(now.Add(capture.Life-time.Hour)) ||
		m.GetMetadata().GetFields()[capture.Project].GetStringValue() != "/w" || m.GetMetadata().GetFields()[capture.Thread].GetStringValue() != "s1" || m.GetNamespace() != "work" || m.GetSource() != "user in w" {
		t.Errorf("got %v", m)
	}

	for i, m := range store.held {
		if m.GetThread() != "s1" || m.Position == nil || i > 0 && m.GetPosition() < store.held[i-1].GetPosition() {
			t.Errorf("turn %d: got thread %q at %v", i, m.GetThread(), m.Position)
		}
	}
	calls := store.calls
	if got := run(t, s, store.store()); got.Kept+got.Known > 0 || store.calls != calls {
		t.Errorf("without anything new: %+v and %d calls", got, store.calls-calls)
	}
	grow(t, s, line("5", "assistant", "/w", "The pier is painted in autumn."))
	if got := run(t, s, store.store()); got.Kept != 1 || len(store.held) != 4 {
		t.Errorf("one more: %+v, %d", got, len(store.held))
	}
	if err := os.RemoveAll(s.State); err != nil {
		t.Fatal(err)
	}
	if got := run(t, s, store.store()); got.Kept != 0 || got.Known != 4 || len(store.held) != 4 {
		t.Errorf("without a position: %+v, %d", got, len(store.held))
	}
}

// TestNewFactsAreStored: a turn that says the same as before but for one word says something new, however long it is.
func TestNewFactsAreStored(t *testing.T) {
	t.Parallel()
	const long = "The harbour crane runs the controller that we chose in spring, it is serviced by the port's own people, the spare parts are in the northern " +
		"shed, whoever needs the key asks at the gate, and the next service is on %s, before the ships of the autumn come in."
	first, second := fmt.Sprintf(long, "3 May"), fmt.Sprintf(long, "9 May")
	store := shelf{held: []*triskelev1.Memory{{Id: "x", Content: first}}}
	negated := strings.Replace(second, "is serviced", "is not serviced", 1)
	s := session(t, line("1", "user", "/w", second)+line("2", "user", "/w", negated))
	if got := run(t, s, store.store()); got.Kept != 2 {
		t.Errorf("got %+v, %q, want 2 kept", got, store.texts())
	}
}

func TestRepeatedTurnsAreStoredOnce(t *testing.T) {
	t.Parallel()
	const text = "Run all tests of the harbour package and fix what fails, then commit it with a message that says why"
	store := shelf{held: []*triskelev1.Memory{{Id: "x", Content: text + "."}}}
	s := session(t, line("1", "user", "/w", text)+line("2", "user", "/w", "When is the crane serviced, and by whom?")+line("3", "user", "/w", "When is the crane serviced, and by whom?!"))
	if got := run(t, s, store.store()); got.Kept != 1 || got.Known != 2 || len(store.held) != 2 {
		t.Errorf("got %+v, %q", got, store.texts())
	}
}

func TestNearDuplicates(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{ // one mark, or one letter, is what is new
		{"Set the delimiter to ';' now, in all files.", "Set the delimiter to ',' now, in all files."},
		{"End each line with . and not with ;", "End each line with ; and not with ."},
		{"The default of verbose is \"\" here.", "The default of verbose is here."},
		{"Use \"a\" as the separator of lists.", "Use as the separator of lists."},
		{"Give him vitamin A every single day.", "Give him vitamin every single day."},
		{"The server answers OK to all of these.", "The server answers to all of these."},
		{"Drill the well first, then the other.", "Drill the first, then the other."},
		{"So the deploy works on Fridays? No.", "The deploy works on Fridays. No!"},
		{"The prefix is [ in this whole file", "The prefix is ( in this whole file"},
	} {
		store := shelf{held: []*triskelev1.Memory{{Id: "x", Content: pair[0]}}}
		if found, _ := store.Recall(t.Context(), &triskelev1.RecallRequest{Query: pair[1]}); len(found.GetHits()) != 1 {
			t.Errorf("%q is not looked at for %q", pair[0], pair[1])
		}
		if got := run(t, session(t, line("1", "user", "/w", pair[1])), store.store()); got.Kept != 1 {
			t.Errorf("%q after %q: got %+v, want 1 kept", pair[1], pair[0], got)
		}
	}
	const text = "We don't deploy the crane's service on Fridays, it's frozen from noon."
	for again, want := range map[string]int{
		"OK, so we do not deploy crane's service on Fridays: it is frozen from noon, thanks!": 0,
		"“We don’t deploy the crane's service on Fridays; it's frozen from noon”":             0,
		"We deploy the crane's service on Fridays, it's frozen from noon.":                    1,
		"We don't deploy the crane's service on Fridays, it's frozen from 1 pm.":              1,
		"On Fridays the crane's service, it's frozen from noon, we don't deploy.":             1,
	} {
		store := shelf{held: []*triskelev1.Memory{{Id: "x", Content: text}}}
		if got := run(t, session(t, line("1", "user", "/w", again)), store.store()); got.Kept != want || got.Known != 1-want {
			t.Errorf("%q after %q: got %+v, want %d kept", again, text, got, want)
		}
	}
}

// What is said again is stored again before the former turn expires, or it would be forgotten then.
func TestRepeatedTurnsOutlive(t *testing.T) {
	t.Parallel()
	const text = "Use the staging database of the harbour for all tests"
	for days, want := range map[int]int{5: 1, 80: 0} {
		store := shelf{held: []*triskelev1.Memory{{Id: "x", Content: text, ExpiresAt: timestamppb.New(now.AddDate(0, 0, days))}}}
		if got := run(t, session(t, line("1", "user", "/w", text)), store.store()); got.Kept != want || got.Known != 1-want {
			t.Errorf("repeats a turn that expires in %d days: got %+v, want %d kept", days, got, want)
		}
	}
}

// What fails is made up for by the next event.
func TestFailuresAreMadeUpFor(t *testing.T) {
	t.Parallel()
	s := session(t, line("1", "user", "/w", "When is the harbour crane serviced?"))
	store := shelf{down: true}
	if _, err := s.Run(t.Context(), store.store()); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	store.down = false
	if got := run(t, s, store.store()); got.Kept != 1 {
		t.Errorf("got %+v, want 1 kept", got)
	}
}

// Without a position, each event would bring back what was forgotten.
func TestNothingIsStoredWithoutAPosition(t *testing.T) {
	t.Parallel()
	s := session(t, line("1", "user", "/w", "When is the harbour crane serviced?"))
	s.State = filepath.Join(s.Path, "state") // below a file
	var store shelf
	if _, err := s.Run(t.Context(), store.store()); err == nil || len(store.held) > 0 {
		t.Errorf("got %v and %q, want an error and nothing stored", err, store.texts())
	}
}

func TestIgnore(t *testing.T) {
	t.Parallel()
	for ignore, want := range map[string]int{
		"": 0, "*\n": 0, "# all\n\n": 0, "secret/\n": 2, "/secret\n": 2, "*.pem\n": 2, "src/**/*.pem\n": 2, "other\n": 4, "deploy.yaml": 3,
	} {
		folder := t.TempDir()
		inside := filepath.Join(folder, "src", "deep")
		if err := os.MkdirAll(inside, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, capture.IgnoreFile), []byte(ignore), 0o600); err != nil {
			t.Fatal(err)
		}
		s := session(t, line("1", "user", inside, "When is the harbour crane serviced?")+
			line("2", "user", inside, "Read `secret/plan.md` and src/a/b/key.pem and tell me.")+
			line("3", "user", inside, "What is in "+folder+"/secret/x and in @src/key.pem?")+
			line("4", "user", inside, "Open deploy.yaml: what does it say?"))
		report, err := s.Preview()
		if err != nil || report.Kept != want || report.Kept+report.Ignored != 4 {
			t.Errorf("%q: got %+v, %v; want %d kept", ignore, report, err, want)
		}
	}
}

// Files are known however they are named, and what cannot be read ignores everything.
func TestIgnoredNames(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	below := filepath.Join(folder, "src")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, capture.IgnoreFile)
	if err := os.WriteFile(file, []byte("\ufeff/secret\r\n/src/key.txt\r\nMy private notes/\r\nprivate.md\r\n/src/app/(auth)/\r\n/src/app/\\[id\\]/page.tsx\r\n计划.md\r\nC#/\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ignore, err := capture.ReadIgnore(below)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"read ../secret/plan.md": true, "read key.txt.": true, "in ./key.txt:12:3": true, "`secret/x`:12": true, "see secret/x#L3-L9": true, "**secret/x**": true,
		"see file://" + folder + "/secret/x": true, "@./secret/x": true, `secret\x`: true, "the secret/other": true,
		"see My private notes/plan.md, there": true, "in ../archive/My private notes.": true, "my notes/plan.md": false, "private notes/plan.md": false,
		"read „private.md“, then": true, "read “private.md”": true, "‘private.md’": true, "«private.md»": true, "「private.md」": true, "看「计划.md」": true,
		"请看一下private.md。": true, "シーprivate.mdを": true, "private.md를 보고": true, "private.md—the plan": true, "private.md… and": true, "private.md’s end": true,
		"private.md:12-20": true, "private.md:12:3-14:5, please": true, "private.md#section-two.": true, "file:private.md": true, "git show HEAD:private.md": true,
		"C#/x.md#L3": true, "see F#/private.md#L3": true, "uri=file://" + folder + "/secret/x": true, "[a](file://" + folder + "/secret/x)": true, "app/(auth)/login.ts": true, "(see app/(auth)/login.ts:3)": true, "app/(auth).": true, "app/[id]/page.tsx, and": true,
		"see (app/[id]/page.tsx).": true, "[that](app/[id]/page.tsx#L3)": true, "app/auth/login.ts": false, "app/i/page.tsx": false, "“private” .md": false,
		"read other/key.txt": false, "keep it secret2": false, "the 2/3 of key.txt2": false,
	} {
		if got := ignore.Matches(text); got != want {
			t.Errorf("%s: ignored is %v, want %v", text, got, want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for about, write := range map[string]func() error{
		"UTF-16":               func() error { return os.WriteFile(file, []byte("\xff\xfe*\x00\n\x00"), 0o600) },
		"a link to nothing":    func() error { return os.Symlink(filepath.Join(folder, "nothing"), file) },
		"a folder of the name": func() error { return os.Mkdir(file, 0o700) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if ignore, err := capture.ReadIgnore(below); err != nil || !ignore.Matches("anything") {
			t.Errorf("%s: got %+v, %v; want that everything is ignored", about, ignore, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// Transcripts of Gemini do not name the folder: the event does, or else a file beside the sessions.
func TestFolderOfTheEvent(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, capture.IgnoreFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := session(t, `{"sessionId":"s1","projectHash":"abc"}`+"\n"+`{"id":"1","type":"user","content":"When is the harbour crane serviced, and by whom?"}`+"\n")
	s.Folder = folder
	if report, err := s.Preview(); err != nil || report.Ignored != 1 || report.Kept != 0 {
		t.Errorf("got %+v, %v; want 1 ignored", report, err)
	}
	s = session(t, `{"sessionId":"s1","projectHash":"abc"}`+"\n"+`{"id":"1","type":"user","content":"When is the harbour crane serviced, and by whom?"}`+"\n")
	beside := filepath.Join(filepath.Dir(s.Path), ".project_root") // where Gemini CLI has it
	s.Path = filepath.Join(filepath.Dir(s.Path), "chats", "s1.jsonl")
	if err := os.Mkdir(filepath.Dir(s.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(filepath.Join(filepath.Dir(beside), "s1.jsonl"), s.Path), os.WriteFile(beside, []byte(folder), 0o600)); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Preview(); err != nil || report.Ignored != 1 || report.Kept != 0 {
		t.Errorf("without an event: got %+v, %v; want 1 ignored", report, err)
	}
}

// slow is a store whose recalls take all the time that they are given.
type slow struct{ shelf }

func (*slow) Recall(ctx context.Context, _ *triskelev1.RecallRequest, _ ...grpc.CallOption) (*triskelev1.RecallResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *slow) Import(ctx context.Context, memories []*triskelev1.Memory) (*triskelev1.ImportResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.shelf.Import(ctx, memories)
}

// A look-up that takes too long costs no turns.
func TestSlowLookUps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := session(t, line("1", "user", "/w", "When is the harbour crane serviced?")+line("2", "user", "/w", "Who paints the lighthouse in autumn?"))
		var store slow
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if report, err := s.Run(ctx, capture.Store{Get: store.Get, Recall: store.Recall, Import: store.Import}); err != nil || report.Kept != 2 {
			t.Errorf("got %+v, %v; want 2 kept", report, err)
		}
	})
}

// All turns of a long delta are stored, in several calls.
func TestLongDeltas(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 410 {
		text.WriteString(line(fmt.Sprint(i), "user", "/w", fmt.Sprintf("The harbour crane %d is serviced in spring.", i)))
	}
	s := session(t, text.String())
	if preview, err := s.Preview(); err != nil || preview.Kept != 410 {
		t.Errorf("preview %+v, %v; want 410 kept", preview, err)
	}
	var store shelf
	if got := run(t, s, store.store()); got.Kept != 410 || len(store.held) != 410 || store.calls != 3 {
		t.Errorf("got %+v and %d memories, by %d calls; want 410 by 3", got, len(store.held), store.calls)
	}
}

// A delta is read in parts of 16 MiB. Turns of all parts are stored.
func TestDeltasInParts(t *testing.T) {
	t.Parallel()
	noise := strings.Repeat(`{"type":"x","payload":"`+strings.Repeat("a", 1<<20)+"\"}\n", 17)
	s := session(t, line("1", "user", "/w", "The harbour crane is serviced in spring.")+noise+line("2", "user", "/w", "Deploys are frozen on Fridays."))
	if preview, err := s.Preview(); err != nil || preview.Kept != 2 {
		t.Errorf("preview %+v, %v; want 2 kept", preview, err)
	}
	var store shelf
	if got := run(t, s, store.store()); got.Kept != 2 || len(store.held) != 2 {
		t.Errorf("got %+v and %q, want 2 kept", got, store.texts())
	}
}

// A worktree has the .triskeleignore of its repository, or above it, which need be in no commit, unless it has one of its own. A folder that
// is reached by a link has that of where it is, and that above the link.
func TestIgnoreOfWorktrees(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"main/.git/HEAD": "", "main/.triskeleignore": "secret/\n/.claude/worktrees/b/plan", "beside/.git": "gitdir: ../main/.git/worktrees/beside\n", "beside/docs/x": "",
		"own/.git": "gitdir: ../main/.git/worktrees/own\n", "own/.triskeleignore": "other", "main/.claude/worktrees/b/.git": "gitdir: " + root + "/main/.git/worktrees/b\n",
		"client/.triskeleignore": "/repo/plan\n/repo/docs/draft", "client/repo/.git/HEAD": "", "wt/feature/.git": "gitdir: " + root + "/client/repo/.git/worktrees/feature\n",
		"wt/feature/docs/x": "", "wt/.triskeleignore": "other", "links/.triskeleignore": "third",
	} {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "client/repo"), filepath.Join(root, "links/repo")); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		folder, text string
		want         bool
	}{
		{"wt/feature", "look at plan", true}, {"wt/feature/docs", "look at draft", true}, {"wt/feature/docs", "look at " + root + "/wt/feature/plan", true},
		{"wt/feature", "look at other", true}, {"wt/feature", "look at docs/plan", false}, {"links/repo", "look at plan", true}, {"links/repo", "look at third", true},
		{"links/repo", "look at " + root + "/client/repo/plan", true}, {"links/repo", "look at docs/plan", false}, {"client/repo/gone", "look at ../plan", true},
		{"beside", "look at secret/a.md", true}, {"beside/docs", "look at ../secret/a.md", true}, {"beside", "look at " + root + "/beside/secret/a.md", true}, {"beside", "look at plan", false},
		{"own", "look at secret/a.md", false}, {"own", "look at other/a.md", true}, {"main/.claude/worktrees/b", "look at plan", true}, {"main/.claude/worktrees/b", "look at secret/x", true},
	} {
		ignore, err := capture.ReadIgnore(filepath.Join(root, x.folder))
		if err != nil || ignore.Matches(x.text) != x.want {
			t.Errorf("%s, %q: ignored %t, %v; want %t", x.folder, x.text, !x.want, err, x.want)
		}
	}
}

// What expired long ago is not stored, and a long turn is shortened.
// The worktrees of a repository are one project, and a submodule is its own.
func TestProjectOf(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"main/.git/HEAD": "", "main/a b/x": "", "main/module/.git": "gitdir: ../.git/modules/module\n", "worktrees/main/module/.git": "gitdir: " + root + "/worktrees/main/.git/modules/module\n", "main/.claude/worktrees/ü/.git": "gitdir: " + root + "/main/.git/worktrees/ü\n",
		"beside/.git": "gitdir: ../main/.git/worktrees/beside\n", "beside/docs/x": "", "bare.git/HEAD": "", "of bare/.git": "gitdir: " + root + "/bare.git/worktrees/of bare\n", "none/x": "",
		"shop/.bare/HEAD": "", "shop/.git": "gitdir: ./.bare\n", "shop/fix/.git": "gitdir: " + root + "/shop/.bare/worktrees/fix\n",
		"home/.dotfiles/HEAD": "", "home/try/.git": "gitdir: " + root + "/home/.dotfiles/worktrees/try\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for folder, want := range map[string]string{
		"main": "main", "main/a b": "main", "main/module": "main/module", "worktrees/main/module": "worktrees/main/module", "main/.claude/worktrees/ü": "main", "beside/docs": "main", "of bare": "bare.git", "none": "none",
		"shop": "shop", "shop/fix": "shop", "home/try": "home/.dotfiles",
	} {
		if got := capture.ProjectOf(filepath.Join(root, folder)); got != filepath.Join(root, want) {
			t.Errorf("%s: got %s, want %s", folder, got, want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	old := strings.ReplaceAll(line("1", "user", "/w", "When was the harbour crane serviced?"), "2026-03-01T11", "2020-03-01T11")
	s := session(t, old+line("2", "user", "/w", "Begin "+strings.Repeat("起", 9000)+" end"))
	report, err := s.Preview()
	if err != nil || report.Kept != 1 {
		t.Fatalf("got %+v, %v", report, err)
	}
	if got := report.Memories[0].GetContent(); len(got) > 7000 || !strings.HasPrefix(got, "Begin ") || !strings.HasSuffix(got, " end") {
		t.Errorf("%d bytes: %.20s", len(got), got)
	}
}

// list is a Lister with pages of three memories.
type list []*triskelev1.Memory

func (l list) List(_ context.Context, req *triskelev1.ListRequest, _ ...grpc.CallOption) (*triskelev1.ListResponse, error) {
	if project, filtered := req.GetFilter().GetMetadata()[capture.Project]; filtered {
		l = slices.DeleteFunc(slices.Clone(l), func(m *triskelev1.Memory) bool {
			of, has := m.GetMetadata().GetFields()[capture.Project]
			return !has || of.GetStringValue() != project.GetStringValue()
		})
	}
	from, _ := strconv.Atoi(req.GetPageToken())
	resp := &triskelev1.ListResponse{Memories: l[from:min(from+3, len(l))]}
	if from+3 < len(l) {
		resp.NextPageToken = strconv.Itoa(from + 3)
	}
	return resp, nil
}

// recapped returns what a recap of the project /w says.
func recapped(t *testing.T, lister capture.Lister) (texts []string) {
	t.Helper()
	hits, err := capture.Recap(t.Context(), lister, []string{"work"}, "/w", now)
	if err != nil {
		t.Fatal(err)
	}
	for _, hit := range hits {
		texts = append(texts, hit.GetMemory().GetContent())
	}
	return texts
}

func TestRecap(t *testing.T) {
	t.Parallel()
	ids := 0
	fact := func(text string, importance float64, days int, project string) *triskelev1.Memory {
		ids++
		m := &triskelev1.Memory{Id: strconv.Itoa(ids), Content: text, Importance: &importance, CreatedAt: timestamppb.New(now.AddDate(0, 0, -days))}
		if project != "" {
			m.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{capture.Project: structpb.NewStringValue(project)}}
		}
		return m
	}
	turn := func(text string, days int, project string) *triskelev1.Memory {
		m := fact(text, .4, days, project)
		m.Category = capture.Category
		return m
	}
	hidden := fact("hidden", 1, 0, "")
	hidden.Sensitive = true
	got := recapped(t, list{
		turn("elsewhere", 0, "/other"), turn("elsewhere", 0, "/other"), turn("elsewhere", 0, "/other"),
		turn("old turn", 30, "/w"), fact("decision", .9, 3, ""), turn("elsewhere", 0, "/other"), turn("turn", 0, "/w"), hidden, fact("old", .5, 60, ""),
	})
	if want := []string{"decision", "turn", "old", "old turn"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	// The project's own facts come first, however old they are, then those of none. Those of others do not take turns.
	got = recapped(t, list{
		fact("elsewhere", .9, 0, "/other"), fact("general", .9, 0, ""), turn("turn", 0, "/w"), turn("turn before", 1, "/w"), turn("first turn", 2, "/w"),
		fact("own", .5, 30, "/w"), fact("old", .5, 60, "/w"),
	})
	if want := []string{"own", "turn", "old", "turn before", "general", "first turn", "elsewhere"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	// Without any of its own, a project begins with its turns. Those of others are heard, and a name that is no folder is nobody's.
	got = recapped(t, list{fact("elsewhere", .9, 0, "/other"), turn("turn", 0, "/w"), turn("turn before", 1, "/w"), fact("elsewhere, too", .5, 1, "/other")})
	if want := []string{"turn", "elsewhere", "turn before", "elsewhere, too"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := recapped(t, list{fact("elsewhere", .9, 0, "/other"), fact("named", .5, 1, "kestrel")}), []string{"named", "elsewhere"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	// A busy project hides nothing that somebody stored, and no number of newer memories hides the project's.
	var busy list
	for range 400 {
		busy = append(busy, turn("turn", 0, "/w"))
	}
	if got := recapped(t, append(busy, fact("decision", .9, 3, ""))); got[0] != "decision" {
		t.Errorf("after 400 turns: got %q first, want the decision", got[0])
	}
	var many list
	for i := range 400 {
		many = append(many, fact("elsewhere", .9, 0, []string{"", "/other"}[i%2]))
	}
	if got := recapped(t, append(many, fact("own", .5, 90, "/w"))); got[0] != "own" || len(got) != 300 {
		t.Errorf("after 400 memories of others: got %q first of %d, want the project's of 300", got[0], len(got))
	}
}

// sluggish is a Lister that takes its time, and does not find a project's memories at all.
type sluggish struct {
	list
	takes time.Duration
}

func (l sluggish) List(ctx context.Context, req *triskelev1.ListRequest, options ...grpc.CallOption) (*triskelev1.ListResponse, error) {
	takes := time.After(l.takes)
	if req.GetFilter() != nil {
		takes = nil
	}
	select {
	case <-takes:
		return l.list.List(ctx, req, options...)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func TestRecapInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var many list
		for i := range 400 {
			many = append(many, &triskelev1.Memory{Id: strconv.Itoa(i), Content: "decision"})
		}
		for _, takes := range []time.Duration{time.Millisecond, 600 * time.Millisecond} { // more than half of the time
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			hits, err := capture.Recap(ctx, sluggish{many, takes}, []string{"work"}, "/w", now)
			if err != nil || len(hits) == 0 || ctx.Err() != nil {
				t.Errorf("where a list takes %v: got %d hits, %v, want some in time", takes, len(hits), err)
			}
			cancel()
		}
	})
}

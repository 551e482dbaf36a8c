// Package capture turns what was said in an agent's session into memories. It calls the gateway, and no model. The process for one
// event of a session is:
//
//  1. Read what the transcript has beyond the position that the last event left behind.
//  2. Leave out turns of a session that its user keeps private, that are too short to mean something alone, or that name a file which
//     .triskeleignore lists.
//  3. Replace secrets, and count them.
//  4. Leave out turns that are stored already, or say the same as a stored one that does not expire soon. One that differs in a number
//     says something new.
//  5. Store the rest in one transaction, with a life and an importance below that of a memory that somebody chose to store, if the
//     position can be kept.
//  6. Keep the position. If a step fails, the position stays, and the next event makes up for it.
package capture

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/replace"
	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/secrets"
	"github.com/triskele/triskele/services/agents/transcript"
)

const (
	// Life is how long a captured turn is recalled. What matters longer is remembered by somebody, or drawn from it by a model.
	Life = 90 * 24 * time.Hour
	// The importance of turns is below 0.5, which a memory has that somebody stored.
	userImportance, agentImportance = 0.4, 0.3
	// leastText is the length of the shortest turn that is kept, in bytes. "yes, go on" means nothing alone.
	leastText = 24
	// mostText bounds the content, in bytes. Of a longer turn the beginning and the end are kept.
	mostText = 6 << 10
	// mostTurns bounds what is stored at a time.
	mostTurns = 200
	// lookup bounds the query for repeated turns, in bytes.
	lookup = 1000
)

// Keys of a turn's metadata, and the tag and category that all turns have.
const (
	Project  = "project"
	Thread   = "thread"
	Tag      = "conversation"
	Category = "turn"
)

// ids is the beginning of the names that ids of turns are made from.
const ids = "https://github.com/triskele/triskele/turn/"

// Store is what the gateway is asked.
type Store struct {
	Get    func(context.Context, *triskelev1.GetRequest, ...grpc.CallOption) (*triskelev1.GetResponse, error)
	Recall func(context.Context, *triskelev1.RecallRequest, ...grpc.CallOption) (*triskelev1.RecallResponse, error)
	// Import stores memories in one transaction.
	Import func(context.Context, []*triskelev1.Memory) (*triskelev1.ImportResponse, error)
}

// Report says what became of the turns of a transcript.
type Report struct {
	Memories []*triskelev1.Memory `json:"-"` // those that were stored, or would be
	Kept     int                  `json:"kept"`
	Known    int                  `json:"known"`    // stored before, or the same as a stored one
	Short    int                  `json:"short"`    // too short
	Ignored  int                  `json:"ignored"`  // left out by .triskeleignore, or because the session is private
	Redacted int                  `json:"redacted"` // secrets that were replaced
}

// Session is a transcript to capture.
type Session struct {
	Path      string // of the transcript
	Namespace string
	State     string // folder of positions; empty starts at the beginning and keeps none
	Folder    string // the agent's working directory, for transcripts that do not name it; may be empty
	Now       time.Time
	Private   Private
}

// Preview returns what Run would store at most. It asks no gateway and changes nothing.
func (s Session) Preview() (Report, error) {
	return s.parts(func(*Report, int64) error { return nil })
}

// Run stores what the transcript has that is new. If a position cannot be kept, it stores nothing: each event would bring back what was
// forgotten.
func (s Session) Run(ctx context.Context, store Store) (Report, error) {
	if s.State != "" {
		if err := s.keep(s.position()); err != nil {
			return Report{}, err
		}
	}
	return s.parts(func(part *Report, next int64) error {
		if err := part.store(ctx, store, s.Namespace); err != nil || s.State == "" {
			return err
		}
		return s.keep(next)
	})
}

// parts calls take with each part of what is new in the transcript, and the position behind it. It returns all of them as one.
func (s Session) parts(take func(part *Report, next int64) error) (all Report, err error) {
	chooser := Chooser{Private: s.Private}
	for from := s.position(); ; {
		part, next, err := s.read(from, &chooser)
		if err == nil {
			err = take(&part, next)
		}
		all = Report{
			append(all.Memories, part.Memories...), all.Kept + part.Kept, all.Known + part.Known, all.Short + part.Short, all.Ignored + part.Ignored,
			all.Redacted + part.Redacted,
		}
		if err != nil || next == from {
			return all, err
		}
		from = next
	}
}

func (s Session) read(from int64, chooser *Chooser) (report Report, next int64, err error) {
	turns, next, err := transcript.Delta(s.Path, from)
	if err != nil {
		return report, 0, err
	}
	folder := cmp.Or(s.Folder, FolderOf(s.Path))
	for _, turn := range turns {
		turn.Folder = cmp.Or(turn.Folder, folder)
		choice, err := chooser.Choose(turn)
		if err != nil {
			return report, 0, err
		}
		switch choice {
		case Short:
			report.Short++
		case Ignored:
			report.Ignored++
		case Keep:
			m, redacted := Memory(turn, s.Namespace)
			if m.OccurredAt == nil {
				m.OccurredAt = timestamppb.New(s.Now)
			}
			m.ExpiresAt = timestamppb.New(m.GetOccurredAt().AsTime().Add(Life))
			if report.Redacted += redacted; m.GetExpiresAt().AsTime().After(s.Now) {
				report.Memories = append(report.Memories, m)
			}
		}
	}
	report.Kept = len(report.Memories)
	return report, next, nil
}

// Choice says what becomes of a turn.
type Choice int

const (
	Keep    Choice = iota
	Short          // it means nothing alone
	Ignored        // .triskeleignore leaves it out, or its session is private
)

// Private reports whether a session was not to be captured, by its id. Nil knows of none.
type Private func(session string) bool

// Chooser chooses the turns to keep. It reads the .triskeleignore of each folder once.
type Chooser struct {
	Private Private
	ignores map[string]*Ignore
}

// Choose fails if a .triskeleignore cannot be read.
func (c *Chooser) Choose(turn transcript.Turn) (Choice, error) {
	if c.Private != nil && c.Private(turn.Thread) {
		return Ignored, nil
	}
	ignore := c.ignores[turn.Folder]
	if ignore == nil {
		var err error
		if ignore, err = ReadIgnore(turn.Folder); err != nil {
			return Ignored, err
		}
		if c.ignores == nil {
			c.ignores = map[string]*Ignore{}
		}
		c.ignores[turn.Folder] = ignore
	}
	switch {
	case len(turn.Text) < leastText:
		return Short, nil
	case ignore.Matches(turn.Text):
		return Ignored, nil
	}
	return Keep, nil
}

// Memory returns the memory of a turn, without secrets, and counts these. It lasts: the caller sets when it expires.
func Memory(turn transcript.Turn, namespace string) (m *triskelev1.Memory, redacted int) {
	text, redacted := secrets.Redact(turn.Text)
	if len(text) > mostText {
		text = clip.Text(text, mostText*3/4) + "\n[…]\n" + strings.ToValidUTF8(text[len(text)-mostText/4:], "")
	}
	title, hidden := secrets.Redact(turn.Title)
	importance := userImportance
	if turn.Role == transcript.Agent {
		importance = agentImportance
	}
	m = &triskelev1.Memory{
		Id: uuid.NewSHA1(uuid.NameSpaceURL, []byte(ids+turn.Thread+"\x00"+turn.ID)).String(), Namespace: namespace,
		Content: text, Title: clip.Text(title, 200), Tags: []string{Tag}, Category: Category, Importance: &importance,
		Source: clip.Text(turn.Role+" in "+cmp.Or(turn.Thread, "a conversation"), 200), // without a project
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			Thread: structpb.NewStringValue(turn.Thread), "role": structpb.NewStringValue(turn.Role),
		}},
		Thread: clip.Text(turn.Thread, 512),
	}
	if turn.Folder != "" {
		project := ProjectOf(turn.Folder)
		m.Metadata.Fields[Project] = structpb.NewStringValue(project)
		m.Source = clip.Text(turn.Role+" in "+filepath.Base(project), 200) // a model may see turns of other projects
	}
	if !turn.At.IsZero() {
		m.OccurredAt = timestamppb.New(turn.At)
		if position := turn.At.UnixMicro(); m.GetThread() != "" && position >= 0 {
			m.Position = &position
		}
	}
	return m, redacted + hidden
}

// FolderOf returns the agent's working directory for a session of Gemini CLI, which keeps it beside the folder of sessions. It is empty
// if there is none.
func FolderOf(session string) string {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(session)), ".project_root"))
	return strings.TrimSpace(string(text))
}

// ProjectOf returns the root of the repository that a folder is in, or the folder.
func ProjectOf(folder string) string { return cmp.Or(Repository(folder), folder) }

// Repository returns the root of the repository that a folder is in, or "". All worktrees of a repository have one root.
func Repository(folder string) string {
	for at := folder; at != filepath.Dir(at); at = filepath.Dir(at) {
		git := filepath.Join(at, ".git")
		if _, err := os.Stat(git); err != nil {
			continue
		}
		text, _ := os.ReadFile(git) // a file in a worktree, which names a folder in the repository's
		link := filepath.FromSlash(strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir: ")))
		if filepath.Base(filepath.Dir(link)) != "worktrees" {
			return at
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(at, link)
		}
		root := filepath.Dir(filepath.Dir(link))
		if name := filepath.Base(root); name == ".git" || name == ".bare" { // beside the worktrees
			root = filepath.Dir(root)
		}
		return root
	}
	return ""
}

// store stores the memories that are new. Those are left in the report.
func (r *Report) store(ctx context.Context, store Store, namespace string) error {
	var stored []*triskelev1.Memory
	for some := range slices.Chunk(r.Memories, mostTurns) {
		fresh, err := store.put(ctx, namespace, some)
		if err != nil {
			return err
		}
		stored = append(stored, fresh...)
	}
	r.Known += r.Kept - len(stored)
	r.Memories, r.Kept = stored, len(stored)
	return nil
}

// put stores those of some memories that are new, and returns them.
func (s Store) put(ctx context.Context, namespace string, some []*triskelev1.Memory) ([]*triskelev1.Memory, error) {
	held, err := s.Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: slice.Map(some, (*triskelev1.Memory).GetId)})
	if err != nil && status.Code(err) != codes.NotFound {
		return nil, err
	}
	looking, cancel := halfOf(ctx)
	defer cancel()
	var seen []string
	some = slices.DeleteFunc(some, func(m *triskelev1.Memory) bool {
		if slices.ContainsFunc(held.GetMemories(), func(h *triskelev1.Memory) bool { return h.GetId() == m.GetId() }) {
			return true
		}
		text := said(m.GetContent())
		if slices.Contains(seen, text) || slices.Contains(similar(looking, s, m), text) {
			return true
		}
		seen = append(seen, text)
		return false
	})
	if len(some) == 0 {
		return nil, nil
	}
	_, err = s.Import(ctx, some)
	return some, err
}

// halfOf returns a context for half of the time. The look-ups of a long delta leave time to store it, or each later event would fail, too.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	return context.WithCancel(ctx)
}

// said returns what a text says, without what changes nothing in it: case, white space, marks behind words and quotes around them, short
// forms, articles, and words of courtesy around it. Two texts that say the same are near-duplicates. The order of words stays, and so do
// numbers, negations, questions, and a mark or a letter that the text is about.
func said(text string) string {
	text = strings.TrimRight(strings.ReplaceAll(text, "’", "'"), ".!?… ")
	var words []string
	for _, field := range strings.Fields(text) {
		if slices.Contains(articles, field) || len(words) == 0 && slices.Contains(articles, strings.ToLower(field)) {
			continue
		}
		word := shortForms.Replace(strings.ToLower(field))
		if bare := strings.TrimRight(strings.TrimLeft(word, "\"'“‘"), "\"'”,.;:"); len(bare) > 1 {
			word = bare
		}
		if len(words) > 0 || !slices.Contains(openings, word) {
			words = append(words, word)
		}
	}
	for len(words) > 0 && slices.Contains(closings, words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	return strings.Join(words, " ")
}

var (
	articles   = []string{"a", "an", "the"}
	openings   = []string{"ok", "okay", "hey", "hi", "well", "so", "please", "thanks"}
	closings   = []string{"please", "thanks"}
	shortForms = strings.NewReplacer("can't", "can not", "cannot", "can not", "won't", "will not", "n't", " not", "'re", " are", "'ll", " will",
		"'ve", " have", "i'm", "i am", "it's", "it is", "that's", "that is")
)

// similar returns what stored memories say that are most like a turn, without those that expire much earlier. It returns none if they
// are not to be had: a duplicate does less harm than a gap.
func similar(ctx context.Context, store Store, m *triskelev1.Memory) []string {
	resp, _ := store.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{m.GetNamespace()}, Query: clip.Text(m.GetContent(), lookup), Limit: new(int32(3)), Budget: durationpb.New(2 * time.Second),
	})
	early := m.GetExpiresAt().AsTime().Add(-Life / 2)
	hits := slices.DeleteFunc(resp.GetHits(), func(hit *triskelev1.Hit) bool {
		expires := hit.GetMemory().GetExpiresAt()
		return expires != nil && expires.AsTime().Before(early)
	})
	return slice.Map(hits, func(hit *triskelev1.Hit) string { return said(hit.GetMemory().GetContent()) })
}

// position returns where the last event has left off.
func (s Session) position() int64 {
	if s.State == "" {
		return 0
	}
	var kept struct{ Next int64 }
	text, err := os.ReadFile(s.file())
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return 0 // turns have ids: nothing is stored twice
	}
	return kept.Next
}

func (s Session) keep(next int64) error {
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return err
	}
	return replace.File(s.file(), func(file *os.File) error { // another event may read it meanwhile
		_, err := fmt.Fprintf(file, "{\"next\":%d}\n", next)
		return err
	})
}

// file is the file of the transcript's position. Its name does not tell the session's.
func (s Session) file() string {
	return filepath.Join(s.State, fmt.Sprintf("%x.json", sha256.Sum256([]byte(s.Namespace+"\x00"+s.Path))))
}

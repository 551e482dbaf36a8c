package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"regexp"
	"slices"

	"github.com/triskele/triskele/services/agents/internal/lines"
)

// synthetic is the model of messages that Claude Code writes itself in place of an answer, such as an error of the API.
const synthetic = "<synthetic>"

// agentsOwn are the origins of messages that programs and other agents send in the user's place.
var agentsOwn = []string{"peer", "coordinator", "task-notification", "auto-continuation"}

// mostBranches bounds the branches of branches.
const mostBranches = 100

// sessionID matches ids of sessions. Others are no names of files.
var sessionID = regexp.MustCompile(`^[\w-]+$`)

// claude reads records of Claude Code: ~/.claude/projects/FOLDER/SESSION.jsonl.
type claude struct {
	sessions Sessions
	branches map[string]map[string]origin // what sessions have copied, by the copy's id
}

// origin is the message that a message of a branch was copied from.
type origin struct {
	SessionID string `json:"sessionId"`
	UUID      string `json:"messageUuid"`
}

// first returns what a message was copied from, if that is a copy, too.
func (c *claude) first(at origin) origin {
	for range mostBranches {
		if c.branches[at.SessionID] == nil {
			c.branches[at.SessionID] = c.copies(at.SessionID)
		}
		from, copied := c.branches[at.SessionID][at.UUID]
		if !copied {
			break
		}
		at = from
	}
	return at
}

// copies returns the origins of a session's messages that are copies.
func (c *claude) copies(session string) map[string]origin {
	found := map[string]origin{}
	in, err := c.sessions.open(session)
	if err != nil {
		return found
	}
	defer func() { _ = in.Close() }()
	for line, err := range lines.All(in, mostRecord) {
		var r struct {
			UUID   string
			Forked origin `json:"forkedFrom"`
		}
		if err == nil && json.Unmarshal(line.Text, &r) == nil && r.Forked.UUID != "" {
			found[r.UUID] = r.Forked
		}
	}
	return found
}

func (c *claude) message(line []byte, _ int64) (Turn, bool) {
	var r struct {
		Type      string
		UUID      string
		SessionID string `json:"sessionId"`
		Timestamp moment
		Cwd       string
		Sidechain bool `json:"isSidechain"`
		Meta      bool `json:"isMeta"`
		Summary   bool `json:"isCompactSummary"`
		Origin    struct{ Kind string }
		Forked    origin `json:"forkedFrom"` // of a branch, which begins with a copy of the session
		Message   struct {
			Model   string
			Content parts
		}
		Attachment struct {
			Type   string
			Mode   string `json:"commandMode"`
			Meta   bool   `json:"isMeta"`
			Origin struct{ Kind string }
			Prompt parts
		}
	}
	if json.Unmarshal(line, &r) != nil || r.UUID == "" || r.Sidechain || r.Meta || r.Summary || r.Message.Model == synthetic || slices.Contains(agentsOwn, r.Origin.Kind) {
		return Turn{}, false
	}
	role, text := map[string]string{"user": User, "assistant": Agent}[r.Type], r.Message.Content
	if a := r.Attachment; a.Type == "queued_command" && a.Mode == "prompt" && !a.Meta && !slices.Contains(agentsOwn, a.Origin.Kind) { // the user said it while the agent was at work
		role, text = User, a.Prompt
	}
	said := origin{r.SessionID, r.UUID}
	if r.Forked != (origin{}) {
		said = c.first(r.Forked)
	}
	return Turn{ID: said.UUID, Thread: said.SessionID, Role: role, Text: string(text), At: r.Timestamp.Time, Folder: r.Cwd}, role != ""
}

// codex reads records of Codex: ~/.codex/sessions/YEAR/MONTH/DAY/rollout-*.jsonl. The first record has the session's id and folder, and
// says whether a sub-agent's session it is, and which session it begins with a copy of. The copy has new times.
type codex struct {
	sessions       Sessions
	thread, folder string
	subAgent       bool
	copied         []Turn // of the other session, from the next one on
}

func (c *codex) message(line []byte, at int64) (Turn, bool) {
	var r struct {
		Type      string
		Timestamp moment
		Payload   struct {
			ID      string
			Cwd     string
			Type    string
			Role    string
			Content parts
			Source  json.RawMessage
			Forked  string `json:"forked_from_id"`
		}
	}
	if json.Unmarshal(line, &r) != nil {
		return Turn{}, false
	}
	if r.Type == "session_meta" && c.thread == "" {
		var source struct{ SubAgent any } // of a user's session it is a text
		c.thread, c.folder, c.subAgent = r.Payload.ID, r.Payload.Cwd, json.Unmarshal(r.Payload.Source, &source) == nil && source.SubAgent != nil
		c.copied = c.turns(r.Payload.Forked)
	}
	role := map[string]string{"user": User, "assistant": Agent}[r.Payload.Role]
	if r.Type != "response_item" || r.Payload.Type != "message" || role == "" || c.subAgent {
		return Turn{}, false
	}
	// Messages have no ids. A file is only appended to, so that a message stays where it is.
	turn := Turn{ID: fmt.Sprint(at), Thread: c.thread, Role: role, Text: string(r.Payload.Content), At: r.Timestamp.Time, Folder: c.folder}
	if text := Said(turn.Text); text != "" && len(c.copied) > 0 {
		original := c.copied[0]
		if c.copied = c.copied[1:]; original.Role != role || original.Text != text {
			c.copied = nil // the session goes on by itself
			return turn, true
		}
		original.Text = turn.Text
		return original, true
	}
	return turn, true
}

// turns returns all turns of another session. One that is there already is none, so that this ends.
func (c *codex) turns(session string) (turns []Turn) {
	in, err := c.sessions.open(session)
	if err != nil {
		return nil
	}
	defer func() { _ = in.Close() }()
	turns, _ = collect(newReader(Codex, func(id string) (io.ReadCloser, error) {
		if id == c.thread {
			return nil, fs.ErrNotExist
		}
		return c.sessions(id)
	}).lines(in, 0))
	return turns
}

// gemini reads records of Gemini CLI: ~/.gemini/tmp/PROJECT/chats/session-*.jsonl. The first record has the session's id.
type gemini struct{ thread string }

type geminiMessage struct {
	ID        string
	Timestamp moment
	Type      string
	Content   parts
	Typed     parts `json:"displayContent"` // by the user, if the content has more: files that the user has named
}

func (g *gemini) message(line []byte, _ int64) (Turn, bool) {
	var r struct {
		SessionID string `json:"sessionId"`
		geminiMessage
	}
	if json.Unmarshal(line, &r) != nil {
		return Turn{}, false
	}
	if r.SessionID != "" {
		g.thread = r.SessionID
	}
	return r.turn(g.thread)
}

func (m geminiMessage) turn(thread string) (Turn, bool) {
	role := map[string]string{"user": User, "gemini": Agent}[m.Type]
	return Turn{ID: m.ID, Thread: thread, Role: role, Text: string(cmp.Or(m.Typed, m.Content)), At: m.Timestamp.Time}, role != "" && m.ID != ""
}

// geminiObject reads a session of an older Gemini CLI: one object with all messages.
func geminiObject(in io.Reader) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		var session struct {
			SessionID string `json:"sessionId"`
			Messages  []geminiMessage
		}
		if err := json.NewDecoder(in).Decode(&session); err != nil {
			yield(Turn{}, err)
			return
		}
		for _, m := range session.Messages {
			turn, ok := m.turn(session.SessionID)
			if turn.Text = Said(turn.Text); ok && turn.Text != "" && !yield(turn, nil) {
				return
			}
		}
	}
}

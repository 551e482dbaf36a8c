package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
)

// synthetic is the model of messages that Claude Code writes itself in place of an answer, such as an error of the API.
const synthetic = "<synthetic>"

// agentsOwn are the origins of messages that programs and other agents send in the user's place.
var agentsOwn = []string{"peer", "coordinator", "task-notification"}

// claudeCode reads a record of Claude Code: ~/.claude/projects/FOLDER/SESSION.jsonl.
func claudeCode(line []byte, _ int64) (Turn, bool) {
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
		Forked    struct { // of a branch, which begins with a copy of the session
			SessionID string `json:"sessionId"`
			UUID      string `json:"messageUuid"`
		} `json:"forkedFrom"`
		Message struct {
			Model   string
			Content parts
		}
		Attachment struct {
			Type   string
			Mode   string `json:"commandMode"`
			Meta   bool   `json:"isMeta"`
			Prompt parts
		}
	}
	if json.Unmarshal(line, &r) != nil || r.UUID == "" || r.Sidechain || r.Meta || r.Summary || r.Message.Model == synthetic || slices.Contains(agentsOwn, r.Origin.Kind) {
		return Turn{}, false
	}
	role, text := map[string]string{"user": User, "assistant": Agent}[r.Type], r.Message.Content
	if a := r.Attachment; a.Type == "queued_command" && a.Mode == "prompt" && !a.Meta { // the user said it while the agent was at work
		role, text = User, a.Prompt
	}
	return Turn{ID: cmp.Or(r.Forked.UUID, r.UUID), Thread: cmp.Or(r.Forked.SessionID, r.SessionID), Role: role, Text: string(text), At: r.Timestamp.Time, Folder: r.Cwd}, role != ""
}

// codex reads records of Codex: ~/.codex/sessions/YEAR/MONTH/DAY/rollout-*.jsonl. The first record has the session's id and folder, and
// says whether a sub-agent's session it is.
type codex struct {
	thread, folder string
	subAgent       bool
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
		}
	}
	if json.Unmarshal(line, &r) != nil {
		return Turn{}, false
	}
	if r.Type == "session_meta" && c.thread == "" {
		var source struct{ SubAgent any } // of a user's session it is a text
		c.thread, c.folder, c.subAgent = r.Payload.ID, r.Payload.Cwd, json.Unmarshal(r.Payload.Source, &source) == nil && source.SubAgent != nil
	}
	role := map[string]string{"user": User, "assistant": Agent}[r.Payload.Role]
	if r.Type != "response_item" || r.Payload.Type != "message" || role == "" || c.subAgent {
		return Turn{}, false
	}
	// Messages have no ids. A file is only appended to, so that a message stays where it is.
	return Turn{ID: fmt.Sprint(at), Thread: c.thread, Role: role, Text: string(r.Payload.Content), At: r.Timestamp.Time, Folder: c.folder}, true
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
			if turn.Text = said(turn.Text); ok && turn.Text != "" && !yield(turn, nil) {
				return
			}
		}
	}
}

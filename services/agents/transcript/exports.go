package transcript

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
)

// conversations reads an array of conversations one by one, with what reads the turns of one.
func conversations[C any](in io.Reader, turns func(C) []Turn) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		decoder := json.NewDecoder(in)
		if first, err := decoder.Token(); err != nil || first != json.Delim('[') {
			yield(Turn{}, fmt.Errorf("this is no list of conversations: %w", err))
			return
		}
		for decoder.More() {
			var conversation C
			if err := decoder.Decode(&conversation); err != nil {
				yield(Turn{}, err)
				return
			}
			for _, turn := range turns(conversation) {
				if turn.Text = said(turn.Text); turn.Text != "" && !yield(turn, nil) {
					return
				}
			}
		}
	}
}

// claudeConversation is a conversation of an export of claude.ai.
type claudeConversation struct {
	UUID     string
	Name     string
	Messages []struct {
		UUID      string
		Sender    string
		Text      string
		Content   parts
		CreatedAt moment `json:"created_at"`
	} `json:"chat_messages"`
}

func claudeWeb(c claudeConversation) (turns []Turn) {
	for _, m := range c.Messages {
		role := map[string]string{"human": User, "assistant": Agent}[m.Sender]
		text := string(m.Content)
		if text == "" {
			text = m.Text
		}
		if role != "" {
			turns = append(turns, Turn{ID: m.UUID, Thread: c.UUID, Title: c.Name, Role: role, Text: text, At: m.CreatedAt.Time})
		}
	}
	return turns
}

// gptConversation is a conversation of an export of ChatGPT: a tree of messages, whose last one is current.
type gptConversation struct {
	ID             string
	ConversationID string `json:"conversation_id"`
	Title          string
	Current        string `json:"current_node"`
	Mapping        map[string]struct {
		Parent  string
		Message *struct {
			ID         string
			Author     struct{ Role string }
			CreateTime moment `json:"create_time"`
			Content    struct {
				Type  string `json:"content_type"`
				Parts parts
			}
			Recipient string
			Metadata  struct {
				Hidden bool `json:"is_visually_hidden_from_conversation"`
			}
		}
	}
}

func chatGPT(c gptConversation) (turns []Turn) {
	thread := c.ConversationID
	if thread == "" {
		thread = c.ID
	}
	seen := map[string]bool{}
	for at := c.Current; at != "" && !seen[at]; at = c.Mapping[at].Parent {
		seen[at] = true
		m := c.Mapping[at].Message
		if m == nil || m.Metadata.Hidden || (m.Recipient != "" && m.Recipient != "all") || (m.Content.Type != "text" && m.Content.Type != "multimodal_text") {
			continue
		}
		if role := map[string]string{"user": User, "assistant": Agent}[m.Author.Role]; role != "" {
			turns = append(turns, Turn{ID: m.ID, Thread: thread, Title: c.Title, Role: role, Text: string(m.Content.Parts), At: m.CreateTime.Time})
		}
	}
	slices.Reverse(turns)
	return turns
}

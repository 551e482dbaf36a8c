package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// mostConversation bounds what is read of one conversation, in bytes. A small archive can hold a huge one.
const mostConversation = 64 << 20

// boundedReader reads left bytes, and then fails.
type boundedReader struct {
	in   io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("a conversation has more than %d bytes", mostConversation)
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// conversations reads an array of conversations one by one, with what reads the turns of one. Values of another type than expected
// are left out.
func conversations[C any](in io.Reader, turns func(C) []Turn) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		buffered := bufio.NewReader(in)
		if first, _ := buffered.Peek(len(byteOrderMark)); bytes.Equal(first, byteOrderMark) {
			_, _ = buffered.Discard(len(byteOrderMark))
		}
		bounded := &boundedReader{buffered, mostConversation}
		decoder := json.NewDecoder(bounded)
		if first, err := decoder.Token(); err != nil {
			yield(Turn{}, fmt.Errorf("this is no list of conversations: %w", err))
			return
		} else if first != json.Delim('[') {
			yield(Turn{}, errors.New("this is no list of conversations"))
			return
		}
		for ; decoder.More(); bounded.left = mostConversation {
			var conversation C
			var odd *json.UnmarshalTypeError // the rest is decoded nevertheless
			if err := decoder.Decode(&conversation); err != nil && !errors.As(err, &odd) {
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
				Hidden any `json:"is_visually_hidden_from_conversation"`
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
		if m == nil || fmt.Sprint(m.Metadata.Hidden) == "true" || (m.Recipient != "" && m.Recipient != "all") || (m.Content.Type != "text" && m.Content.Type != "multimodal_text") {
			continue
		}
		if role := map[string]string{"user": User, "assistant": Agent}[m.Author.Role]; role != "" {
			turns = append(turns, Turn{ID: m.ID, Thread: thread, Title: c.Title, Role: role, Text: string(m.Content.Parts), At: m.CreateTime.Time})
		}
	}
	slices.Reverse(turns)
	return turns
}

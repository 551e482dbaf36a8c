package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"
)

// mostConversation bounds what is read of one conversation, in bytes. A small archive can hold a huge one.
const mostConversation = 64 << 20

// conversations reads an array of conversations one by one, with what reads the turns of one. It returns false for what is no
// conversation, which is a Damage with the reason foreign. Values of another type than expected are left out.
func conversations[C any](in io.Reader, turns func(C) ([]Turn, bool), foreign string) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		buffered := bufio.NewReader(in)
		if first, _ := buffered.Peek(len(byteOrderMark)); bytes.Equal(first, byteOrderMark) {
			_, _ = buffered.Discard(len(byteOrderMark))
		}
		bounded := &io.LimitedReader{R: buffered, N: mostConversation}
		decoder := json.NewDecoder(bounded)
		if first, err := decoder.Token(); err != nil {
			yield(Turn{}, fmt.Errorf("this is no list of conversations: %w", err))
			return
		} else if first != json.Delim('[') {
			yield(Turn{}, errors.New("this is no list of conversations"))
			return
		}
		for n := 1; decoder.More(); n++ {
			bounded.N = mostConversation
			var conversation C
			var odd *json.UnmarshalTypeError // the rest is decoded nevertheless
			err := decoder.Decode(&conversation)
			switch {
			case err == nil || errors.As(err, &odd):
			case bounded.N <= 0:
				yield(Turn{}, fmt.Errorf("a conversation has more than %d bytes", mostConversation))
				return
			default:
				yield(Turn{}, err)
				return
			}
			list, ok := turns(conversation)
			if !ok && !yield(Turn{}, &Damage{fmt.Sprint("conversation ", n), foreign}) {
				return
			}
			for _, turn := range list {
				if turn.Text = Said(turn.Text); turn.Text != "" && !yield(turn, nil) {
					return
				}
			}
		}
		if _, err := decoder.Token(); err != nil {
			yield(Turn{}, errors.New("the list of conversations has no end"))
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

func claudeWeb(c claudeConversation) (turns []Turn, ok bool) {
	for _, m := range c.Messages {
		if role := map[string]string{"human": User, "assistant": Agent}[m.Sender]; role != "" {
			text := cmp.Or(string(m.Content), m.Text)
			turns = append(turns, Turn{ID: m.UUID, Thread: c.UUID, Title: c.Name, Role: role, Text: text, At: m.CreatedAt.Time})
		}
	}
	return turns, c.Messages != nil
}

// gptConversation is a conversation of an export of ChatGPT: a tree of messages, of which one ends the branch that is current.
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

// newest returns the message that was written last.
func (c gptConversation) newest() (id string) {
	var latest time.Time
	for _, at := range slices.Sorted(maps.Keys(c.Mapping)) {
		if m := c.Mapping[at].Message; m != nil && !m.CreateTime.Before(latest) {
			id, latest = at, m.CreateTime.Time
		}
	}
	return id
}

func chatGPT(c gptConversation) (turns []Turn, ok bool) {
	thread := cmp.Or(c.ConversationID, c.ID)
	seen := map[string]bool{}
	if _, known := c.Mapping[c.Current]; !known {
		c.Current = c.newest()
	}
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
	return turns, c.Mapping != nil
}

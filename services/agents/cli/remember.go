package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/when"
)

// memoryFlags are the fields of a new memory except its text.
type memoryFlags struct {
	Title          string      `help:"Title."`
	Tag            []string    `help:"Tags." placeholder:"TAG"`
	Category       string      `help:"Category."`
	Keyword        []string    `help:"Search words that the text lacks." placeholder:"WORD"`
	Importance     *float64    `help:"How much it matters, 0 to 1; 0.5 if not given."`
	Sensitive      bool        `help:"Find it by its words only: never embed or link it, never send it to a model."`
	Source         string      `help:"Where it comes from."`
	Thread         string      `help:"Thread that it is part of, such as a conversation or a document. Recall looks at what stands beside a memory in its thread." placeholder:"NAME"`
	Position       *int64      `help:"Place in the thread, the lowest first; in the order of creation if not given." placeholder:"N"`
	IdempotencyKey string      `help:"Idempotency key: a repeated call with it stores nothing twice." placeholder:"KEY"`
	Occurred       when.Moment `help:"When the thing happened: a date (UTC), a time, or an age such as 36h, 7d, 2w." placeholder:"WHEN"`
	Expires        when.Moment `help:"When it expires and recall no longer finds it: a date (UTC), a time, or a span from now such as 36h, 7d, 2w." placeholder:"WHEN"`
}

func (f memoryFlags) memory(namespace, content string, now time.Time) *triskelev1.Memory {
	return &triskelev1.Memory{
		Namespace: namespace, Content: content, Title: f.Title, Tags: f.Tag, Category: f.Category, ExpandedKeywords: f.Keyword,
		Importance: f.Importance, Sensitive: f.Sensitive, Source: f.Source, IdempotencyKey: f.IdempotencyKey,
		Thread: f.Thread, Position: f.Position, OccurredAt: f.Occurred.Ago(now), ExpiresAt: f.Expires.Ahead(now),
	}
}

// maxText is larger than any memory, so that the server reports an oversized text.
const maxText = 1 << 20

// text returns the argument, or standard input for "-" without trailing line ends.
func (e *Env) text(argument string) (string, error) {
	if argument != "-" {
		return argument, nil
	}
	text, err := io.ReadAll(io.LimitReader(e.In, maxText))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

type rememberCmd struct {
	Text   string      `arg:"" help:"The text to remember, or - to read it from standard input."`
	Memory memoryFlags `embed:""`
	recordFlags
}

// Run stores the memory and prints its id.
func (c *rememberCmd) Run(ctx context.Context, env *Env) error {
	text, err := env.text(c.Text)
	if err != nil {
		return err
	}
	return c.with(ctx, func(s *session) error {
		resp, err := s.Memories.Remember(ctx, &triskelev1.RememberRequest{Memory: c.Memory.memory(c.Namespace, text, env.Now())})
		if err != nil {
			return err
		}
		said := "remembered "
		if !resp.GetStored() {
			said = "remembered before as "
		}
		return env.show(c.JSON, resp, said+resp.GetMemory().GetId()+"\n")
	})
}

// Package curator lets a chat model decide what a new memory means for the older ones nearest to it: whether it adds
// something, completes or replaces one of them, or says nothing new. It works off a queue, so that storing a memory never
// waits for it; it deletes nothing, and what it did can be reverted.
//
// What the model is shown leaves this process. It is never a sensitive memory, nor one of another namespace; and what the
// model answers can do no more than choose among the four actions for the memories it was shown.
package curator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/llm/internal/chat"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

const (
	// candidates is how many older memories the model may choose from.
	candidates = 5
	// depth is how many are looked at to find them: some may be sensitive, or expire.
	depth = 4 * candidates
	// searchTime is what the search for them may take, waiting for indexes that are behind included.
	searchTime = 5 * time.Second
	// maxQuery bounds the text they are searched with, in bytes.
	maxQuery = 8 << 10
)

// Config says whom to ask, and how much. Without URL nobody is asked. Zero elsewhere means the default.
type Config struct {
	URL        string        `help:"Let a chat model curate new memories: base URL of an OpenAI-compatible server, like http://127.0.0.1:11434/v1. Texts of memories that are not sensitive are sent there. Off if not given." env:"TRISKELE_CURATOR_URL" placeholder:"URL"`
	Model      string        `help:"The curator's model, as its server calls it." env:"TRISKELE_CURATOR_MODEL" placeholder:"NAME"`
	Key        string        `help:"The server's key." env:"TRISKELE_CURATOR_KEY" hidden:"" secret:""`
	KeyFile    string        `help:"File that holds the server's key; TRISKELE_CURATOR_KEY may hold it instead." env:"TRISKELE_CURATOR_KEY_FILE" placeholder:"PATH"`
	Similarity float64       `help:"Ask only about memories with at least this cosine similarity to the new one; 0, the default, asks about the nearest whatever theirs is." env:"TRISKELE_CURATOR_SIMILARITY" placeholder:"COSINE"`
	PerMinute  int           `help:"Requests a minute at most, 30 if not given." env:"TRISKELE_CURATOR_PER_MINUTE" placeholder:"N"`
	MaxInput   int           `help:"Bytes of memory texts in a request at most, 16384 if not given. Memories that do not fit are not curated." env:"TRISKELE_CURATOR_MAX_INPUT" placeholder:"BYTES"`
	Timeout    time.Duration `help:"Give up on a request after this long, 30s if not given, 90s at most." env:"TRISKELE_CURATOR_TIMEOUT" placeholder:"TIME"`
}

// Store is what a curator needs of the memory store.
type Store interface {
	Get(ctx context.Context, namespace string, ids []uuid.UUID) ([]record.Record, error)
	Decided(ctx context.Context, namespace string, memory memory.Seen) (bool, error)
	Decide(ctx context.Context, v memory.Verdict) (memory.Decision, error)
}

// Curator judges memories.
type Curator struct {
	config    Config
	store     Store
	recalls   triskelev1.RecallServiceClient
	model     *chat.Model
	tracer    trace.Tracer
	log       *slog.Logger
	decisions metric.Int64Counter
}

var _ queue.Indexer = (*Curator)(nil)

// New checks the configuration. It sends nothing. Neighbours are found through a gateway's recall.
func New(config Config, store Store, recalls triskelev1.RecallServiceClient, tel *telemetry.Service, log *slog.Logger) (*Curator, error) {
	if config.MaxInput == 0 {
		config.MaxInput = 16 << 10
	}
	model, err := chat.New(chat.Config{
		For: "the curator", URL: config.URL, Model: config.Model, Key: config.Key, KeyFile: config.KeyFile, PerMinute: config.PerMinute, Timeout: config.Timeout,
	})
	switch {
	case err != nil:
		return nil, err
	case config.MaxInput < 1:
		return nil, fmt.Errorf("the curator may send 1 byte or more, not %d", config.MaxInput)
	case config.Similarity < -1 || config.Similarity > 1:
		return nil, fmt.Errorf("the curator's similarity must be from -1 to 1, not %g", config.Similarity)
	}
	decisions, err := tel.MeterProvider.Meter(telemetry.ScopeName).Int64Counter("triskele.curation.decisions",
		metric.WithDescription("Decisions of the curator, by action."))
	if err != nil {
		return nil, err
	}
	return &Curator{config, store, recalls, model, tel.Tracer, log, decisions}, nil
}

// Index implements queue.Indexer: it judges each memory and carries the verdict out.
func (c *Curator) Index(ctx context.Context, records []record.Record) error {
	for _, r := range records {
		if err := c.curate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *Curator) curate(ctx context.Context, r record.Record) (err error) {
	ctx, span := c.tracer.Start(ctx, "curate")
	defer func() {
		if err != nil {
			span.SetStatus(otelcodes.Error, "failed") // the cause is in the log
		}
		span.End()
	}()
	if !memory.Curatable(r) {
		return nil
	}
	decided, err := c.store.Decided(ctx, r.Namespace, memory.Seen{ID: r.ID, Revision: r.Revision})
	if err != nil || decided {
		return err
	}
	v, err := c.judge(ctx, r)
	if err != nil || v == nil {
		return err
	}
	d, err := c.store.Decide(ctx, *v)
	switch {
	case errors.Is(err, memory.ErrDecided):
		return nil
	case errors.Is(err, memory.ErrRevision), errors.Is(err, memory.ErrNotFound):
		return &chat.Failure{Words: "a memory changed while it was judged"}
	case err != nil:
		return err
	}
	span.SetAttributes(attribute.String("triskele.action", string(d.Action)), attribute.Bool("triskele.asked", d.Model != ""))
	c.decisions.Add(ctx, 1, metric.WithAttributes(attribute.String("action", string(d.Action))))
	if d.Action != memory.ActionAdd {
		c.log.InfoContext(ctx, "curated", "decision", d.ID.String(), "action", string(d.Action), "memory", d.Memory.ID.String(), "target", d.Target.ID.String())
	}
	return nil
}

// judge returns what is to be done about a memory, or nil if it is not as it was when the queue gave it out: then the
// queue has it again, or nobody has.
func (c *Curator) judge(ctx context.Context, r record.Record) (*memory.Verdict, error) {
	ids, err := c.neighbours(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		if err := c.model.Wait(ctx); err != nil {
			return nil, err
		}
	}
	// After the wait, so that what has turned sensitive meanwhile is not offered.
	found, err := c.store.Get(ctx, r.Namespace, append([]uuid.UUID{r.ID}, ids...))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].ID != r.ID || found[0].Revision != r.Revision || !memory.Curatable(found[0]) {
		return nil, nil
	}
	r = found[0]
	v := memory.Verdict{Namespace: r.Namespace, Memory: memory.Seen{ID: r.ID, Revision: r.Revision}, Action: memory.ActionAdd}
	older := choose(r, found[1:], c.config.MaxInput)
	if len(older) == 0 {
		return &v, nil
	}
	answer, err := c.ask(c.guard(ctx, older), r, older)
	if err != nil {
		return nil, err
	}
	v.Model = c.config.Model
	v.Action = answer.Action
	if v.Action != memory.ActionAdd {
		target := older[answer.Target-1]
		v.Target = memory.Seen{ID: target.ID, Revision: target.Revision}
	}
	if v.Action == memory.ActionUpdate {
		v.Content = answer.Content
	}
	return &v, nil
}

// guard returns a context in which older memories are sent only as long as they are as they were when they were chosen. The
// queue guards the new one.
func (c *Curator) guard(ctx context.Context, older []record.Record) context.Context {
	ids := make([]uuid.UUID, len(older))
	for i, o := range older {
		ids[i] = o.ID
	}
	return endpoint.Guard(ctx, func(ctx context.Context) (bool, error) {
		now, err := c.store.Get(ctx, older[0].Namespace, ids)
		return err == nil && slices.EqualFunc(now, older, func(a, b record.Record) bool {
			return a.ID == b.ID && a.Revision == b.Revision && memory.Curatable(a)
		}), err
	})
}

// neighbours returns the ids of the memories nearest to r, nearest first.
func (c *Curator) neighbours(ctx context.Context, r record.Record) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	limit := int32(depth)
	resp, err := c.recalls.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{r.Namespace},
		Query:      cut(r.Title+"\n"+r.Content, maxQuery),
		Limit:      &limit,
		IdsOnly:    true,
		Explain:    true, // for the cosine
		Budget:     durationpb.New(searchTime),
		Filter:     &triskelev1.Filter{CreatedBefore: timestamppb.New(r.CreatedAt.Add(time.Microsecond))},
		// Of two that were stored one after the other, the older must be in the indexes when the newer is judged. An
		// index that cannot catch up in time is no reason to wait any longer.
		AtLeast: []string{revision.Token{Namespace: r.Namespace, Sequence: r.Sequence}.String()},
		TextOf:  r.ID.String(),
	})
	if err != nil {
		return nil, &chat.Failure{Words: "the search for the nearest memories failed: " + status.Code(err).String()}
	}
	hits := resp.GetHits()
	if c.config.Similarity != 0 {
		hits = similar(hits, c.config.Similarity)
	}
	var ids []uuid.UUID
	for _, hit := range hits {
		id, err := uuid.Parse(hit.GetId())
		if err != nil {
			return nil, &chat.Failure{Words: "the search for the nearest memories gave a hit without an id"}
		}
		created := hit.GetCreatedAt().AsTime()
		if created.Before(r.CreatedAt) || created.Equal(r.CreatedAt) && bytes.Compare(id[:], r.ID[:]) < 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// similar returns the hits of at least the given cosine similarity. A hit whose cosine is unknown was too far away for
// the leg that compares vectors, unless that leg had nothing to say at all; then all are returned.
func similar(hits []*triskelev1.Hit, least float64) []*triskelev1.Hit {
	var near []*triskelev1.Hit
	compared := false
	for _, hit := range hits {
		for _, share := range hit.GetContributions() {
			if share.GetScoreKind() != triskelev1.ScoreKind_SCORE_KIND_COSINE {
				continue
			}
			compared = true
			if share.GetRawScore() >= least {
				near = append(near, hit)
			}
		}
	}
	if !compared {
		return hits
	}
	return near
}

// choose returns those of the memories found, nearest first, that the model may be shown beside r: as many as it may
// choose from and as fit, whole, into so many bytes.
func choose(r record.Record, found []record.Record, room int) []record.Record {
	size := func(r record.Record) int { return len(r.Title) + len(r.Content) }
	room -= size(r)
	var older []record.Record
	for _, o := range found {
		if len(older) == candidates {
			break
		}
		if memory.Curatable(o) && size(o) <= room {
			room -= size(o)
			older = append(older, o)
		}
	}
	return older
}

// cut returns at most n bytes of a text, ending with a whole character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

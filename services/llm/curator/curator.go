// Package curator lets a chat model decide how a new memory relates to older ones: it adds something (add), repeats one of them
// (noop), completes one (update) or replaces one (supersede). It works as the indexer of a queue, so storing a memory never
// waits for it. The process for a memory is:
//
//  1. Skip it if it is sensitive, or was decided on before.
//  2. Recall the nearest older memories through the gateway. Without any, the action is add and no model is asked.
//  3. Wait for the rate limit. Then read the memories again, since one may have changed or become sensitive.
//  4. Ask the model. Just before the request is sent, check once more that the memories are unchanged.
//  5. Check the answer: one of the four actions, and one of the memories in the question. If that one expires earlier, the new
//     memory neither repeats nor completes it: what it says would end with the older one.
//  6. Carry the decision out and record it. It deletes nothing, and can be reverted.
//
// The texts leave this process. A request never has a sensitive memory, nor memories of two namespaces.
package curator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/llm/internal/chat"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

const (
	// candidates is the largest number of older memories in a question.
	candidates = 5
	// depth is the limit of the recall for candidates. It is larger, since some hits may be sensitive or expire.
	depth = 4 * candidates
	// searchTime is the budget of that recall. It includes the wait for indexes that are behind.
	searchTime = 5 * time.Second
	// maxQuery bounds the query of that recall, in bytes.
	maxQuery = 8 << 10
)

// Config configures the model and the limits of its use. Without a URL the curator is off. Other zero values mean the default.
type Config struct {
	URL       string        `help:"Let a chat model curate new memories: base URL of an OpenAI-compatible server, like http://127.0.0.1:11434/v1. Texts of memories that are not sensitive are sent there. Off if not given." env:"TRISKELE_CURATOR_URL" placeholder:"URL"`
	Model     string        `help:"The curator's model, as its server calls it." env:"TRISKELE_CURATOR_MODEL" placeholder:"NAME" needs:"curator-url"`
	Key       string        `help:"The server's key." env:"TRISKELE_CURATOR_KEY" hidden:""`
	KeyFile   string        `help:"File that holds the server's key; TRISKELE_CURATOR_KEY may hold it instead." env:"TRISKELE_CURATOR_KEY_FILE" placeholder:"PATH" needs:"curator-url"`
	PerMinute int           `help:"Requests a minute at most, 30 if not given." env:"TRISKELE_CURATOR_PER_MINUTE" placeholder:"N" needs:"curator-url"`
	MaxInput  int           `help:"Bytes of memory texts in a request at most, 16384 if not given. Memories that do not fit are not curated." env:"TRISKELE_CURATOR_MAX_INPUT" placeholder:"BYTES" needs:"curator-url"`
	Timeout   time.Duration `help:"Give up on a request after this long, 30s if not given, 90s at most." env:"TRISKELE_CURATOR_TIMEOUT" placeholder:"TIME" needs:"curator-url"`
}

// Curator decides about new memories.
type Curator struct {
	config    Config
	store     *memory.Store
	recalls   triskelev1.RecallServiceClient
	model     *chat.Model
	tracer    trace.Tracer
	log       *slog.Logger
	decisions metric.Int64Counter
}

var _ queue.Indexer = (*Curator)(nil)

// New checks the configuration. It sends nothing. The curator finds older memories through a gateway's recalls.
func New(config Config, store *memory.Store, recalls triskelev1.RecallServiceClient, tel *telemetry.Service, log *slog.Logger) (*Curator, error) {
	config.MaxInput = cmp.Or(config.MaxInput, 16<<10)
	model, err := chat.New(chat.Config{
		For: "the curator", URL: config.URL, Model: config.Model, Key: config.Key, KeyFile: config.KeyFile, PerMinute: config.PerMinute, Timeout: config.Timeout,
	})
	switch {
	case err != nil:
		return nil, err
	case config.MaxInput < 1:
		return nil, fmt.Errorf("the curator may send 1 byte or more, not %d", config.MaxInput)
	}
	decisions := telemetry.Must(tel.MeterProvider.Meter(telemetry.ScopeName).Int64Counter("triskele.curation.decisions",
		metric.WithDescription("Decisions of the curator, by action.")))
	return &Curator{config, store, recalls, model, tel.Tracer, log, decisions}, nil
}

// Index implements queue.Indexer. It decides about each memory and carries the decision out.
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
	v, err := c.decide(ctx, r)
	if err != nil || v == nil {
		return err
	}
	d, err := c.store.Decide(ctx, *v)
	switch {
	case errors.Is(err, memory.ErrDecided):
		return nil
	case errors.Is(err, memory.ErrRevision), errors.Is(err, memory.ErrNotFound):
		return &chat.Failure{Words: "a memory changed before the decision was carried out"}
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

// decide returns the decision about a memory. It returns nil if the memory has changed since the queue gave it out: if it still
// exists, the queue has its new revision.
func (c *Curator) decide(ctx context.Context, r record.Record) (*memory.Judgement, error) {
	ids, err := c.neighbours(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		if err := c.model.Wait(ctx); err != nil {
			return nil, err
		}
	}
	// Read after the wait: a memory that became sensitive must not be sent.
	found, err := c.store.Get(ctx, r.Namespace, append([]uuid.UUID{r.ID}, ids...))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].ID != r.ID || found[0].Revision != r.Revision || !memory.Curatable(found[0]) {
		return nil, nil
	}
	r = found[0]
	v := memory.Judgement{Namespace: r.Namespace, Memory: memory.Seen{ID: r.ID, Revision: r.Revision}, Action: memory.ActionAdd}
	older := choose(r, found[1:], c.config.MaxInput)
	if len(older) == 0 {
		return &v, nil
	}
	answer, err := c.ask(c.ifUnchanged(ctx, r, older), r, older)
	if err != nil {
		return nil, err
	}
	v.Model = c.config.Model
	if answer.Action == memory.ActionAdd {
		return &v, nil
	}
	target := older[answer.Target-1]
	if answer.Action != memory.ActionSupersede && target.ExpiresAt.Before(r.ExpiresAt) { // what r says would end with the target
		return &v, nil
	}
	v.Action, v.Target = answer.Action, memory.Seen{ID: target.ID, Revision: target.Revision}
	if v.Action == memory.ActionUpdate {
		v.Content = answer.Content
	}
	return &v, nil
}

// ifUnchanged returns a context in which a request is sent only if the older memories are unchanged. The queue's context does
// the same for the new memory.
func (c *Curator) ifUnchanged(ctx context.Context, newer record.Record, older []record.Record) context.Context {
	ids := slice.Map(older, func(o record.Record) uuid.UUID { return o.ID })
	return endpoint.WithCheck(ctx, func(ctx context.Context) (bool, error) {
		now, err := c.store.Get(ctx, newer.Namespace, ids)
		return err == nil && slices.EqualFunc(now, older, func(a, b record.Record) bool {
			return a.ID == b.ID && a.Revision == b.Revision && memory.Comparable(newer, a)
		}), err
	})
}

// neighbours returns the ids of the memories nearest to r, nearest first.
func (c *Curator) neighbours(ctx context.Context, r record.Record) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	resp, err := c.recalls.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{r.Namespace},
		Query:      clip.Text(r.Title+"\n"+r.Content, maxQuery),
		Limit:      new(int32(depth)),
		IdsOnly:    true,
		Budget:     durationpb.New(searchTime),
		Filter:     &triskelev1.Filter{CreatedBefore: timestamppb.New(r.CreatedAt.Add(time.Microsecond))},
		// The indexes must have all memories up to r. The recall waits for them within its budget.
		AtLeast: []string{revision.Token{Namespace: r.Namespace, Sequence: r.Sequence}.String()},
		TextOf:  r.ID.String(),
		Legs:    map[string]*triskelev1.LegOptions{"lexical": {Borrow: new(float64)}, "dense": {Borrow: new(float64)}}, // what it says itself
	})
	if err != nil {
		return nil, &chat.Failure{Words: "the search for the nearest memories failed: " + status.Code(err).String()}
	}
	var ids []uuid.UUID
	for _, hit := range resp.GetHits() {
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

// choose returns the first memories, nearest first, that may be sent to the model beside r. All texts together have at most
// room bytes, and none is cut.
func choose(r record.Record, found []record.Record, room int) []record.Record {
	size := func(r record.Record) int { return len(r.Title) + len(r.Content) }
	room -= size(r)
	var older []record.Record
	for _, o := range found {
		if len(older) == candidates {
			break
		}
		if memory.Comparable(r, o) && size(o) <= room {
			room -= size(o)
			older = append(older, o)
		}
	}
	return older
}

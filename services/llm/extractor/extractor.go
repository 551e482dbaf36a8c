// Package extractor lets a chat model extract facts from memories for the graph, as triples: subject, relation, object. It works
// as the indexer of a queue, so storing a memory never waits for it. The process for the memories of a task is:
//
//  1. Group them by namespace, and into requests of at most Config.MaxInput bytes.
//  2. Drop memories that are sensitive, or whose text was extracted before.
//  3. Check the hour's token budget and wait for the rate limit. If either is used up, the queue pauses.
//  4. Repeat step 2, since a memory may have become sensitive during the wait. Then ask the model.
//  5. Keep the triples whose names occur in their memory, and replace the names by those of known concepts.
//  6. Store the facts.
//
// The texts leave this process. A request never has a sensitive memory, nor memories of two namespaces.
package extractor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/llm/internal/chat"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
)

// Config configures the model and the limits of its use. Without a URL the extractor is off. Other zero values mean the default.
type Config struct {
	URL           string        `help:"Let a chat model read facts out of memories for the graph: base URL of an OpenAI-compatible server, like http://127.0.0.1:11434/v1. Texts of memories that are not sensitive are sent there. Off if not given." env:"TRISKELE_EXTRACTOR_URL" placeholder:"URL"`
	Model         string        `help:"The extractor's model, as its server calls it." env:"TRISKELE_EXTRACTOR_MODEL" placeholder:"NAME" needs:"extractor-url"`
	Key           string        `help:"The server's key." env:"TRISKELE_EXTRACTOR_KEY" hidden:""`
	KeyFile       string        `help:"File that holds the server's key; TRISKELE_EXTRACTOR_KEY may hold it instead." env:"TRISKELE_EXTRACTOR_KEY_FILE" placeholder:"PATH" needs:"extractor-url"`
	Batch         int           `help:"Memories in a request at most, 8 if not given, 64 at most." env:"TRISKELE_EXTRACTOR_BATCH" placeholder:"N" needs:"extractor-url"`
	PerMinute     int           `help:"Requests a minute at most, 30 if not given." env:"TRISKELE_EXTRACTOR_PER_MINUTE" placeholder:"N" needs:"extractor-url"`
	TokensPerHour int           `help:"Tokens an hour at most, 200000 if not given, of questions and answers as the server counts them. What is beyond waits." env:"TRISKELE_EXTRACTOR_TOKENS_PER_HOUR" placeholder:"N" needs:"extractor-url"`
	MaxInput      int           `help:"Bytes of memory texts in a request at most, 16384 if not given; of a longer memory its beginning is read." env:"TRISKELE_EXTRACTOR_MAX_INPUT" placeholder:"BYTES" needs:"extractor-url"`
	Timeout       time.Duration `help:"Give up on a request after this long, 30s if not given, 90s at most." env:"TRISKELE_EXTRACTOR_TIMEOUT" placeholder:"TIME" needs:"extractor-url"`
}

// Extractor extracts facts from memories.
type Extractor struct {
	config Config
	store  *graph.Leg
	model  *chat.Model
	budget budget
	tracer trace.Tracer
	log    *slog.Logger
	tokens metric.Int64Counter
	calls  metric.Int64Counter
	facts  metric.Int64Counter
}

var _ queue.Indexer = (*Extractor)(nil)

// New checks the configuration and fills in its defaults. It sends nothing.
func New(config Config, store *graph.Leg, tel *telemetry.Service, log *slog.Logger) (*Extractor, error) {
	config.Batch, config.TokensPerHour, config.MaxInput = cmp.Or(config.Batch, 8), cmp.Or(config.TokensPerHour, 200_000), cmp.Or(config.MaxInput, 16<<10)
	model, err := chat.New(chat.Config{
		For: "the extractor", URL: config.URL, Model: config.Model, Key: config.Key, KeyFile: config.KeyFile, PerMinute: config.PerMinute, Timeout: config.Timeout,
	})
	switch {
	case err != nil:
		return nil, err
	case config.Batch < 1 || config.Batch > 64:
		return nil, fmt.Errorf("the extractor may send 1 to 64 memories in a request, not %d", config.Batch)
	case config.MaxInput < 1:
		return nil, fmt.Errorf("the extractor may send 1 byte or more, not %d", config.MaxInput)
	case config.TokensPerHour < 1:
		return nil, fmt.Errorf("the extractor may spend 1 token an hour or more, not %d", config.TokensPerHour)
	}
	counter := func(name, description string) metric.Int64Counter {
		return telemetry.Must(tel.MeterProvider.Meter(telemetry.ScopeName).Int64Counter(name, metric.WithDescription(description)))
	}
	return &Extractor{
		config: config, store: store, model: model, budget: budget{perHour: config.TokensPerHour}, tracer: tel.Tracer, log: log,
		calls:  counter("triskele.extraction.calls", "Requests to the extractor's model, by outcome."),
		tokens: counter("triskele.extraction.tokens", "Tokens that the extractor's model has cost."),
		facts:  counter("triskele.extraction.facts", "Facts that the extractor's model has found."),
	}, nil
}

// Batch returns the largest number of memories in one request.
func (e *Extractor) Batch() int { return e.config.Batch }

// Index implements queue.Indexer. It extracts the facts of memories that were not extracted before.
func (e *Extractor) Index(ctx context.Context, records []record.Record) error {
	left := slices.SortedStableFunc(slices.Values(records), func(a, b record.Record) int { return cmp.Compare(a.Namespace, b.Namespace) })
	for len(left) > 0 {
		n := fitting(left, e.config.MaxInput)
		if err := e.read(ctx, left[0].Namespace, left[:n]); err != nil {
			return err
		}
		left = left[n:]
	}
	return nil
}

// fitting returns how many of the memories are in the namespace of the first, and fit into room bytes together. It is at least one.
func fitting(records []record.Record, room int) int {
	for i, r := range records {
		if room -= len(r.Title) + len(r.Content); i > 0 && (room < 0 || r.Namespace != records[0].Namespace) {
			return i
		}
	}
	return len(records)
}

// read extracts and stores the facts of memories of one namespace.
func (e *Extractor) read(ctx context.Context, namespace string, records []record.Record) (err error) {
	ctx, span := e.tracer.Start(ctx, "extract")
	defer func() {
		if err != nil && !errors.Is(err, queue.ErrPaused) {
			span.SetStatus(otelcodes.Error, "failed") // the cause is in the log
		}
		span.End()
	}()
	if records, err = e.unread(ctx, namespace, records); err != nil || len(records) == 0 {
		return err
	}
	if err := e.budget.check(time.Now()); err != nil {
		return err
	}
	if err := e.model.Wait(ctx); err != nil {
		return err
	}
	// Check again after the wait: a memory that became sensitive must not be sent.
	if records, err = e.unread(ctx, namespace, records); err != nil || len(records) == 0 {
		return err
	}
	found, spent, err := e.ask(ctx, records)
	if err != nil {
		return err
	}
	if err := e.resolve(ctx, namespace, found); err != nil {
		return err
	}
	total := 0
	for i, r := range records {
		x := graph.Extraction{Model: e.model.Name(), Tokens: spent / len(records), Facts: found[i]}
		if err := e.store.PutExtraction(ctx, r, x); err != nil {
			return err
		}
		total += len(found[i])
	}
	span.SetAttributes(attribute.Int("triskele.memories", len(records)), attribute.Int("triskele.facts", total), attribute.Int("triskele.tokens", spent))
	e.facts.Add(ctx, int64(total))
	e.log.DebugContext(ctx, "facts extracted", "memories", len(records), "facts", total, "tokens", spent)
	return nil
}

// ask asks the model about memories, and returns the facts of each and the number of tokens spent.
func (e *Extractor) ask(ctx context.Context, records []record.Record) (found [][]graph.Fact, spent int, err error) {
	answer, err := e.model.Ask(ctx, chat.Question{Instructions: instructions, Data: question(records, e.config.MaxInput), Name: "triples", Schema: schema(len(records))})
	e.budget.spend(time.Now(), answer.Tokens)
	e.tokens.Add(ctx, int64(answer.Tokens))
	e.calls.Add(ctx, 1, metric.WithAttributes(attribute.Bool("failed", err != nil)))
	if err == nil {
		found, err = readAnswer(e.model, answer.Text, records)
	}
	return found, answer.Tokens, err
}

// unread returns the memories that may be sent to the model and were not extracted before.
func (e *Extractor) unread(ctx context.Context, namespace string, records []record.Record) ([]record.Record, error) {
	ids, err := e.store.Unread(ctx, namespace, records)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(records), func(r record.Record) bool { return !slices.Contains(ids, r.ID) }), nil
}

// resolve replaces the names in facts by the names of known concepts. For a name with another spelling, it adds an alias fact.
func (e *Extractor) resolve(ctx context.Context, namespace string, found [][]graph.Fact) error {
	var names []string
	for _, facts := range found {
		for _, f := range facts {
			names = append(names, f.Subject, f.Object)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return nil
	}
	known, err := e.store.Resolve(ctx, namespace, names)
	if err != nil {
		return err
	}
	for i, facts := range found {
		var aliases []graph.Fact
		for j := range facts {
			for _, end := range []*string{&facts[j].Subject, &facts[j].Object} {
				concept, there := known[*end]
				if there && graph.Key(concept) != graph.Key(*end) {
					aliases = append(aliases, graph.Fact{Memory: facts[j].Memory, Subject: *end, Relation: graph.AliasRelation, Object: concept})
				}
				if there {
					*end = concept
				}
			}
		}
		found[i] = append(facts, aliases...)
	}
	return nil
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/wiring/standalone"
)

const (
	// shown is how many hits a showcase prints, of the depth it asks for; expected memories further down are shown too.
	shown = 3
	depth = 10
	// patience is the budget where time is not the point, so that a busy machine does not change an answer.
	patience = 5 * time.Second
	// tight is the budget of the recall with a slow leg. On a machine on which a healthy recall takes longer than a tenth of
	// that, it is ten times as long as a healthy one.
	tight = 150 * time.Millisecond
)

// Run starts all services on a temporary database, imports the corpus and shows one thing after the other on out. It
// returns an error that names what it claimed and did not find to be so. What the built-in embedder finds and another one
// does not is said, and no error.
func Run(ctx context.Context, out io.Writer, style render.Style, embedder embed.Embedder, process *telemetry.Process, log *slog.Logger) (err error) {
	folder, err := os.MkdirTemp("", "triskele-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	d := &demo{out: out, style: style, model: embedder.Model()}
	if d.memories, err = Corpus(); err != nil {
		return err
	}
	if d.queries, err = Queries(); err != nil {
		return err
	}
	d.system, err = standalone.Start(ctx, standalone.Config{
		SQLite: filepath.Join(folder, "demo.db"), Embedder: embedder, Gateway: gateway.DefaultConfig(), Delay: d.delay,
	}, process, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.system.Close()) }()
	d.Client = client.New(d.system.Conn)
	d.recorder = process.Service("demo").Recorder
	for _, part := range []func(context.Context) error{
		d.load, d.exact, d.paraphrase, d.multiHop, d.superseded, d.sensitive, d.trace, d.slow, d.measure, d.dead, d.table,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if len(d.broken) > 0 {
		return fmt.Errorf("the demo claims what does not hold: %s", strings.Join(d.broken, "; "))
	}
	if len(d.weaker) > 0 {
		d.say("The built-in embedder would have shown this, and %s does not: %s. The rest was checked while it ran. `triskele up` starts the same "+
			"services for your own memories.", d.model, strings.Join(d.weaker, "; "))
		return d.failed
	}
	d.say("Everything above was checked while it ran. `triskele up` starts the same services for your own memories.")
	return d.failed
}

// demo is one run.
type demo struct {
	*client.Client
	out      io.Writer
	failed   error // of writing
	style    render.Style
	system   *standalone.System
	recorder *telemetry.Recorder
	model    embed.Model
	memories []*triskelev1.Memory
	queries  []Query
	drag     atomic.Int64 // holds the dense leg up, for so many nanoseconds
	scores   [3]scores    // with all legs, with the lexical one alone, with the dense one alone
	broken   []string
	weaker   []string // what the embedder does not find, if it is not the built-in one
}

func (d *demo) delay(leg string) time.Duration {
	if leg != "dense" {
		return 0
	}
	return time.Duration(d.drag.Load())
}

func (d *demo) print(text string) {
	if _, err := io.WriteString(d.out, text); err != nil && d.failed == nil {
		d.failed = err
	}
}

func (d *demo) heading(text string) { d.print("\n" + d.style.Bold("── "+text+" ──") + "\n") }

func (d *demo) say(format string, args ...any) {
	d.print(d.style.Paragraph(fmt.Sprintf(format, args...)))
}

// expect notes a claim that does not hold.
func (d *demo) expect(holds bool, claim string, args ...any) {
	if !holds {
		d.broken = append(d.broken, fmt.Sprintf(claim, args...))
	}
}

// expectOfModel is expect for a claim about what the embedding model understands, which holds for the built-in one.
func (d *demo) expectOfModel(holds bool, claim string, args ...any) {
	if d.model.Name == static.Name {
		d.expect(holds, claim, args...)
	} else if !holds {
		d.weaker = append(d.weaker, fmt.Sprintf(claim, args...))
	}
}

// load imports the corpus through the gateway and waits for the derived indexes.
func (d *demo) load(ctx context.Context) error {
	start := time.Now()
	for batch := range slices.Chunk(d.memories, client.BatchSize) {
		if _, err := d.Import(ctx, batch); err != nil {
			return err
		}
	}
	stored := time.Since(start)
	if err := d.WaitIndexed(ctx, Namespace, nil); err != nil {
		return err
	}
	d.say("Five services run in this process: the gateway, the records and three legs that search in different ways. "+
		"%d memories of an invented user's agents were stored in %s; %s later the indexes that follow in the background had caught up.",
		len(d.memories), render.Duration(stored), render.Duration(time.Since(start)-stored))
	return nil
}

func (d *demo) query(id string) (Query, error) {
	i := slices.IndexFunc(d.queries, func(q Query) bool { return q.ID == id })
	if i < 0 {
		return Query{}, fmt.Errorf("demo: there is no query %s", id)
	}
	return d.queries[i], nil
}

func request(text string) *triskelev1.RecallRequest {
	limit := int32(depth)
	return &triskelev1.RecallRequest{
		Namespaces: []string{Namespace}, Query: text, Limit: &limit, Budget: durationpb.New(patience), Explain: true,
	}
}

// ask recalls and shows the first hits, and those of the given keys.
func (d *demo) ask(ctx context.Context, req *triskelev1.RecallRequest, keys ...string) (*triskelev1.RecallResponse, error) {
	resp, err := d.Recalls.Recall(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("recall %q: %w", req.GetQuery(), err)
	}
	d.print("\n" + d.style.Good("> "+req.GetQuery()) + "\n" + d.style.Recall(resp, render.RecallOptions{
		Explain: true,
		Show: func(hit *triskelev1.Hit) bool {
			return hit.GetRank() <= shown || slices.ContainsFunc(keys, func(key string) bool { return hit.GetId() == ID(key) })
		},
	}))
	return resp, nil
}

// show asks one of the corpus's questions; all its answers must be among the first n.
func (d *demo) show(ctx context.Context, id string, n int32) (*triskelev1.RecallResponse, Query, error) {
	q, err := d.query(id)
	if err != nil {
		return nil, q, err
	}
	resp, err := d.ask(ctx, request(q.Text), q.Relevant...)
	if err != nil {
		return nil, q, err
	}
	for _, key := range q.Relevant {
		rank := find(resp, key).GetRank()
		d.expectOfModel(rank > 0 && rank <= n, "%s is among the first %d for %q", key, n, q.Text)
	}
	return resp, q, nil
}

// find returns the hit of a memory by its key, or nil.
func find(resp *triskelev1.RecallResponse, key string) *triskelev1.Hit {
	for _, hit := range resp.GetHits() {
		if hit.GetId() == ID(key) {
			return hit
		}
	}
	return nil
}

// from returns a leg's contribution to a hit, or nil.
func from(hit *triskelev1.Hit, leg string) *triskelev1.Contribution {
	for _, c := range hit.GetContributions() {
		if c.GetLeg() == leg {
			return c
		}
	}
	return nil
}

func report(resp *triskelev1.RecallResponse, leg string) *triskelev1.LegReport {
	for _, r := range resp.GetLegs() {
		if r.GetLeg() == leg {
			return r
		}
	}
	return nil
}

func (d *demo) exact(ctx context.Context) error {
	d.heading("Exact words")
	d.say("An error code, a command or a name has to be found as it is written. The lexical leg ranks by BM25, in which a rare " +
		"word weighs more than a common one. Below each memory stands its arithmetic: for each leg that found it, the leg's " +
		"weight / (2 + rank) times a prior made from the memory's importance; the terms add up to the score.")
	resp, q, err := d.show(ctx, "q01", 1)
	if err != nil {
		return err
	}
	d.expect(from(find(resp, q.Relevant[0]), "lexical").GetRank() == 1, "the lexical leg ranks %s first", q.Relevant[0])
	return nil
}

func (d *demo) paraphrase(ctx context.Context) error {
	d.heading("Other words")
	about := "The embedder is " + d.model.String() + "."
	if d.model.Name == static.Name {
		about = "The built-in embedder is a table of word vectors inside the program, trained on openly licensed English; a word that it lacks stands for its spelling:"
	}
	d.say("People misspell, and rarely repeat a memory's words. The dense leg compares vectors. %s", about)
	resp, err := d.ask(ctx, request("certifcate expird"))
	if err != nil {
		return err
	}
	const key = "inc-egret-cert"
	d.expectDenseOnly(resp, key, shown)
	d.print("\n")
	d.say("It also knows which words mean something alike. This question has hardly a word of its answer. The dense leg, asked alone:")
	q, err := d.query("q29")
	if err != nil {
		return err
	}
	off := false
	req := request(q.Text)
	req.Legs = map[string]*triskelev1.LegOptions{"lexical": {Enabled: &off}, "graph": {Enabled: &off}}
	if resp, err = d.ask(ctx, req, q.Relevant...); err != nil {
		return err
	}
	d.expectDenseOnly(resp, q.Relevant[0], shown)
	deep := int32(50)
	req = request(q.Text)
	req.Limit = &deep
	if resp, err = d.Recalls.Recall(ctx, req); err != nil {
		return err
	}
	hit := find(resp, q.Relevant[0])
	d.expectDenseOnly(resp, q.Relevant[0], deep)
	if hit != nil {
		d.say("\nWith all legs it comes at rank %d: the lexical leg finds other memories by other words of it, and rank fusion prefers what two "+
			"legs have found, be it by chance.", hit.GetRank())
	}
	return nil
}

func (d *demo) expectDenseOnly(resp *triskelev1.RecallResponse, key string, n int32) {
	hit := find(resp, key)
	d.expectOfModel(hit != nil && hit.GetRank() <= n, "%s is among the first %d", key, n)
	d.expectOfModel(from(hit, "dense") != nil && from(hit, "lexical") == nil, "the dense leg finds %s and the lexical leg does not", key)
}

func (d *demo) multiHop(ctx context.Context) error {
	d.heading("Several hops")
	d.say("No single memory answers this: one says who teaches Liv the piano, another where to park at that teacher's house. The " +
		"graph leg walks along the names that memories share.")
	q, err := d.query("q42")
	if err != nil {
		return err
	}
	start, answer := q.Relevant[0], q.Relevant[len(q.Relevant)-1]
	resp, err := d.ask(ctx, request(q.Text), start, answer)
	if err != nil {
		return err
	}
	off := false
	req := request(q.Text)
	req.Legs = map[string]*triskelev1.LegOptions{"graph": {Enabled: &off}}
	without, err := d.Recalls.Recall(ctx, req)
	if err != nil {
		return err
	}
	for _, key := range []string{start, answer} {
		d.expect(from(find(resp, key), "graph") != nil, "the graph leg contributes to %s", key)
	}
	with, alone := find(resp, answer).GetRank(), find(without, answer).GetRank()
	d.say("The memory with the answer comes at rank %d; without the graph leg at rank %d.", with, alone)
	d.expectOfModel(with > 0 && with <= 5 && with < alone, "the graph leg raises %s to the first 5", answer)
	return nil
}

func (d *demo) superseded(ctx context.Context) error {
	d.heading("What holds now")
	d.say("A memory that was superseded stays on record and is no longer recalled.")
	resp, q, err := d.show(ctx, "q53", 1)
	if err != nil {
		return err
	}
	req := request(q.Text)
	req.Filter = &triskelev1.Filter{IncludeSuperseded: true}
	all, err := d.Recalls.Recall(ctx, req)
	if err != nil {
		return err
	}
	old := ""
	for _, hit := range all.GetHits() {
		if hit.GetMemory().GetSupersededBy() == ID(q.Relevant[0]) {
			old = hit.GetId()
			d.say("With superseded memories included it would also have found: %s", hit.GetMemory().GetContent())
		}
	}
	d.expect(old != "", "%s supersedes a memory that can be recalled when asked for", q.Relevant[0])
	for _, hit := range resp.GetHits() {
		d.expect(hit.GetId() != old, "a superseded memory is left out")
	}
	return nil
}

func (d *demo) sensitive(ctx context.Context) error {
	d.heading("A sensitive memory")
	d.say("A sensitive memory is never embedded, never linked and never sent to a model. Its words still find it, although " +
		"with the support of one leg only it ranks below what several legs agree on.")
	const key = "zuzana-salary-talk"
	resp, err := d.ask(ctx, request("salary talk 99999 shells"), key)
	if err != nil {
		return err
	}
	hit := find(resp, key)
	d.expect(hit.GetMemory().GetSensitive(), "%s is found, and is sensitive", key)
	d.expect(len(hit.GetContributions()) == 1 && from(hit, "lexical").GetRank() == 1, "the lexical leg alone knows %s", key)
	return nil
}

func (d *demo) trace(ctx context.Context) error {
	d.heading("Where the time goes")
	d.say("The spans of one recall, from the caller through the gateway and the legs down to the statements. No span carries " +
		"the text of a query or of a memory.")
	q, err := d.query("q41")
	if err != nil {
		return err
	}
	spans, err := telemetry.Trace(ctx, d.recorder, "demo recall", func(ctx context.Context) ([]*triskelev1.Span, error) {
		req := request(q.Text)
		req.ReturnSpans = true
		resp, err := d.Recalls.Recall(ctx, req)
		return resp.GetSpans(), err
	})
	if err != nil {
		return err
	}
	d.print("\n" + d.style.Good("> "+q.Text) + "\n" + d.style.Waterfall(spans))
	for _, service := range []string{"fuser", "lexical", "dense", "graph", "store"} {
		d.expect(slices.ContainsFunc(spans, func(s *triskelev1.Span) bool { return s.GetService() == service }), "the trace has a span of %s", service)
	}
	for _, span := range spans {
		recorded := span.String()
		d.expect(!strings.Contains(recorded, q.Text), "span %s is without the query", span.GetName())
		d.expect(!slices.ContainsFunc(d.memories, func(m *triskelev1.Memory) bool { return strings.Contains(recorded, m.GetContent()) }),
			"span %s is without the text of a memory", span.GetName())
	}
	return nil
}

func (d *demo) slow(ctx context.Context) error {
	d.heading("A leg that is too slow")
	q, err := d.query("q02")
	if err != nil {
		return err
	}
	req := request(q.Text)
	healthy, err := d.Recalls.Recall(ctx, req)
	if err != nil {
		return err
	}
	budget := max(tight, 10*healthy.GetSpent().AsDuration())
	drag := 2*budget + 100*time.Millisecond
	d.say("The dense leg is now held up for %s, and the caller gives the recall %s. The answer comes in time, without what "+
		"that leg would have added, and says so.", render.Duration(drag), render.Duration(budget))
	req.Budget = durationpb.New(budget)
	d.drag.Store(int64(drag))
	defer d.drag.Store(0)
	resp, err := d.ask(ctx, req)
	if err != nil {
		return err
	}
	d.expect(report(resp, "dense").GetState() == triskelev1.LegState_LEG_STATE_TIMED_OUT, "the slow dense leg is TIMED_OUT")
	d.expect(resp.GetDegraded(), "an answer without the slow leg is marked as degraded")
	d.expect(find(resp, q.Relevant[0]) != nil, "%s is found without the dense leg", q.Relevant[0])
	d.expect(resp.GetSpent().AsDuration() < drag, "the answer does not wait for the slow leg")
	return nil
}

func (d *demo) dead(ctx context.Context) error {
	d.heading("A leg that is dead")
	d.say("The graph leg is stopped as a crash would stop it. It contributes nothing, and the other two carry on.")
	if err := d.system.Kill("graph"); err != nil {
		return err
	}
	q, err := d.query("q07")
	if err != nil {
		return err
	}
	resp, err := d.ask(ctx, request(q.Text))
	if err != nil {
		return err
	}
	d.expect(report(resp, "graph").GetState() == triskelev1.LegState_LEG_STATE_FAILED, "the dead graph leg is FAILED")
	d.expect(resp.GetDegraded(), "an answer without the dead leg is marked as degraded")
	d.expect(find(resp, q.Relevant[0]) != nil, "%s is found without the graph leg", q.Relevant[0])
	return nil
}

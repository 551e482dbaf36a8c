package demo

import (
	"cmp"
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
	// shown is how many hits a showcase prints. It also prints expected memories further down.
	shown = 3
	// depth is the limit of most recalls.
	depth = 10
	// ample is a budget that is large enough on a busy machine too, so that no leg is left out.
	ample = 5 * time.Second
	// tight is the budget of the recall with a slow leg, or ten times the time of a healthy recall if that is longer.
	tight = 150 * time.Millisecond
)

// Run starts all services on a temporary database, imports the corpus and prints the showcases to out. It returns an error
// that names the claims that do not hold. A claim that holds with the built-in embedder only is printed, and is no error.
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
	for _, part := range []func(context.Context){
		d.load, d.exact, d.paraphrase, d.multiHop, d.superseded, d.sensitive, d.trace, d.slow, d.measure, d.dead, d.table,
	} {
		if part(ctx); d.failed != nil {
			return d.failed
		}
	}
	if len(d.broken) > 0 {
		return fmt.Errorf("these claims of the demo do not hold: %s", strings.Join(d.broken, "; "))
	}
	checked := "Everything above"
	if len(d.weaker) > 0 {
		d.say("These claims hold for the built-in embedder, but not for %s: %s.", d.model, strings.Join(d.weaker, "; "))
		checked = "Everything else"
	}
	d.say("%s was checked while it ran. `triskele up` starts the same services for your own memories.", checked)
	return d.failed
}

type demo struct {
	*client.Client
	out      io.Writer
	failed   error // the first error. Nothing is printed after it, and no other showcase begins
	style    render.Style
	system   *standalone.System
	recorder *telemetry.Recorder
	model    embed.Model
	memories []*triskelev1.Memory
	queries  []Query
	lag      atomic.Int64 // delays each search of the dense leg, in nanoseconds
	scores   [3]scores    // with all legs, with the lexical leg alone, with the dense leg alone
	broken   []string     // claims that do not hold
	weaker   []string     // claims that do not hold for this embedder, which is not the built-in one
}

func (d *demo) delay(leg string) time.Duration {
	if leg != "dense" {
		return 0
	}
	return time.Duration(d.lag.Load())
}

func (d *demo) fail(err error) { d.failed = cmp.Or(d.failed, err) }

func (d *demo) print(text string) {
	if d.failed == nil {
		_, d.failed = io.WriteString(d.out, text)
	}
}

func (d *demo) heading(text string) { d.print("\n" + d.style.Bold("── "+text+" ──") + "\n") }

func (d *demo) say(format string, args ...any) {
	d.print(d.style.Paragraph(fmt.Sprintf(format, args...)))
}

// expect records a claim that does not hold.
func (d *demo) expect(holds bool, claim string, args ...any) {
	if !holds {
		d.broken = append(d.broken, fmt.Sprintf(claim, args...))
	}
}

// expectOfModel is expect for a claim about the embedding model, which holds for the built-in one.
func (d *demo) expectOfModel(holds bool, claim string, args ...any) {
	if d.model.Name == static.Name {
		d.expect(holds, claim, args...)
	} else if !holds {
		d.weaker = append(d.weaker, fmt.Sprintf(claim, args...))
	}
}

// load imports the corpus through the gateway and waits for the derived indexes.
func (d *demo) load(ctx context.Context) {
	start := time.Now()
	for batch := range slices.Chunk(d.memories, client.BatchSize) {
		_, err := d.Import(ctx, batch)
		d.fail(err)
	}
	stored := time.Since(start)
	d.fail(d.WaitIndexed(ctx, Namespace, nil))
	d.say("Five services run in this process: the gateway, the memory service and three legs, which search in different ways. "+
		"%d memories of an invented user's agents were stored in %s. The indexes, which are updated in the background, had caught up %s later.",
		len(d.memories), render.Duration(stored), render.Duration(time.Since(start)-stored))
}

// query returns a question of the corpus, which has it.
func (d *demo) query(id string) Query {
	return d.queries[slices.IndexFunc(d.queries, func(q Query) bool { return q.ID == id })]
}

// recall returns an empty answer if the recall fails.
func (d *demo) recall(ctx context.Context, req *triskelev1.RecallRequest) *triskelev1.RecallResponse {
	resp, err := d.Recalls.Recall(ctx, req)
	if err != nil {
		d.fail(fmt.Errorf("recall %q: %w", req.GetQuery(), err))
	}
	return resp
}

func request(text string) *triskelev1.RecallRequest {
	return &triskelev1.RecallRequest{
		Namespaces: []string{Namespace}, Query: text, Limit: new(int32(depth)), Budget: durationpb.New(ample), Explain: true,
	}
}

func without(legs ...string) map[string]*triskelev1.LegOptions {
	out := map[string]*triskelev1.LegOptions{}
	for _, leg := range legs {
		out[leg] = &triskelev1.LegOptions{Enabled: new(bool)}
	}
	return out
}

// ask recalls and prints the first hits, and the hits of the given keys.
func (d *demo) ask(ctx context.Context, req *triskelev1.RecallRequest, keys ...string) *triskelev1.RecallResponse {
	resp := d.recall(ctx, req)
	d.print("\n" + d.style.Good("> "+req.GetQuery()) + "\n" + d.style.Recall(resp, render.RecallOptions{
		Explain: true,
		Show: func(hit *triskelev1.Hit) bool {
			return hit.GetRank() <= shown || slices.ContainsFunc(keys, func(key string) bool { return hit.GetId() == ID(key) })
		},
	}))
	return resp
}

// show asks one of the corpus's questions. All its relevant memories must be among the first n hits.
func (d *demo) show(ctx context.Context, id string, n int32) (*triskelev1.RecallResponse, Query) {
	q := d.query(id)
	resp := d.ask(ctx, request(q.Text), q.Relevant...)
	for _, key := range q.Relevant {
		rank := find(resp, key).GetRank()
		d.expectOfModel(rank > 0 && rank <= n, "%s is among the first %d for %q", key, n, q.Text)
	}
	return resp, q
}

func first[T any](values []*T, fits func(*T) bool) *T {
	if i := slices.IndexFunc(values, fits); i >= 0 {
		return values[i]
	}
	return nil
}

func find(resp *triskelev1.RecallResponse, key string) *triskelev1.Hit {
	return first(resp.GetHits(), func(hit *triskelev1.Hit) bool { return hit.GetId() == ID(key) })
}

// from returns the contribution of a leg that found a hit, or nil.
func from(hit *triskelev1.Hit, leg string) *triskelev1.Contribution {
	return first(hit.GetContributions(), func(c *triskelev1.Contribution) bool { return c.GetLeg() == leg && c.GetRank() > 0 })
}

func report(resp *triskelev1.RecallResponse, leg string) *triskelev1.LegReport {
	return first(resp.GetLegs(), func(r *triskelev1.LegReport) bool { return r.GetLeg() == leg })
}

func (d *demo) exact(ctx context.Context) {
	d.heading("Exact words")
	d.say("A search for an error code, a command or a name needs the exact words. The lexical leg ranks by BM25, in which a rare " +
		"word weighs more than a common one. The score is the probability that the memory is relevant. Below it stands how it comes " +
		"about, in log-odds: what each leg's score and rank say, beside what the query and the namespace let expect.")
	resp, q := d.show(ctx, "q01", 1)
	d.expect(from(find(resp, q.Relevant[0]), "lexical").GetRank() == 1, "the lexical leg ranks %s first", q.Relevant[0])
}

func (d *demo) paraphrase(ctx context.Context) {
	d.heading("Other words")
	about := "The embedder is " + d.model.String() + "."
	if d.model.Name == static.Name {
		about = "The built-in embedder is a table of word vectors inside the program, trained on openly licensed English."
	}
	d.say("People misspell words. The lexical leg takes a word that no memory has for one that is a letter away:")
	resp := d.ask(ctx, request("certifcate expird"))
	const key = "inc-egret-cert"
	d.expect(from(find(resp, key), "lexical") != nil, "the lexical leg finds %s by misspelt words", key)
	d.expect(find(resp, key).GetRank() <= shown, "%s is among the first %d", key, shown)
	d.print("\n")
	d.say("People also rarely repeat a memory's words. The dense leg compares vectors, and knows words of similar meaning. %s This question has "+
		"hardly a word of its answer. The dense leg alone finds:", about)
	q := d.query("q29")
	req := request(q.Text)
	req.Legs = without("lexical", "graph")
	resp = d.ask(ctx, req, q.Relevant...)
	d.expectDenseOnly(resp, q.Relevant[0], shown)
	const deep = 50
	req = request(q.Text)
	req.Limit = new(int32(deep))
	resp = d.recall(ctx, req)
	hit := find(resp, q.Relevant[0])
	d.expectDenseOnly(resp, q.Relevant[0], deep)
	if hit != nil {
		d.say("\nWith all legs the answer has rank %d. The lexical leg finds other memories by other words of the question.", hit.GetRank())
	}
}

func (d *demo) expectDenseOnly(resp *triskelev1.RecallResponse, key string, n int32) {
	hit := find(resp, key)
	d.expectOfModel(hit != nil && hit.GetRank() <= n, "%s is among the first %d", key, n)
	d.expectOfModel(from(hit, "dense") != nil && from(hit, "lexical") == nil, "the dense leg finds %s and the lexical leg does not", key)
}

func (d *demo) multiHop(ctx context.Context) {
	d.heading("Several hops")
	d.say("No single memory answers this. One says what Wendeline built, another says which service draws its PDFs, a third why that service is " +
		"pinned. The graph leg follows the names that memories share.")
	q := d.query("q46")
	start, answer := q.Relevant[0], q.Relevant[len(q.Relevant)-1]
	resp := d.ask(ctx, request(q.Text), start, answer)
	req := request(q.Text)
	req.Legs = without("graph")
	others := d.recall(ctx, req)
	for _, key := range []string{start, answer} {
		d.expect(from(find(resp, key), "graph") != nil, "the graph leg contributes to %s", key)
	}
	rank, before := find(resp, answer).GetRank(), find(others, answer).GetRank()
	place := fmt.Sprintf("has rank %d", before)
	if before == 0 {
		place = fmt.Sprintf("is not among the first %d", depth)
	}
	d.say("The memory with the answer has rank %d. Without the graph leg it %s.", rank, place)
	d.expectOfModel(rank > 0 && rank <= 5 && (before == 0 || rank < before), "the graph leg raises %s to the first 5", answer)
}

func (d *demo) superseded(ctx context.Context) {
	d.heading("What holds now")
	d.say("A superseded memory stays on record, but recall leaves it out.")
	resp, q := d.show(ctx, "q53", 1)
	req := request(q.Text)
	req.Filter = &triskelev1.Filter{IncludeSuperseded: true}
	all := d.recall(ctx, req)
	old := ""
	for _, hit := range all.GetHits() {
		if hit.GetMemory().GetSupersededBy() == ID(q.Relevant[0]) {
			old = hit.GetId()
			d.say("A recall that includes superseded memories also finds: %s", hit.GetMemory().GetContent())
		}
	}
	d.expect(old != "", "a recall that includes superseded memories finds the one that %s supersedes", q.Relevant[0])
	for _, hit := range resp.GetHits() {
		d.expect(hit.GetId() != old, "a superseded memory is left out")
	}
}

func (d *demo) sensitive(ctx context.Context) {
	d.heading("A sensitive memory")
	d.say("A sensitive memory is never embedded, never linked and never sent to a model. The lexical leg still finds it by its words, " +
		"and the score asks of the other legs nothing that they cannot know.")
	const key = "zuzana-salary-talk"
	resp := d.ask(ctx, request("salary talk 99999 shells"), key)
	hit := find(resp, key)
	d.expect(hit.GetMemory().GetSensitive(), "%s is found, and is sensitive", key)
	d.expect(from(hit, "lexical").GetRank() == 1 && from(hit, "dense") == nil && from(hit, "graph") == nil, "the lexical leg alone finds %s", key)
}

func (d *demo) trace(ctx context.Context) {
	d.heading("Where the time goes")
	d.say("These are the spans of one recall, from the caller through the gateway and the legs down to the SQL statements. No span " +
		"has the text of a query or of a memory.")
	q := d.query("q41")
	spans, err := telemetry.Trace(ctx, d.recorder, "demo recall", func(ctx context.Context) ([]*triskelev1.Span, error) {
		req := request(q.Text)
		req.ReturnSpans = true
		resp, err := d.Recalls.Recall(ctx, req)
		return resp.GetSpans(), err
	})
	d.fail(err)
	d.print("\n" + d.style.Good("> "+q.Text) + "\n" + d.style.Waterfall(spans))
	for _, service := range []string{"fuser", "lexical", "dense", "graph", "store"} {
		d.expect(slices.ContainsFunc(spans, func(s *triskelev1.Span) bool { return s.GetService() == service }), "the trace has a span of %s", service)
	}
	for _, span := range spans {
		recorded := span.String()
		d.expect(!strings.Contains(recorded, q.Text), "span %s does not have the query", span.GetName())
		d.expect(!slices.ContainsFunc(d.memories, func(m *triskelev1.Memory) bool { return strings.Contains(recorded, m.GetContent()) }),
			"span %s does not have the text of a memory", span.GetName())
	}
}

func (d *demo) slow(ctx context.Context) {
	d.heading("A leg that is too slow")
	q := d.query("q02")
	req := request(q.Text)
	healthy := d.recall(ctx, req)
	budget := max(tight, 10*healthy.GetSpent().AsDuration())
	lag := 2*budget + 100*time.Millisecond
	d.say("The dense leg now takes %s longer, and the recall has a budget of %s. The answer comes in time. It says that the "+
		"dense leg's hits are missing.", render.Duration(lag), render.Duration(budget))
	req.Budget = durationpb.New(budget)
	d.lag.Store(int64(lag))
	defer d.lag.Store(0)
	resp := d.ask(ctx, req)
	d.expect(report(resp, "dense").GetState() == triskelev1.LegState_LEG_STATE_TIMED_OUT, "the slow dense leg is TIMED_OUT")
	d.expect(resp.GetDegraded(), "an answer without the slow leg is marked as degraded")
	d.expect(find(resp, q.Relevant[0]) != nil, "%s is found without the dense leg", q.Relevant[0])
	d.expect(resp.GetSpent().AsDuration() < lag, "the answer does not wait for the slow leg")
}

func (d *demo) dead(ctx context.Context) {
	d.heading("A leg that is dead")
	d.say("The graph leg is killed, as in a crash. It contributes nothing, and the other two legs carry on.")
	d.fail(d.system.Kill("graph"))
	q := d.query("q07")
	resp := d.ask(ctx, request(q.Text))
	d.expect(report(resp, "graph").GetState() == triskelev1.LegState_LEG_STATE_FAILED, "the dead graph leg is FAILED")
	d.expect(resp.GetDegraded(), "an answer without the dead leg is marked as degraded")
	d.expect(find(resp, q.Relevant[0]) != nil, "%s is found without the graph leg", q.Relevant[0])
}

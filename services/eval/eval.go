// Package eval measures the quality and latency of recalls on retrieval collections in the BEIR layout. It uses the same gateway,
// services and stores as an agent, so it measures the product itself. The process is:
//
//  1. Load every set: corpus.jsonl, queries.jsonl and qrels.tsv. A broken file is found before anything is measured.
//  2. For each set, start all services on an empty database.
//  3. Import the documents through the gateway, and wait until every leg has indexed them.
//  4. For each configuration, which is a selection of legs, ask a few queries as a warm-up and then all of them.
//  5. Compute the metrics by category, and write run files and judgments for trec_eval, report.json and report.md.
//
// Only the text of a query reaches the services, and only title, text and date of a document. Judgments never do.
package eval

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
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/rerank"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/wiring/standalone"
)

const (
	// limit is how many hits a recall asks for. Most metrics look at ten, and the run files have all.
	limit = 50
	// budget is the gateway's maximum, and far more than a recall needs. So timeouts do not affect the quality.
	budget = 10 * time.Second
	// timeout is the client's deadline. It matters only if the gateway does not keep to the budget.
	timeout = budget + 5*time.Second
	// warmUp is how many queries are asked before each configuration without being measured.
	warmUp = 20
)

// Options say what to measure. A command line has them as flags.
type Options struct {
	Data        string        `help:"Folder with a sub-folder per set, each with corpus.jsonl, queries.jsonl and qrels.tsv." required:"" placeholder:"DIR"`
	Sets        []string      `help:"Sets to measure; all if not given." placeholder:"SET"`
	Store       string        `help:"Kind of database: sqlite or postgres." enum:"sqlite,postgres" default:"sqlite"`
	Postgres    string        `help:"Connection URL of a server on which databases may be created." env:"TRISKELE_POSTGRES" placeholder:"URL"`
	Out         string        `help:"Folder for report.md, report.json and the run files." required:"" placeholder:"DIR"` // files of earlier runs are overwritten
	Configs     []string      `help:"Configurations to measure; all if not given: ${configs}." placeholder:"CONFIG"`
	Scorer      string        `help:"How the lexical leg ranks: ${scorers}." enum:"${scorers}" default:"bm25"` // empty means the default
	Limit       int           `help:"Queries per set; 0 means all." default:"0"`
	Reading     time.Duration `name:"reranker-within" help:"How long the reranker may read at most; 0 for what the budget of a recall leaves." default:"0" placeholder:"DURATION"`
	Top         int32         `name:"reranker-top" help:"How many memories the reranker reads at most, 2 to 100; 0 for as many as in a recall." default:"0" placeholder:"N"`
	Concurrency int           `help:"Concurrent recalls; measure latencies with 1." default:"1"` // 0 means 1

	Embedder embed.Embedder `kong:"-"`
	Fallback embed.Embedder `kong:"-"` // see standalone.Config
	Progress io.Writer      `kong:"-"` // for progress bars; nil means none
	Command  string         `kong:"-"` // the command line, for the report; it must not show passwords
}

// config is a selection of legs, and of what comes after them.
type config struct {
	name   string
	legs   []string
	reread bool // by the built-in reranker
}

var configs = []config{
	{name: "A-all", legs: []string{"lexical", "dense", "graph"}},
	{name: "B-lexical+dense", legs: []string{"lexical", "dense"}},
	{name: "C-dense", legs: []string{"dense"}},
	{name: "D-lexical", legs: []string{"lexical"}},
	{name: "E-graph", legs: []string{"graph"}},
	{name: "F-all+reranker", legs: []string{"lexical", "dense", "graph"}, reread: true},
}

// ConfigNames returns the names of the configurations.
func ConfigNames() []string {
	return slice.Map(configs, func(c config) string { return c.name })
}

// overrides switches off the legs that are not selected.
func (c config) overrides() map[string]*triskelev1.LegOptions {
	out := map[string]*triskelev1.LegOptions{}
	for _, leg := range legNames() {
		if !slices.Contains(c.legs, leg) {
			out[leg] = &triskelev1.LegOptions{Enabled: new(bool)}
		}
	}
	return out
}

func legNames() []string {
	return slice.Map(gateway.DefaultLegs(nil), func(leg gateway.Leg) string { return leg.Name })
}

// Run measures every set with every configuration and writes report.json, report.md, qrels/SET.qrels and
// runs/SET/CONFIG.trec to options.Out. Each set has a database of its own, which is removed afterwards. So its results do not
// depend on the other sets.
func Run(ctx context.Context, options Options, process *telemetry.Process, log *slog.Logger) (*Report, error) {
	r := &runner{options: options, process: process, log: log}
	if err := r.check(); err != nil {
		return nil, err
	}
	sets := make([]*Set, len(r.options.Sets))
	for i, name := range r.options.Sets {
		set, err := Load(filepath.Join(options.Data, name), options.Limit)
		if err != nil {
			return nil, err
		}
		sets[i] = set
	}
	report := r.newReport()
	for _, set := range sets {
		if err := r.measure(ctx, set, report); err != nil {
			return nil, fmt.Errorf("%s: %w", set.Name, err)
		}
		if err := report.write(options.Out); err != nil {
			return nil, err
		}
	}
	return report, nil
}

type runner struct {
	options Options // checked, with defaults filled in
	configs []config
	process *telemetry.Process
	log     *slog.Logger
}

func (r *runner) check() error {
	o := &r.options
	switch {
	case o.Store != "sqlite" && o.Store != "postgres":
		return fmt.Errorf("store %q must be sqlite or postgres", o.Store)
	case o.Store == "postgres" && o.Postgres == "":
		return errors.New("store postgres needs a connection URL")
	case o.Out == "":
		return errors.New("a folder for the results is needed")
	case o.Limit < 0:
		return fmt.Errorf("limit %d must not be negative", o.Limit)
	case o.Concurrency < 0:
		return fmt.Errorf("concurrency %d must not be negative", o.Concurrency)
	}
	o.Concurrency, o.Progress = max(o.Concurrency, 1), cmp.Or(o.Progress, io.Discard)
	for _, name := range o.Configs {
		i := slices.IndexFunc(configs, func(c config) bool { return c.name == name })
		if i < 0 {
			return fmt.Errorf("there is no configuration %q; there are %s", name, strings.Join(ConfigNames(), ", "))
		}
		r.configs = append(r.configs, configs[i])
	}
	if len(o.Configs) == 0 {
		r.configs = configs
	}
	if o.Reading < 0 {
		return fmt.Errorf("the reranker's time %v must not be negative", o.Reading)
	}
	if o.Top != 0 && (o.Top < 2 || o.Top > 100) {
		return fmt.Errorf("the reranker's number of memories %d must be from 2 to 100, or 0", o.Top)
	}
	if len(o.Sets) == 0 {
		return o.findSets()
	}
	return nil
}

func (o *Options) findSets() error {
	entries, err := os.ReadDir(o.Data) // sorted
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, err := os.Stat(filepath.Join(o.Data, entry.Name(), corpusFile)); err == nil {
			o.Sets = append(o.Sets, entry.Name())
		}
	}
	if len(o.Sets) == 0 {
		return fmt.Errorf("%s has no sub-folder with a %s", o.Data, corpusFile)
	}
	return nil
}

// System is a running gateway with its services, which has one set, indexed by every leg.
type System struct {
	Conn            grpc.ClientConnInterface               // to the gateway
	Legs            map[string]triskelev1.LegServiceClient // by name
	Import, CatchUp time.Duration                          // the time to store the set, and then to index it
	version         string                                 // of the database
	postgres        string                                 // URL of the database, if it is one of PostgreSQL
	closers         []func() error                         // called in reverse order
}

// Open starts the services on a store of their own and imports a set. Close removes the store.
func Open(ctx context.Context, options Options, set *Set, process *telemetry.Process, log *slog.Logger) (*System, error) {
	r := &runner{options: options, process: process, log: log}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.open(ctx, set)
}

func (r *runner) open(ctx context.Context, set *Set) (_ *System, err error) {
	s := &System{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := r.start(ctx, s); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := r.load(ctx, set, client.New(s.Conn)); err != nil {
		return nil, err
	}
	s.Import = time.Since(start)
	start = time.Now()
	if err := r.catchUp(ctx, set, client.New(s.Conn)); err != nil {
		return nil, err
	}
	s.CatchUp = time.Since(start)
	if s.postgres != "" { // autovacuum would do this at some moment of the run, and disturb the latencies
		return s, execute(ctx, s.postgres, "VACUUM (ANALYZE)")
	}
	return s, nil
}

func (r *runner) start(ctx context.Context, s *System) error {
	config := standalone.Config{Embedder: r.options.Embedder, Fallback: r.options.Fallback, Gateway: gateway.DefaultConfig(), Lexical: lexical.DefaultConfig()}
	config.Gateway.Rerank = rerank.Default()
	config.Lexical.Scorer = cmp.Or(r.options.Scorer, config.Lexical.Scorer)
	var err error
	if r.options.Store == "postgres" {
		config.Postgres, err = s.createPostgres(ctx, r.options.Postgres)
		s.postgres = config.Postgres
	} else {
		config.SQLite, err = s.createSQLite()
	}
	if err != nil {
		return err
	}
	system, err := standalone.Start(ctx, config, r.process, r.log)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, system.Close)
	s.Conn, s.Legs = system.Conn, system.Legs
	s.version, err = system.Backend.Version(ctx)
	return err
}

// Close stops the services and removes their store.
func (s *System) Close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// measure imports one set and asks its queries with every configuration.
func (r *runner) measure(ctx context.Context, set *Set, report *Report) (err error) {
	system, err := r.open(ctx, set)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Close()) }()

	result := SetReport{
		Name: set.Name, Documents: len(set.Memories), Namespaces: len(set.Namespaces), Queries: len(set.Queries),
		Unjudged: set.Unjudged, Unreachable: set.Unreachable,
		ImportSeconds: system.Import.Seconds(), ImportPerSecond: float64(len(set.Memories)) / system.Import.Seconds(),
		CatchUpSeconds: system.CatchUp.Seconds(),
	}
	report.Database = system.version
	if err := WriteJudgments(filepath.Join(r.options.Out, "qrels", set.Name+".qrels"), set.Queries); err != nil {
		return err
	}
	recall := triskelev1.NewRecallServiceClient(system.Conn)
	for _, c := range r.configs {
		answers, err := r.ask(ctx, set, c, recall)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rankings := slice.Map(answers, func(a answer) Ranking { return a.Ranking })
		if err := WriteRun(filepath.Join(r.options.Out, "runs", set.Name, c.name+".trec"), c.name, set.Queries, rankings); err != nil {
			return err
		}
		result.Configs = append(result.Configs, summarize(c, set.Queries, answers))
	}
	report.Sets = append(report.Sets, result)
	return nil
}

func (r *runner) load(ctx context.Context, set *Set, c *client.Client) error {
	bar, done := r.bar(set.Name+" import", len(set.Memories))
	defer done()
	for batch := range slices.Chunk(set.Memories, client.BatchSize) {
		resp, err := c.Import(ctx, batch)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		if n := resp.GetStored() + resp.GetUnchanged(); n != int64(len(batch)) {
			return fmt.Errorf("import: %d of %d documents were stored", n, len(batch))
		}
		_ = bar.Add(len(batch))
	}
	return nil
}

// catchUp waits until no leg has a document left to index.
func (r *runner) catchUp(ctx context.Context, set *Set, c *client.Client) error {
	documents := map[string]int{}
	for _, m := range set.Memories {
		documents[m.GetNamespace()]++
	}
	bar, done := r.bar(set.Name+" index", len(set.Memories))
	defer done()
	indexed := 0
	for _, namespace := range set.Namespaces {
		indexed += documents[namespace]
		err := c.WaitIndexed(ctx, namespace, func(pending int64) { _ = bar.Set(max(0, indexed-int(pending))) })
		if err != nil {
			return err
		}
		_ = bar.Set(indexed)
	}
	return nil
}

type answer struct {
	Ranking
	legs  []*triskelev1.LegReport // one per leg: a query has one namespace
	spent time.Duration           // measured by the client
}

// ask asks every query once and returns the answers in the queries' order.
func (r *runner) ask(ctx context.Context, set *Set, c config, recall triskelev1.RecallServiceClient) ([]answer, error) {
	for _, query := range set.Queries[:min(warmUp, len(set.Queries))] {
		if _, err := r.askOne(ctx, set, query, c, recall); err != nil {
			return nil, err
		}
	}
	bar, done := r.bar(set.Name+" "+c.name, len(set.Queries))
	defer done()
	answers := make([]answer, len(set.Queries))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.options.Concurrency)
	for i, query := range set.Queries {
		group.Go(func() (err error) {
			answers[i], err = r.askOne(ctx, set, query, c, recall)
			_ = bar.Add(1)
			return err
		})
	}
	return answers, group.Wait()
}

func (r *runner) askOne(ctx context.Context, set *Set, query Query, c config, recall triskelev1.RecallServiceClient) (answer, error) {
	req := query.request(c.overrides())
	// With a single leg, the run file has the leg's own score: the fused score depends on the ranks alone.
	req.Explain = len(c.legs) == 1
	if c.reread {
		req.Rerank = client.Reread()
		if r.options.Top > 0 {
			req.Rerank.Top = &r.options.Top
		}
		if r.options.Reading > 0 {
			req.Rerank.Deadline = durationpb.New(r.options.Reading)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	resp, err := recall.Recall(ctx, req)
	out := answer{Ranking: Ranking{Scores: map[string]float64{}}, spent: time.Since(start), legs: resp.GetLegs()}
	if err != nil {
		return answer{}, fmt.Errorf("query %q: %w", query.ID, err)
	}
	for _, hit := range resp.GetHits() {
		id, known := set.Documents[hit.GetId()]
		if !known {
			return answer{}, fmt.Errorf("query %q: memory %s is not a document of the set", query.ID, hit.GetId())
		}
		score := hit.GetScore()
		if contributions := hit.GetContributions(); len(contributions) == 1 {
			score = contributions[0].GetRawScore()
		}
		out.IDs = append(out.IDs, id)
		out.Scores[id] = score
	}
	return out, nil
}

func (q Query) request(legs map[string]*triskelev1.LegOptions) *triskelev1.RecallRequest {
	return &triskelev1.RecallRequest{
		Namespaces: []string{q.Namespace}, Query: q.Text, Limit: new(int32(limit)), IdsOnly: true, Budget: durationpb.New(budget), Legs: legs,
	}
}

// bar returns a progress bar and the function that ends its line.
func (r *runner) bar(what string, total int) (bar *progressbar.ProgressBar, done func()) {
	bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(r.options.Progress),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(24),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
	return bar, func() { _, _ = io.WriteString(r.options.Progress, "\n") }
}

package evidence

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/tests/lab/measure"
)

const (
	// limit is how many hits a recall asks for.
	limit = 50
	// budget is far more than a recall needs: quality is not to be mixed with timeouts.
	budget = 10 * time.Second
	// atATime is how many recalls run beside each other; they don't disturb each other's rankings.
	atATime = 4
)

// Options say how a plan is run.
type Options struct {
	Plan []byte
	// Eval says where the sets are and with which embedder; its Sets and Store come from the plan. Its Out gets the run
	// files, one for each set and configuration, and qrels. Those of an interrupted run of the same plan, data and program
	// are used again.
	Eval eval.Options
	// Revision is that of the code, for the report; "" is the one that this program was built from.
	Revision string
}

// Study is a plan and what was measured.
type Study struct {
	Plan     *Plan
	Provided Provenance
	cells    []cell
	sets     []*eval.Set
	runs     map[run][]eval.Metrics // of each of a set's queries
	waste    map[run]waste
	tunings  map[string]tuning // what tuned has found
	open     map[string]*eval.System
	options  eval.Options
	process  *telemetry.Process
	log      *slog.Logger
}

// run names the rankings of a configuration, without one of the legs perhaps, on a set.
type run struct{ set, cell string }

// Provenance is what a ranking depends on.
type Provenance struct {
	Plan     string            `json:"plan"` // SHA-256, as are the sets'
	Data     map[string]string `json:"data"` // by set
	Embedder string            `json:"embedder"`
	Store    string            `json:"store"`
	Scorer   string            `json:"scorer"`
	Revision string            `json:"revision"`
	Machine  eval.Machine      `json:"machine"` // sums of floats may differ in the last bit on another
}

// Run measures what the plan asks for.
func Run(ctx context.Context, options Options, process *telemetry.Process, log *slog.Logger) (_ *Study, err error) {
	plan, err := ParsePlan(options.Plan)
	if err != nil {
		return nil, err
	}
	s := &Study{
		Plan: plan, runs: map[run][]eval.Metrics{}, waste: map[run]waste{}, tunings: map[string]tuning{}, open: map[string]*eval.System{}, options: options.Eval, process: process, log: log,
	}
	s.options.Sets, s.options.Store = plan.Sets, plan.Store
	if s.cells, err = plan.cells(); err != nil {
		return nil, err
	}
	for _, name := range plan.Sets {
		set, err := eval.Load(filepath.Join(s.options.Data, name), s.options.Limit)
		if err != nil {
			return nil, err
		}
		s.sets = append(s.sets, set)
	}
	if err := s.prepare(options); err != nil {
		return nil, err
	}
	defer func() {
		for _, system := range s.open {
			err = errors.Join(err, system.Close())
		}
	}()
	for _, set := range s.sets {
		if err := s.measure(ctx, set, slices.Concat(s.cells, s.withoutLegs())); err != nil {
			return nil, err
		}
	}
	return s, s.diffs(ctx, filepath.Join(s.options.Out, "diffs"))
}

// prepare makes the folder for the runs, or sees that those in it are of the same plan, data and program.
func (s *Study) prepare(options Options) error {
	model := s.options.Embedder.Model()
	s.Provided = Provenance{
		Plan: checksum(options.Plan), Data: map[string]string{}, Store: s.options.Store, Scorer: lexical.ScorerByName(s.options.Scorer).String(),
		Embedder: fmt.Sprintf("%s/%s, %d dimensions", model.Provider, model.Name, model.Dimensions),
		Revision: cmp.Or(options.Revision, eval.Commit()), Machine: eval.ThisMachine(),
	}
	for _, set := range s.sets {
		var all []byte
		for _, file := range []string{"corpus.jsonl", "queries.jsonl", "qrels.tsv"} {
			text, err := os.ReadFile(filepath.Join(s.options.Data, set.Name, file))
			if err != nil {
				return err
			}
			all = append(all, checksum(text)...)
		}
		s.Provided.Data[set.Name] = checksum(all)
		if err := eval.WriteJudgments(filepath.Join(s.options.Out, "qrels", set.Name+".qrels"), set.Queries); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	fingerprint, err := json.MarshalIndent(struct {
		Provenance
		Program string `json:"program"`
		Limit   int    `json:"limit"`
	}{s.Provided, checksum(text), s.options.Limit}, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(s.options.Out, "fingerprint.json")
	switch before, err := os.ReadFile(name); {
	case errors.Is(err, fs.ErrNotExist):
		return os.WriteFile(name, fingerprint, 0o644)
	case err != nil:
		return err
	case !bytes.Equal(before, fingerprint):
		return fmt.Errorf("%s holds runs of another plan, other data or another program: remove it, or name another folder", s.options.Out)
	}
	return nil
}

func checksum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// unsafe are the characters of a configuration's name that its file's has not.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9=.+-]+`)

// measure asks a set's queries with every one of the cells that has no run yet.
func (s *Study) measure(ctx context.Context, set *eval.Set, cells []cell) error {
	bar := progressbar.NewOptions(len(cells),
		progressbar.OptionSetWriter(s.progress()), progressbar.OptionSetDescription(set.Name+" configurations"),
		progressbar.OptionSetWidth(24), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond))
	defer func() { _, _ = io.WriteString(s.progress(), "\n") }()
	var legs []triskelev1.LegServiceClient
	reader := newReader(set)
	for _, c := range cells {
		file := filepath.Join(s.options.Out, "runs", set.Name, unsafe.ReplaceAllString(c.name, "_")+".trec")
		rankings, err := measure.ReadRun(file)
		if errors.Is(err, fs.ErrNotExist) {
			if legs == nil {
				if legs, err = s.legs(ctx, set); err != nil {
					return err
				}
			}
			if err = s.ask(ctx, set, c, legs, file); err == nil {
				rankings, err = measure.ReadRun(file)
			}
		}
		if err != nil {
			return fmt.Errorf("%s on %s: %w", c.name, set.Name, err)
		}
		measured, first := make([]eval.Metrics, len(set.Queries)), make([][]string, len(set.Queries))
		for i, q := range set.Queries {
			first[i] = rankings[q.ID].IDs
			measured[i] = eval.Measure(first[i], q.Grades)
		}
		s.runs[run{set.Name, c.name}] = measured
		s.waste[run{set.Name, c.name}] = reader.read(first)
		_ = bar.Add(1)
	}
	return nil
}

func (s *Study) progress() io.Writer {
	if s.options.Progress == nil {
		return io.Discard
	}
	return s.options.Progress
}

// legs are the legs of a system that holds the set, each of which is asked every question once.
func (s *Study) legs(ctx context.Context, set *eval.Set) ([]triskelev1.LegServiceClient, error) {
	if s.open[set.Name] == nil {
		system, err := eval.Open(ctx, s.options, set, s.process, s.log)
		if err != nil {
			return nil, err
		}
		s.open[set.Name] = system
	}
	var legs []triskelev1.LegServiceClient
	for _, leg := range gateway.DefaultLegs(nil) {
		legs = append(legs, record(s.open[set.Name].Legs[leg.Name]))
	}
	return legs, nil
}

// gateway is one that has the cell's policy.
func (s *Study) gateway(set *eval.Set, c cell, legs []triskelev1.LegServiceClient) (*gateway.Gateway, error) {
	config := gateway.DefaultConfig()
	config.Legs = gateway.DefaultLegs(nil)
	config.Policies = map[string]*triskelev1.RecallPolicy{"": c.policy}
	memory := triskelev1.NewMemoryServiceClient(s.open[set.Name].Conn)
	return gateway.New(config, legs, memory, s.process.Service("fuser"), s.log)
}

// ask asks a set's queries with a cell's policy, and writes the run file.
func (s *Study) ask(ctx context.Context, set *eval.Set, c cell, legs []triskelev1.LegServiceClient, file string) error {
	g, err := s.gateway(set, c, legs)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		rankings = make([]eval.Ranking, len(set.Queries))
		next     atomic.Int64
		workers  sync.WaitGroup
	)
	for range atATime {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(set.Queries) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var err error
				if rankings[i], err = recall(ctx, g, set, set.Queries[i]); err != nil {
					cancel(fmt.Errorf("query %q: %w", set.Queries[i].ID, err))
				}
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return eval.WriteRun(file, c.name, set.Queries, rankings)
}

func recall(ctx context.Context, g *gateway.Gateway, set *eval.Set, q eval.Query) (eval.Ranking, error) {
	hits := int32(limit)
	resp, err := g.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{q.Namespace}, Query: q.Text, Limit: &hits, IdsOnly: true, Budget: durationpb.New(budget),
	})
	if err != nil {
		return eval.Ranking{}, err
	}
	if resp.GetDegraded() {
		// A leg that was turned off does not make a recall degraded.
		return eval.Ranking{}, fmt.Errorf("degraded: %s", resp.GetDegradedReason())
	}
	ranking := eval.Ranking{Scores: map[string]float64{}}
	for _, hit := range resp.GetHits() {
		id := set.Documents[hit.GetId()]
		ranking.IDs = append(ranking.IDs, id)
		ranking.Scores[id] = hit.GetScore()
	}
	return ranking, nil
}

// without is a cell without some of the legs.
func (c cell) without(legs ...string) cell {
	if len(legs) == 0 {
		return c
	}
	off := false
	c.policy = proto.CloneOf(c.policy)
	if c.policy.Legs == nil {
		c.policy.Legs = map[string]*triskelev1.LegOptions{}
	}
	for _, leg := range legs {
		if c.policy.Legs[leg] == nil {
			c.policy.Legs[leg] = &triskelev1.LegOptions{}
		}
		c.policy.Legs[leg].Enabled = &off
		c.name += " without " + leg
	}
	return c
}

// withoutLegs are the cells to measure with legs lost: all that a hypothesis names, without each leg of the rule, and of the
// configuration whose degradation is drawn all that is left of it.
func (s *Study) withoutLegs() []cell {
	var cells []cell
	known := map[string]bool{}
	add := func(c cell) {
		if !known[c.name] {
			cells = append(cells, c)
			known[c.name] = true
		}
	}
	for _, c := range s.cells {
		for _, leg := range s.Plan.Rule.Without {
			if c.left(leg) && s.judged(c) {
				add(c.without(leg))
			}
		}
	}
	if s.Plan.Degradation != "" {
		for _, lost := range subsets(legNames()) {
			if len(lost) > 0 && len(lost) < len(legNames()) {
				add(s.cell(s.Plan.Degradation).without(lost...))
			}
		}
	}
	return cells
}

// judged says whether a hypothesis names a cell; others only stand beside them.
func (s *Study) judged(c cell) bool {
	return slices.ContainsFunc(s.Plan.Hypotheses, func(h Hypothesis) bool { return h.Baseline == c.name || slices.Contains(h.Candidates, c.of) })
}

// left says whether any leg is asked if this one is lost.
func (c cell) left(lost string) bool {
	return slices.ContainsFunc(legNames(), func(leg string) bool {
		options := c.policy.GetLegs()[leg]
		return leg != lost && (options == nil || options.Enabled == nil || options.GetEnabled())
	})
}

func legNames() []string {
	var names []string
	for _, leg := range gateway.DefaultLegs(nil) {
		names = append(names, leg.Name)
	}
	return names
}

func (s *Study) cell(name string) cell {
	return s.cells[slices.IndexFunc(s.cells, func(c cell) bool { return c.name == name })]
}

package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/graph"
)

const (
	triplesFile = "triples.jsonl"
	// depth is how much of each leg's list is merged, seedDepth how many memories the graph leg starts from in seeded mode.
	depth     = 50
	seedDepth = 100
	// factBatch is how many triples one transaction takes in.
	factBatch = 2000
)

// The weights and quotas that a trial goes through; a quota is a number of places among the first ten.
var (
	trialWeights = []float64{0.1, 0.25, 0.35, 0.5, 1, 2}
	trialQuotas  = []int{1, 2, 3, 4}
)

// TrialOptions say what to try the graph leg on.
type TrialOptions struct {
	Options
	// Single are the sets whose triples have one object at a time for a subject and a relation: the newest holds.
	Single []string
}

// Trial asks whether the graph leg earns its place: with every way of searching it, every weight as a list of reciprocal
// rank fusion and every quota, against the same without it, and against a graph in which memories have changed places at random
// with others that have as many concepts. The legs are asked one by one, through their services, and merged with the gateway's own
// code. A set with triples.jsonl is measured without and with them.
func Trial(ctx context.Context, options TrialOptions, process *telemetry.Process, log *slog.Logger) (*TrialReport, error) {
	r := &runner{options: options.Options, process: process, log: log}
	if err := r.check(); err != nil {
		return nil, err
	}
	report := r.newTrialReport()
	for _, name := range r.options.Sets {
		set, err := Load(filepath.Join(options.Data, name), options.Limit)
		if err != nil {
			return nil, err
		}
		facts, err := loadTriples(set, filepath.Join(options.Data, name, triplesFile), slices.Contains(options.Single, name))
		if err != nil {
			return nil, err
		}
		conditions := []map[string][]graph.Fact{nil}
		if len(facts) > 0 {
			conditions = append(conditions, facts)
		}
		for _, facts := range conditions {
			result, err := r.try(ctx, set, facts)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			report.Sets = append(report.Sets, *result)
			if err := report.write(options.Out); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// loadTriples reads triples by namespace. A file that is not there has none.
func loadTriples(set *Set, path string, single bool) (map[string][]graph.Fact, error) {
	type place struct {
		id        uuid.UUID
		namespace string
	}
	places := map[string]place{}
	for _, m := range set.Memories {
		places[set.Documents[m.GetId()]] = place{uuid.MustParse(m.GetId()), m.GetNamespace()}
	}
	facts := map[string][]graph.Fact{}
	err := eachLine(path, func(line []byte) error {
		var t struct {
			Doc      string `json:"doc_id"`
			Subject  string `json:"subject"`
			Relation string `json:"relation"`
			Object   string `json:"object"`
		}
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		at, known := places[t.Doc]
		f := graph.Fact{Memory: at.id, Subject: t.Subject, Relation: t.Relation, Object: t.Object, Single: single}
		if known && f.Check() == nil { // extraction by models leaves some that name nothing
			facts[at.namespace] = append(facts[at.namespace], f)
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return facts, err
}

// lists are what the legs found for one query.
type lists struct {
	lexical, dense fusion.List
	graphs         map[string]fusion.List // by system
	coverage       map[string]float64     // of the query, by system
	linked         bool
	hops           map[string]int // of the relevant documents that the graph can reach
	spent          map[string]time.Duration
}

// systems are the ways of searching the graph, each with a list of its own per query.
const (
	systemHops         = "hop decay"
	systemRank         = "PageRank"
	systemSeeded       = "PageRank, seeded"
	systemRandom       = "random, parallel"
	systemRandomSeeded = "random, seeded"
)

var systems = []string{systemHops, systemRank, systemSeeded, systemRandom, systemRandomSeeded}

// try measures one set under one condition.
func (r *runner) try(ctx context.Context, set *Set, facts map[string][]graph.Fact) (_ *TrialSet, err error) {
	system, err := r.open(ctx, set)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	config := graph.DefaultConfig()
	config.Embedder = r.options.Embedder
	index := system.backend.Graph(config)
	name, triples := set.Name, 0
	for _, namespace := range set.Namespaces {
		for batch := range slices.Chunk(facts[namespace], factBatch) {
			n, err := index.PutFacts(ctx, namespace, graph.OriginImport, batch)
			if err != nil {
				return nil, err
			}
			triples += n
		}
	}
	if triples > 0 {
		name += " + triples"
	}
	if err := system.settle(ctx); err != nil {
		return nil, err
	}
	views, places := map[string]*graph.View{}, map[string]places{}
	result := &TrialSet{Name: name, Queries: len(set.Queries), Triples: triples}
	for _, namespace := range set.Namespaces {
		view, err := index.View(ctx, namespace)
		if err != nil {
			return nil, err
		}
		views[namespace], places[namespace] = view, exchange(view.Degrees())
		s := view.Stats()
		result.Stats.Memories += s.Memories
		result.Stats.Concepts += s.Concepts
		result.Stats.Singletons += s.Singletons
		result.Stats.Hubs += s.Hubs
		result.Stats.Mentions += s.Mentions
		result.Stats.Facts += s.Facts
	}
	for _, namespace := range set.Namespaces {
		if err := warm(ctx, system.Legs["graph"], namespace, set.Queries[0].Text); err != nil {
			return nil, err
		}
	}
	bar, done := r.bar(name, len(set.Queries))
	defer done()
	answers := make([]lists, len(set.Queries))
	for i, q := range set.Queries {
		if answers[i], err = askLegs(ctx, system.Legs, set, q, views[q.Namespace], places[q.Namespace]); err != nil {
			return nil, fmt.Errorf("query %q: %w", q.ID, err)
		}
		_ = bar.Add(1)
	}
	result.judge(set.Queries, answers)
	return result, nil
}

// warm searches until the graph of a namespace is in memory.
func warm(ctx context.Context, leg triskelev1.LegServiceClient, namespace, text string) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, patience)
		resp, err := leg.Search(attempt, &triskelev1.SearchRequest{
			Namespace: namespace, Query: text, Depth: 1, Traversal: triskelev1.Traversal_TRAVERSAL_PAGERANK,
		})
		cancel()
		if err != nil || resp.GetState() != triskelev1.LegState_LEG_STATE_FALLBACK {
			return err
		}
	}
}

// places say which memory stands where another one was, and where each now stands.
type places struct{ of, at map[string]string }

// exchange gives each memory the place of another with as many mentions, at random but the same in every run.
func exchange(degrees map[uuid.UUID]int) places {
	byDegree := map[int][]string{}
	for id, degree := range degrees {
		byDegree[degree] = append(byDegree[degree], id.String())
	}
	out := places{map[string]string{}, map[string]string{}}
	for degree, ids := range byDegree {
		slices.Sort(ids)
		random := rand.New(rand.NewPCG(1, uint64(degree)))
		for i, at := range random.Perm(len(ids)) {
			out.of[ids[i]], out.at[ids[at]] = ids[at], ids[i]
		}
	}
	return out
}

// askLegs asks every leg in every way.
func askLegs(ctx context.Context, legs map[string]triskelev1.LegServiceClient, set *Set, q Query, view *graph.View, random places) (lists, error) {
	out := lists{graphs: map[string]fusion.List{}, coverage: map[string]float64{}, hops: map[string]int{}, spent: map[string]time.Duration{}}
	var failed error
	var vector []float32 // of the query, as the dense leg made it
	var model string
	search := func(system, leg string, edit func(*triskelev1.SearchRequest)) fusion.List {
		list := fusion.List{Leg: leg, Namespace: q.Namespace, Weight: 1}
		req := &triskelev1.SearchRequest{Namespace: q.Namespace, Query: q.Text, Depth: depth}
		if edit != nil {
			edit(req)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		start := time.Now()
		resp, err := legs[leg].Search(ctx, req)
		out.spent[system] = time.Since(start)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", system, err))
			return list
		}
		if resp.GetState() == triskelev1.LegState_LEG_STATE_FALLBACK {
			failed = errors.Join(failed, fmt.Errorf("%s: %s", system, resp.GetReason()))
		}
		if len(resp.GetVector()) > 0 {
			vector, model = resp.GetVector(), resp.GetVectorModel()
		}
		list.Kind, out.coverage[system] = resp.GetScoreKind(), resp.GetCoverage()
		for _, h := range resp.GetHits() {
			list.Hits = append(list.Hits, fusion.Hit{ID: h.GetId(), Score: h.GetScore(), Importance: h.GetImportance(), CreatedAt: h.GetCreatedAt().AsTime()})
		}
		return list
	}
	out.lexical = search("lexical", "lexical", nil)
	out.dense = search("dense", "dense", func(r *triskelev1.SearchRequest) { r.ReturnVector = true })
	out.graphs[systemHops] = search(systemHops, "graph", func(r *triskelev1.SearchRequest) { r.Traversal = triskelev1.Traversal_TRAVERSAL_HOP_DECAY })
	out.graphs[systemRank] = search(systemRank, "graph", func(r *triskelev1.SearchRequest) { r.Traversal = triskelev1.Traversal_TRAVERSAL_PAGERANK })
	seeds := fuse([]fusion.List{out.lexical, out.dense}, seedDepth)
	seeded := func(at map[string]string) func(*triskelev1.SearchRequest) {
		return func(r *triskelev1.SearchRequest) {
			r.Traversal, r.Vector, r.VectorModel = triskelev1.Traversal_TRAVERSAL_PAGERANK, vector, model
			for _, s := range seeds {
				r.Seeds = append(r.Seeds, &triskelev1.Seed{Id: cmp.Or(at[s.ID], s.ID), Score: s.Score})
			}
		}
	}
	out.graphs[systemSeeded] = search(systemSeeded, "graph", seeded(nil))
	// What stands at the places that the walk comes to; in seeded mode it begins where the seeds now stand.
	out.graphs[systemRandom], out.coverage[systemRandom] = random.found(out.graphs[systemRank]), out.coverage[systemRank]
	out.graphs[systemRandomSeeded] = random.found(search(systemRandomSeeded, "graph", seeded(random.at)))
	hops, linked := view.Reach(q.Text)
	out.linked = linked
	for id, n := range hops {
		if doc := set.Documents[id.String()]; q.Grades[doc] > 0 {
			out.hops[doc] = n
		}
	}
	for _, list := range append([]fusion.List{out.lexical, out.dense}, mapValues(out.graphs)...) {
		for i := range list.Hits {
			list.Hits[i].ID = set.Documents[list.Hits[i].ID]
		}
	}
	return out, failed
}

func mapValues(m map[string]fusion.List) []fusion.List {
	var out []fusion.List
	for _, system := range systems {
		out = append(out, m[system])
	}
	return out
}

// found is a list with the memories that stand at its places.
func (p places) found(list fusion.List) fusion.List {
	out := list
	out.Hits = slices.Clone(list.Hits)
	for i := range out.Hits {
		out.Hits[i].ID = cmp.Or(p.of[out.Hits[i].ID], out.Hits[i].ID)
	}
	return out
}

// fuse merges lists as the gateway does by default, without the importance prior: all documents have the same.
func fuse(lists []fusion.List, limit int) []fusion.Fused {
	return fusion.Fuse(lists, fusion.Options{K: fusion.DefaultK, Limit: limit}).Hits
}

// quota gives the last places of the first ten to the best of the graph's list that are not among them already; a place it
// cannot fill stays with the others.
func quota(base []string, list fusion.List, places int) []string {
	const first = 10
	top := slices.Clone(base[:min(first, len(base))])
	var rest []string
	present := 0
	for _, h := range list.Hits {
		switch {
		case slices.Contains(top, h.ID):
			present++
		default:
			rest = append(rest, h.ID)
		}
	}
	missing := min(max(places-present, 0), len(rest))
	keep := top[:min(len(top), first-missing)]
	out := append(slices.Clone(keep), rest[:missing]...)
	for _, id := range base {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func idsOf(fused []fusion.Fused) []string {
	out := make([]string, len(fused))
	for i, f := range fused {
		out[i] = f.ID
	}
	return out
}

// Interval is a mean difference with its 95 % interval from a paired bootstrap of 2,000 samples.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Better and Worse say whether the interval lies on one side of zero.
func (i Interval) Better() bool { return i.Low > 0 }

// Worse says whether the interval lies below zero.
func (i Interval) Worse() bool { return i.High < 0 }

// bootstrap resamples paired differences.
func bootstrap(differences []float64) Interval {
	const samples = 2000
	n := len(differences)
	if n == 0 {
		return Interval{}
	}
	means := Resample(differences, samples, rand.New(rand.NewPCG(42, 42)))
	var sum float64
	for _, d := range differences {
		sum += d
	}
	at := func(q float64) float64 { return means[min(int(math.Round(q*samples)), samples-1)] }
	return Interval{sum / float64(n), at(0.025), at(0.975)}
}

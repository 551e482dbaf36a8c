// Package calibrate records what the calibrated fusion learns from. The process for a set is:
//
//  1. Store the set, and ask each leg every question, as the gateway does.
//  2. Ask the questions again in a namespace that does not answer them, and in a store without the memories that answer them.
//  3. Compute the features of all candidates with the code that the gateway uses, also with legs lost, and write them to a file.
//
// train.py fits the model on these files. It never sees a text.
package calibrate

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

// Columns are those of a file before the features: whether the memory is relevant, and its score by rank fusion with the
// gateway's defaults, to compare with.
var Columns = append([]string{"relevant", "ranks"}, fusion.FeatureNames[:]...)

// question is a line of a file's index: one question, with the legs that answered it.
type question struct {
	Set      string `json:"set"`
	ID       string `json:"id"`
	Category string `json:"category"`
	Sort     string `json:"sort"` // answered, absent (its answer was taken out), or elsewhere (asked of another namespace)
	Legs     string `json:"legs"` // initials of those that were asked
	Relevant int    `json:"relevant"`
	Rows     int    `json:"rows"`
}

const (
	depth    = 50
	patience = 10 * time.Second
	workers  = 2
)

// every third question also loses its answers; of a set with one namespace, so many questions of others are asked.
const takenOut, foreign = 3, 150

// Recorder writes the features of sets into a folder.
type Recorder struct {
	Options eval.Options
	Process *telemetry.Process
	Log     *slog.Logger
	Folder  string
	// Progress gets a line for each set.
	Progress io.Writer
	Foreign  []eval.Query // questions of other sets
	every    bool         // record all losses of legs, not one for each question
}

// Record writes SET.f32, the rows, and SET.jsonl, their index. With judged, every loss of legs is recorded, as is needed to judge
// a model, else one for each question.
func (r *Recorder) Record(ctx context.Context, set *eval.Set, judged bool) (err error) {
	r.every = judged
	if err := os.MkdirAll(r.Folder, 0o755); err != nil {
		return err
	}
	columns, err := json.Marshal(Columns)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Folder, "columns.json"), columns, 0o644); err != nil {
		return err
	}
	out, err := newOutput(filepath.Join(r.Folder, set.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var with, without []asked
	gone := map[string]bool{}
	for i, q := range set.Queries {
		sort := "answered"
		if len(q.Grades) == 0 {
			sort = q.Stratum // of tasks
		}
		with = append(with, asked{q, sort})
		if !judged {
			continue
		}
		if i%takenOut == 0 {
			without = append(without, asked{stripped(q, q.Namespace), "absent"})
			for id := range q.Grades {
				gone[id] = true
			}
		}
		if n := len(set.Namespaces); n > 1 && i%2 == 0 {
			at := slices.Index(set.Namespaces, q.Namespace)
			with = append(with, asked{stripped(q, set.Namespaces[(at+1+i%(n-1))%n]), "elsewhere"})
		}
	}
	if judged && len(set.Namespaces) == 1 {
		for i := 0; i < min(foreign, len(r.Foreign)); i++ {
			with = append(with, asked{stripped(r.Foreign[i*len(r.Foreign)/foreign], set.Namespaces[0]), "elsewhere"})
		}
	}
	if err := r.ask(ctx, set, with, out); err != nil || len(without) == 0 {
		return err
	}
	rest := *set
	rest.Memories = slices.DeleteFunc(slices.Clone(set.Memories), func(m *triskelev1.Memory) bool { return gone[set.Documents[m.GetId()]] })
	for _, m := range rest.Memories {
		m.Links = slices.DeleteFunc(m.Links, func(l *triskelev1.Link) bool { return gone[set.Documents[l.GetTarget()]] })
	}
	return r.ask(ctx, &rest, without, out)
}

// asked is a question and how it is asked.
type asked struct {
	eval.Query
	sort string
}

// stripped returns a question that nothing in the namespace answers.
func stripped(q eval.Query, namespace string) eval.Query {
	q.Grades, q.Namespace = nil, namespace
	return q
}

// ask stores a set and asks the questions of its legs.
func (r *Recorder) ask(ctx context.Context, set *eval.Set, questions []asked, out *output) (err error) {
	system, err := eval.Open(ctx, r.Options, set, r.Process, r.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system.Close()) }()
	for at, chunk := 0, 64; at < len(questions); at += chunk {
		part := questions[at:min(at+chunk, len(questions))]
		answers, errs := make([][]fusion.List, len(part)), make([]error, len(part))
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := w; i < len(part); i += workers {
					answers[i], errs[i] = Ask(ctx, system.Legs, part[i].Query)
				}
			})
		}
		wg.Wait()
		for i, q := range part {
			if errs[i] != nil {
				return fmt.Errorf("%s: %w", q.ID, errs[i])
			}
			if err := r.write(set, q, answers[i], out); err != nil {
				return err
			}
		}
	}
	_, _ = fmt.Fprintf(r.Progress, "%s: %d questions of %d memories\n", set.Name, len(questions), len(set.Memories))
	return nil
}

// Ask searches all legs, and asks the dense leg for the scores of what the others found.
func Ask(ctx context.Context, legs map[string]triskelev1.LegServiceClient, q eval.Query) ([]fusion.List, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var lists []fusion.List
	var dense int
	var vector []float32
	found := map[string]bool{}
	for i, config := range gateway.DefaultLegs(nil) {
		resp, err := legs[config.Name].Search(ctx, &triskelev1.SearchRequest{
			Namespace: q.Namespace, Query: q.Text, Depth: depth, MarkExact: true, ReturnVector: config.Name == "dense",
		})
		if err != nil {
			return nil, err
		}
		list := fusion.List{
			Leg: config.Name, Namespace: q.Namespace, Weight: config.Weight, Trust: config.Trust * resp.GetCoverage(), Kind: resp.GetScoreKind(),
			Answered: resp.GetState() == triskelev1.LegState_LEG_STATE_OK, Coverage: resp.GetCoverage(), Attainable: resp.GetAttainable(),
			Memories: resp.GetMemories(), Terms: int(resp.GetTerms()),
			Complete: config.Name == "lexical" && len(resp.GetHits()) < depth,
		}
		for _, h := range resp.GetHits() {
			list.Hits = append(list.Hits, fusion.Hit{
				ID: h.GetId(), Score: h.GetScore(), Lent: h.GetOwnScore() < h.GetScore(), Importance: h.GetImportance(), CreatedAt: h.GetCreatedAt().AsTime(), Exact: h.GetExact(),
				Entities: int(h.GetConcepts()), Matched: h.GetMatched(),
			})
			found[h.GetId()] = true
		}
		if config.Name == "dense" {
			dense, vector = i, resp.GetVector()
		}
		lists = append(lists, list)
	}
	return lists, complete(ctx, legs["dense"], q, vector, found, &lists[dense])
}

// complete asks the dense leg for the scores of memories outside its list.
func complete(ctx context.Context, leg triskelev1.LegServiceClient, q eval.Query, vector []float32, found map[string]bool, list *fusion.List) error {
	if len(list.Hits) == 0 {
		return nil
	}
	for _, h := range list.Hits {
		delete(found, h.ID)
	}
	req := &triskelev1.ScoreByIdsRequest{Namespace: q.Namespace, Query: q.Text, Vector: vector}
	for id := range found {
		req.Ids = append(req.Ids, id)
	}
	slices.Sort(req.Ids)
	list.Complete = true
	if len(req.Ids) == 0 {
		return nil
	}
	resp, err := leg.ScoreByIds(ctx, req)
	for _, s := range resp.GetScores() {
		list.Others = append(list.Others, fusion.Scored{ID: s.GetId(), Score: s.GetScore()})
	}
	return err
}

// losses are the selections of legs that are recorded beside all of them.
var losses = [][]string{{"lexical", "dense"}, {"lexical", "graph"}, {"dense", "graph"}, {"lexical"}, {"dense"}, {"graph"}}

// write writes a question with all legs and with some lost.
func (r *Recorder) write(set *eval.Set, q asked, lists []fusion.List, out *output) error {
	if err := out.write(set, q, "ldg", lists); err != nil {
		return err
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, q.ID)
	one := int(h.Sum32() % uint32(len(losses)))
	for i, legs := range losses {
		if i != one && !(r.every && q.sort == "answered") {
			continue
		}
		initials := ""
		var left []fusion.List
		for _, list := range lists {
			if slices.Contains(legs, list.Leg) {
				initials += list.Leg[:1]
				left = append(left, list)
			}
		}
		if err := out.write(set, q, initials, left); err != nil {
			return err
		}
	}
	return nil
}

// output are the two files of a set.
type output struct {
	rows, index   *os.File
	buffered      *bufio.Writer
	lines         *json.Encoder
	indexBuffered *bufio.Writer
}

func newOutput(path string) (*output, error) {
	rows, err := os.Create(path + ".f32")
	if err != nil {
		return nil, err
	}
	index, err := os.Create(path + ".jsonl")
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	o := &output{rows: rows, index: index, buffered: bufio.NewWriterSize(rows, 1<<20), indexBuffered: bufio.NewWriter(index)}
	o.lines = json.NewEncoder(o.indexBuffered)
	return o, nil
}

func (o *output) Close() error {
	return errors.Join(o.buffered.Flush(), o.indexBuffered.Flush(), o.rows.Close(), o.index.Close())
}

func (o *output) write(set *eval.Set, q asked, legs string, lists []fusion.List) error {
	candidates := fusion.Candidates(lists)
	ranks := map[string]float64{}
	for _, f := range fusion.Fuse(lists, fusion.Options{
		Method: triskelev1.FusionMethod_FUSION_METHOD_RRF, K: fusion.DefaultK, Sort: triskelev1.SortBy_SORT_BY_IMPORTANCE, Limit: max(len(candidates), 1),
	}).Hits {
		ranks[f.ID] = f.Score
	}
	slices.SortFunc(candidates, func(a, b fusion.Candidate) int { // ties as fusion breaks them do not matter here, a fixed order does
		return slices.Compare([]byte(a.ID), []byte(b.ID))
	})
	relevant := 0
	for _, grade := range q.Grades {
		if grade > 0 {
			relevant++
		}
	}
	var word [4]byte
	put := func(x float32) {
		binary.LittleEndian.PutUint32(word[:], math.Float32bits(x))
		_, _ = o.buffered.Write(word[:]) // Flush returns the error
	}
	for _, c := range candidates {
		label := float32(0)
		if q.Grades[set.Documents[c.ID]] > 0 {
			label = 1
		}
		put(label)
		put(float32(ranks[c.ID]))
		for _, x := range c.Features {
			put(x)
		}
	}
	return o.lines.Encode(question{
		Set: set.Name, ID: q.ID, Category: q.Stratum, Sort: q.sort, Legs: legs, Relevant: relevant, Rows: len(candidates),
	})
}

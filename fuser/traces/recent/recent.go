// Package recent keeps the last recalls of a gateway in bounded memory: their times, and what each leg did. It holds
// no texts.
//
//  1. Add puts a recall among all recalls, and among the notable ones if it is degraded or failed.
//  2. A recall is slow if it takes longer than the 95th percentile, which is updated every resort recalls.
//  3. hold drops the oldest recorded spans beyond mostSpans. Recall.Trace then makes an outline from the numbers.
//  4. observe adds the recall to the history of each leg, which Live sums up.
package recent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/traces/otlp"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	most        = 2048   // recalls
	mostNotable = 256    // degraded and failed ones, and as many slow ones
	mostSpans   = 20_000 // recorded spans of all of them
	resort      = 256    // recalls between updates of what is slow
)

// Recall is a finished recall.
type Recall struct {
	ID           uint64 // of this process, from 1; set by Add
	TraceID      string // 32 lower-case hex digits
	Start        time.Time
	Took, Budget time.Duration
	Hits         int
	Degraded     string // why, in a sentence; "" if it is not
	Failed       string // gRPC code; "" if it was answered
	Legs         []Leg
	Stages       []Stage
	// Spans are the trace's spans of this process, nil if it was not sampled.
	Spans []*triskelev1.Span
}

// Leg is a leg's part in a recall.
type Leg struct {
	Name                  string
	State                 triskelev1.LegState
	Reason                string
	Start                 time.Duration // after the recall
	Budget, Spent, Queued time.Duration
	Hits                  int
	Unneeded              bool // not waited for: the recall had to fail
}

// Stage is another part of a recall.
type Stage struct {
	Name        string
	Start, Took time.Duration
}

// Ring keeps recalls. It is safe for concurrent use.
type Ring struct {
	mu      sync.Mutex
	added   uint64
	all     circle
	notable circle // degraded or failed
	slow    circle
	limit   time.Duration // slower recalls are slow: the 95th percentile at the last update, 0 before it
	spans   int
	holders []*Recall // with Spans, the oldest first
	history map[string]*history
}

// circle is the last size recalls; new ones overwrite the oldest.
type circle struct {
	recalls []*Recall
	next    int
	size    int
}

func (c *circle) add(r *Recall) {
	if len(c.recalls) < c.size {
		c.recalls = append(c.recalls, r)
		return
	}
	c.recalls[c.next] = r
	c.next = (c.next + 1) % c.size
}

// New returns a ring with nothing in it.
func New() *Ring {
	return &Ring{all: circle{size: most}, notable: circle{size: mostNotable}, slow: circle{size: mostNotable}, history: map[string]*history{}}
}

// Add adds a recall, which the ring then owns.
func (g *Ring) Add(r *Recall) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.added++
	r.ID = g.added
	g.all.add(r)
	if r.Degraded != "" || r.Failed != "" {
		g.notable.add(r)
	}
	if g.limit > 0 && r.Took > g.limit {
		g.slow.add(r)
	}
	if g.added%resort == 0 {
		times := slice.Map(g.all.recalls, func(r *Recall) time.Duration { return r.Took })
		slices.Sort(times)
		g.limit = times[len(times)*95/100]
	}
	g.hold(r)
	g.observe(r)
}

// hold drops the spans of the oldest recalls if there are too many. Their outlines stay.
func (g *Ring) hold(r *Recall) {
	if len(r.Spans) == 0 {
		return
	}
	g.spans += len(r.Spans)
	g.holders = append(g.holders, r)
	for len(g.holders) > 0 && g.spans > mostSpans {
		oldest := g.holders[0]
		g.spans -= len(oldest.Spans)
		bare := *oldest // others may be reading it
		bare.Spans = nil
		for _, c := range []*circle{&g.all, &g.notable, &g.slow} {
			if i := slices.Index(c.recalls, oldest); i >= 0 {
				c.recalls[i] = &bare
			}
		}
		g.holders = slices.Delete(g.holders, 0, 1)
	}
}

// Kind selects recalls.
type Kind string

// The kinds: every recall, degraded and failed ones, and slow ones.
const (
	All      Kind = "all"
	Degraded Kind = "degraded"
	Slow     Kind = "slow"
)

// Recalls returns the last recalls of a kind, newest first, at most limit. Do not change them.
func (g *Ring) Recalls(kind Kind, limit int) []*Recall {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.all
	switch kind {
	case Degraded:
		c = &g.notable
	case Slow:
		c = &g.slow
	}
	out := slices.Concat(c.recalls[c.next:], c.recalls[:c.next])
	slices.Reverse(out)
	return out[:min(len(out), limit)]
}

// Recall returns the recall with an id, nil if it is gone.
func (g *Ring) Recall(id uint64) *Recall {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range []*circle{&g.all, &g.notable, &g.slow} {
		if i := slices.IndexFunc(c.recalls, func(r *Recall) bool { return r.ID == id }); i >= 0 {
			return c.recalls[i]
		}
	}
	return nil
}

// service is the gateway's name in an outline.
const service = "fuser"

// Trace returns a recall's recorded spans, or else an outline of the gateway and its legs under the same names.
func (r *Recall) Trace() otlp.Trace {
	if len(r.Spans) > 0 {
		return otlp.Trace{ID: r.TraceID, Spans: r.Spans}
	}
	root := &triskelev1.Span{
		Id: r.spanID(0), Name: "search_memory", Service: service, Start: timestamppb.New(r.Start), Duration: durationpb.New(r.Took), Failed: r.Failed != "",
		Attributes: map[string]string{
			"gen_ai.operation.name": "search_memory", "gen_ai.memory.record.count": strconv.Itoa(r.Hits),
			"triskele.degraded": strconv.FormatBool(r.Degraded != ""), "triskele.budget_us": micros(r.Budget), "triskele.spent_us": micros(r.Took),
		},
	}
	out := otlp.Trace{ID: r.TraceID, Spans: []*triskelev1.Span{root}}
	child := func(name string, from, took time.Duration) *triskelev1.Span {
		span := &triskelev1.Span{
			Id: r.spanID(len(out.Spans)), ParentId: root.GetId(), Name: name, Service: service,
			Start: timestamppb.New(r.Start.Add(from)), Duration: durationpb.New(took), Attributes: map[string]string{},
		}
		out.Spans = append(out.Spans, span)
		return span
	}
	for _, l := range r.Legs {
		span := child("retrieval "+l.Name, l.Start, l.Spent)
		span.Failed = l.State == triskelev1.LegState_LEG_STATE_FAILED || l.State == triskelev1.LegState_LEG_STATE_TIMED_OUT
		for name, value := range map[string]string{
			"leg": l.Name, "state": strings.TrimPrefix(l.State.String(), "LEG_STATE_"), "reason": l.Reason, "hits": strconv.Itoa(l.Hits),
			"budget_us": micros(l.Budget), "spent_us": micros(l.Spent), "queued_us": micros(l.Queued), "unneeded": strconv.FormatBool(l.Unneeded),
		} {
			span.Attributes["triskele."+name] = value
		}
		span.Attributes["gen_ai.operation.name"], span.Attributes["gen_ai.data_source.id"] = "retrieval", l.Name
	}
	for _, s := range r.Stages {
		child(s.Name, s.Start, s.Took)
	}
	return out
}

// spanID is unique among this process's recalls.
func (r *Recall) spanID(n int) string { return fmt.Sprintf("%012x%04x", r.ID, n&0xffff) }

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

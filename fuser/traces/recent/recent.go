// Package recent remembers the last recalls of a gateway: when they were, what each leg did, how long everything took. It
// knows no text, and its memory is bounded whatever comes.
package recent

import (
	"slices"
	"sync"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	most        = 2048   // recalls
	mostNotable = 256    // degraded and failed ones, and as many slow ones
	mostSpans   = 20_000 // recorded spans of all of them
	resort      = 256    // recalls after which what is slow is worked out anew
)

// Recall is one that is over.
type Recall struct {
	ID           uint64 // of this process, from 1; set by Add
	TraceID      string // 32 lower-case hex digits
	Start        time.Time
	Took, Budget time.Duration
	Hits         int
	Degraded     string // why, in a sentence; "" if it is not
	Failed       string // gRPC code; "" if it was answered
	Remembered   bool   // an answer given before
	Legs         []Leg
	Stages       []Stage
	// Spans are those of its trace that this process recorded, nil if it was not sampled.
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
	Spare                 bool // not waited for: it made no difference
}

// Stage is something else that a recall waits for.
type Stage struct {
	Name        string
	Start, Took time.Duration
}

// Ring keeps them. It is safe for concurrent use.
type Ring struct {
	mu      sync.Mutex
	added   uint64
	all     circle
	notable circle // degraded or failed
	slow    circle
	limit   time.Duration // what takes longer is slow: 95 of 100 did not, as of the last look; 0 while too few are known
	spans   int
	holders []*Recall // with Spans, the oldest first
	history map[string]*history
}

// circle is the last so many, the oldest overwritten first.
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

// Add remembers a recall, which belongs to the ring from then on.
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
		g.limit = g.usual()
	}
	g.hold(r)
	g.observe(r)
}

// hold gives up the spans of the oldest when there are too many. What is left of such a recall is its outline.
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
		g.replace(oldest, &bare)
		g.holders = slices.Delete(g.holders, 0, 1)
	}
}

func (g *Ring) replace(old, by *Recall) {
	for _, c := range []*circle{&g.all, &g.notable, &g.slow} {
		if i := slices.Index(c.recalls, old); i >= 0 {
			c.recalls[i] = by
		}
	}
}

// usual is the time that 95 of 100 recalls took at most.
func (g *Ring) usual() time.Duration {
	times := make([]time.Duration, len(g.all.recalls))
	for i, r := range g.all.recalls {
		times[i] = r.Took
	}
	slices.Sort(times)
	return times[len(times)*95/100]
}

// Kind is a choice of recalls.
type Kind string

// The kinds: every recall, degraded and failed ones, and those slower than 95 of 100 before them.
const (
	All      Kind = "all"
	Degraded Kind = "degraded"
	Slow     Kind = "slow"
)

// Recalls returns the last recalls of a kind, newest first, at most limit. Nobody may change them.
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

// Recall returns one by its id, nil if it is not remembered any more.
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

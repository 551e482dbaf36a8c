package budget_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/budget"
)

const ms = time.Millisecond

func TestTotal(t *testing.T) {
	c := budget.DefaultConfig()
	for name, x := range map[string]struct{ deadline, requested, want time.Duration }{
		"nothing set":              {0, 0, 500 * ms},
		"deadline below default":   {20 * ms, 0, 20 * ms},
		"deadline above default":   {2 * time.Second, 0, 2 * time.Second},
		"request below deadline":   {time.Second, 50 * ms, 50 * ms},
		"request beyond deadline":  {50 * ms, time.Second, 50 * ms},
		"request without deadline": {0, 30 * ms, 30 * ms},
		"nobody gets more":         {time.Hour, time.Minute, 10 * time.Second},
	} {
		if got := c.Total(x.deadline, x.requested); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

func TestPlanKeepsAReserve(t *testing.T) {
	c := budget.DefaultConfig()
	for total, want := range map[time.Duration]struct{ legs, contents time.Duration }{
		4 * ms:           {2 * ms, 3 * ms},
		5 * ms:           {3 * ms, 4 * ms}, // the least reserve
		20 * ms:          {16 * ms, 18 * ms},
		100 * ms:         {80 * ms, 98 * ms},
		time.Second:      {950 * ms, 998 * ms}, // the greatest
		10 * time.Second: {9950 * ms, 9998 * ms},
	} {
		plan := budget.Plan{Legs: want.legs, Rerank: want.legs, Contents: want.contents, Total: total}
		if got, err := c.Plan(total, false); got != plan || err != nil {
			t.Errorf("%v: %+v, %v, want %v", total, got, err, plan)
		}
	}
	if _, err := c.Plan(3*ms, false); !errors.Is(err, budget.ErrTooSmall) {
		t.Errorf("3 ms: %v", err)
	}
}

func TestPlanKeepsTimeForReranking(t *testing.T) {
	c := budget.DefaultConfig()
	if got, err := c.Plan(100*ms, true); err != nil || got != (budget.Plan{Legs: 56 * ms, Rerank: 80 * ms, Contents: 98 * ms, Total: 100 * ms}) {
		t.Errorf("%+v, %v", got, err)
	}
	// 1.8 ms would be of no use to it.
	if got, err := c.Plan(8*ms, true); err != nil || got.Legs != 6*ms {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestInnerBudgetsNest(t *testing.T) {
	c := budget.DefaultConfig()
	legs := []budget.Leg{{Share: 1}, {Share: .5}, {Share: 1, Cap: 40 * ms}, {Share: .01}, {Share: 1, Min: 30 * ms}}
	for total := 4 * ms; total < c.Max; total += 37 * ms {
		for _, rerank := range []bool{false, true} {
			plan, err := c.Plan(total, rerank)
			if err != nil {
				t.Fatalf("%v, %v: %v", total, rerank, err)
			}
			if !(0 < plan.Legs && plan.Legs <= plan.Rerank && plan.Rerank < plan.Contents && plan.Contents < plan.Total && plan.Total == total) {
				t.Fatalf("%v, %v: %+v", total, rerank, plan)
			}
			for _, leg := range legs {
				for _, requested := range []time.Duration{0, 10 * ms, time.Minute} {
					got, tooLittle := leg.Allot(plan.Legs, requested)
					if got > plan.Legs || requested > 0 && got > requested || leg.Cap > 0 && got > leg.Cap || (tooLittle != "") != (got < max(leg.Min, budget.MinLeg)) {
						t.Fatalf("plan %+v, leg %+v asking %v: %v, %q", plan, leg, requested, got, tooLittle)
					}
				}
			}
		}
	}
}

func TestCheckShowsTheArithmetic(t *testing.T) {
	good := map[string]budget.Leg{"lexical": {Share: 1}}
	for name, x := range map[string]struct {
		change func(*budget.Config)
		legs   map[string]budget.Leg
		want   []string
	}{
		"default above maximum":  {func(c *budget.Config) { c.Default = time.Minute }, good, []string{"1m0s", "10s"}},
		"default eaten up":       {func(c *budget.Config) { c.Default = 3 * ms }, good, []string{"3ms", "2ms", "1ms"}},
		"cap above what is left": {nil, map[string]budget.Leg{"dense": {Share: 1, Cap: 10 * time.Second}}, []string{"dense", "10s", "9.95s", "50ms"}},
		"share of nothing":       {nil, map[string]budget.Leg{"graph": {}}, []string{"graph", "share 0"}},
		"too small a share":      {nil, map[string]budget.Leg{"graph": {Share: .001}}, []string{"graph", "450µs", "2ms"}},
		"share is not a number":  {nil, map[string]budget.Leg{"graph": {Share: math.NaN()}}, []string{"graph", "NaN"}},
		"needs more than it has": {nil, map[string]budget.Leg{"graph": {Share: 1, Cap: 20 * ms, Min: 30 * ms}}, []string{"graph", "450ms", "20ms", "30ms"}},
	} {
		c := budget.DefaultConfig()
		if x.change != nil {
			x.change(&c)
		}
		err := c.Check(x.legs, nil)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, part := range x.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not mention %s", name, err, part)
			}
		}
	}
	if err := budget.DefaultConfig().Check(good, nil); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for name, x := range map[string]struct {
		total  time.Duration
		rerank budget.Leg
		want   []string
	}{
		"gets nothing":           {6 * ms, budget.Leg{Share: 1}, []string{"4ms", "reranking's share would be 0.3"}},
		"needs more than it has": {500 * ms, budget.Leg{Share: 1, Min: 200 * ms}, []string{"reranker", "135ms", "200ms"}},
		"cap above what is left": {500 * ms, budget.Leg{Share: 1, Cap: 10 * time.Second}, []string{"reranker", "10s", "9.95s"}},
		"fits":                   {500 * ms, budget.Leg{Share: 1, Cap: 100 * ms, Min: 10 * ms}, nil},
	} {
		c := budget.DefaultConfig()
		c.Default = x.total
		err := c.Check(good, &x.rerank)
		if (err == nil) != (x.want == nil) {
			t.Errorf("reranker that %s: %v", name, err)
		}
		for _, part := range x.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("reranker that %s: %q does not mention %s", name, err, part)
			}
		}
	}
}

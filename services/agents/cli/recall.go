package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/briefing"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/internal/when"
)

type recallCmd struct {
	Query        string             `arg:"" help:"What to look for, or - to read it from standard input."`
	Namespace    []string           `short:"n" help:"Namespaces to search." default:"default" env:"TRISKELE_NAMESPACE"`
	Limit        *int32             `help:"Maximum number of memories; by default 10, or 50 with --max-tokens."`
	MaxTokens    int                `help:"Print the best memories as text for a model's prompt, with at most this many estimated tokens and without near-duplicates." placeholder:"TOKENS"`
	Sort         string             `help:"Order: relevance, importance or recency." enum:"relevance,importance,recency" default:"relevance" group:"Ranking:"`
	Filter       filterFlags        `embed:""`
	AsOf         when.Moment        `help:"Take times in the query, such as last week, and the graph's facts as of then instead of now: a date (UTC), a time, or an age such as 36h, 7d, 2w." placeholder:"WHEN" group:"Ranking:"`
	Budget       time.Duration      `help:"Time budget of the recall; late legs are left out." default:"500ms" group:"Legs and time:"`
	NoLeg        []string           `help:"Legs to leave out." placeholder:"LEG" group:"Legs and time:"`
	AtLeast      []string           `help:"Wait, within the budget, until the indexes include the write that returned this revision token." placeholder:"TOKEN" group:"Legs and time:"`
	Require      []string           `help:"Required legs: the call fails without their answers." placeholder:"LEG" group:"Legs and time:"`
	OnError      string             `help:"What to do when a leg fails: answer without it, or fail; the namespace's policy if not given." enum:",answer,fail" default:"" placeholder:"answer|fail" group:"Legs and time:"`
	OnTimeout    string             `help:"What to do when a leg is late: answer without it, or fail; the namespace's policy if not given." enum:",answer,fail" default:"" placeholder:"answer|fail" group:"Legs and time:"`
	Weight       map[string]float64 `help:"Weight of a leg." placeholder:"LEG=WEIGHT" group:"Ranking:"`
	Quota        map[string]int32   `help:"Minimum number of memories from a leg." placeholder:"LEG=N" group:"Ranking:"`
	Fusion       gateway.FusionName `help:"How to merge the legs' lists: calibrated, rrf, convex or dbsf; the namespace's policy or the gateway's method if not given." enum:",calibrated,rrf,convex,dbsf" default:"" placeholder:"METHOD" group:"Ranking:"`
	All          bool               `help:"Also print memories that are hardly relevant." group:"Ranking:"`
	K            *float64           `help:"Rank constant of rrf, 0 to 1000." group:"Ranking:"`
	Alpha        *float64           `help:"Weight of the dense leg in convex, 0 to 1; the lexical leg gets the rest." group:"Ranking:"`
	Rerank       *bool              `help:"Whether the gateway's reranker reads the best memories again. If not given, as the namespace's policy says, else if one is in the gateway." negatable:"" group:"Ranking:"`
	Diversity    float64            `help:"Leave out a memory whose text has at least this similarity to a better one's, 0 (off) to 1; about 0.8 finds near-duplicates." placeholder:"SIMILARITY" group:"Ranking:"`
	Surroundings int32              `help:"Also show up to N memories on each side of a found one in its thread, as context." placeholder:"N"`
	IDsOnly      bool               `name:"ids-only" help:"Leave the contents out."`
	Explain      bool               `help:"Say why each memory is where it is, and how its score was computed."`
	Trace        bool               `help:"Show where this call spent its time."`
	JSON         bool               `help:"Print the server's answer as JSON."`
	gatewayFlags
}

// leftOut is how many memories below the cut are counted and named.
const leftOut = 3

// missPolicy returns a policy by its name. No name is none.
func missPolicy(name string) triskelev1.MissPolicy {
	return triskelev1.MissPolicy(triskelev1.MissPolicy_value["MISS_POLICY_"+strings.ToUpper(name)])
}

func (c *recallCmd) Validate() error {
	switch {
	case c.Budget <= 0:
		return fmt.Errorf("--budget must be more than 0")
	case c.MaxTokens < 0:
		return fmt.Errorf("--max-tokens must be 1 or more")
	case c.MaxTokens > 0 && (c.IDsOnly || c.Trace):
		return fmt.Errorf("--max-tokens prints text only: not with --ids-only or --trace")
	case c.K != nil && c.Fusion != "rrf":
		return fmt.Errorf("--k belongs to --fusion rrf")
	case c.Alpha != nil && c.Fusion != "convex":
		return fmt.Errorf("--alpha belongs to --fusion convex")
	}
	return nil
}

func (c *recallCmd) request(query string, now time.Time) *triskelev1.RecallRequest {
	limit := int32(10)
	switch {
	case c.Limit != nil:
		limit = *c.Limit
	case c.MaxTokens > 0:
		limit = 50
	}
	req := &triskelev1.RecallRequest{
		Namespaces: c.Namespace, Query: query, Limit: &limit, Filter: c.Filter.filter(now), AsOf: c.AsOf.Ago(now), Budget: durationpb.New(c.Budget),
		SortBy:  triskelev1.SortBy(triskelev1.SortBy_value["SORT_BY_"+strings.ToUpper(c.Sort)]),
		Fusion:  &triskelev1.Fusion{K: c.K, Alpha: c.Alpha, Method: c.Fusion.Method()},
		OnError: missPolicy(c.OnError), OnTimeout: missPolicy(c.OnTimeout),
		AtLeast: c.AtLeast, RequiredLegs: c.Require, Surroundings: c.Surroundings, IdsOnly: c.IDsOnly, ReturnSpans: c.Trace,
		Explain: c.Explain || !c.JSON, // the table names the legs that found a memory
		Legs:    map[string]*triskelev1.LegOptions{},
	}
	if !c.All && c.Sort != "recency" {
		req.MinScore, req.ReturnLeftOut = client.Relevant(), leftOut
	}
	req.Rerank = client.Reread()
	req.Rerank.Enabled = c.Rerank
	if c.Diversity != 0 {
		req.Diversity = &triskelev1.Diversity{Resemblance: c.Diversity}
	}
	options := func(leg string) *triskelev1.LegOptions {
		if req.Legs[leg] == nil {
			req.Legs[leg] = &triskelev1.LegOptions{}
		}
		return req.Legs[leg]
	}
	for leg, weight := range c.Weight {
		options(leg).Weight = &weight
	}
	for leg, quota := range c.Quota {
		options(leg).Quota = &quota
	}
	for _, leg := range c.NoLeg {
		options(leg).Enabled = new(bool)
	}
	return req
}

func (c *recallCmd) Run(ctx context.Context, env *Env) error {
	query, err := env.text(ctx, c.Query)
	if err != nil {
		return err
	}
	return c.with(ctx, func(s *session) error {
		var resp *triskelev1.RecallResponse
		call := func(ctx context.Context) (_ []*triskelev1.Span, err error) {
			resp, err = s.Recalls.Recall(ctx, c.request(query, env.Now()))
			return resp.GetSpans(), err
		}
		if !c.Trace {
			_, err = call(ctx)
		} else if spans, failed := telemetry.Trace(ctx, s.recorder, "triskele recall", call); failed != nil {
			err = failed
		} else {
			resp.Spans = spans
		}
		if err != nil {
			return err
		}
		if c.MaxTokens > 0 {
			brief := briefing.New(resp, briefing.Options{MaxTokens: c.MaxTokens, IDs: c.Explain})
			if brief.Omitted > 0 && len(brief.Entries) == 0 {
				return fmt.Errorf("none of the %s found fits into --max-tokens %d", render.Count(int64(brief.Omitted), "memory", "memories"), c.MaxTokens)
			}
			if !c.JSON {
				return env.print(brief.Text)
			}
			resp.Hits = slice.Map(brief.Entries, func(entry briefing.Entry) *triskelev1.Hit { return entry.Hit })
		}
		if c.JSON {
			return env.show(true, resp, "")
		}
		style := env.style()
		text := style.Recall(resp, render.RecallOptions{Explain: c.Explain})
		if c.Trace {
			text += "\ntrace " + resp.GetTraceId() + "\n" + style.Waterfall(resp.GetSpans())
		}
		return env.print(text)
	})
}

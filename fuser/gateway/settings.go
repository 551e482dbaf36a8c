package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"buf.build/go/protovalidate"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// settings are what a recall in one namespace goes by: the gateway's configuration, over it the policies of the namespace
// from the outermost to its own, over those the request.
type settings struct {
	method   triskelev1.FusionMethod
	k        float64
	alpha    *float64
	complete bool                // ask for missing scores if the method uses them
	bonus    float64             // for an exact match
	quorum   int                 // of legs that suffices if the others make no difference; 0 waits for all
	recency  *triskelev1.Recency // nil for none
	boost    *triskelev1.EntityBoost
	rerank   rerankSettings
	alike    float64       // how alike two texts must be for one of them to be left out; 0 leaves none out
	legs     []legSettings // as Config.Legs
}

type rerankSettings struct {
	on       bool
	top      int
	deadline time.Duration // 0 if there is none
}

type legSettings struct {
	weight              float64
	trust               float64
	depth               int
	deadline            time.Duration // 0 if there is none
	minScore            *float64
	scorer              triskelev1.Scorer    // how the lexical leg ranks
	traversal           triskelev1.Traversal // how the graph leg searches
	quota               int
	required            bool
	failError, failLate bool   // fail the call when the leg fails, and when it is late
	off                 string // why it is not asked; "" if it is
}

// overrides are the settings that a policy or a request brings. Adding a setting means adding a field of the same name to
// RecallPolicy and RecallRequest, its getter here, and what it changes in apply.
type overrides interface {
	GetFusion() *triskelev1.Fusion
	GetLegs() map[string]*triskelev1.LegOptions
	GetRequiredLegs() []string
	GetOnError() triskelev1.MissPolicy
	GetOnTimeout() triskelev1.MissPolicy
	GetQuorum() int32
	GetRecency() *triskelev1.Recency
	GetEntityBoost() *triskelev1.EntityBoost
	GetRerank() *triskelev1.Rerank
	GetDiversity() *triskelev1.Diversity
}

var (
	_ overrides = (*triskelev1.RecallPolicy)(nil)
	_ overrides = (*triskelev1.RecallRequest)(nil)
)

// defaultMaxTerms bounds how many entities of a query raise a memory.
const defaultMaxTerms = 3

const unset = triskelev1.MissPolicy_MISS_POLICY_UNSPECIFIED

func (c Config) settings() settings {
	s := settings{
		method: methods[c.Fusion.Method], k: c.Fusion.K, alpha: c.Fusion.Alpha, complete: true,
		rerank: rerankSettings{top: c.Rerank.Top}, legs: make([]legSettings, len(c.Legs)),
	}
	for i, leg := range c.Legs {
		s.legs[i] = legSettings{weight: leg.Weight, trust: leg.Trust, depth: leg.Depth, quota: leg.Quota}
	}
	return s
}

// apply returns the settings as o changes them. by says whose they are.
func (g *Gateway) apply(s settings, o overrides, by string) settings {
	if f := o.GetFusion(); f != nil {
		if f.GetMethod() != triskelev1.FusionMethod_FUSION_METHOD_UNSPECIFIED {
			s.method = f.GetMethod()
		}
		if f.K != nil {
			s.k = f.GetK()
		}
		if f.Alpha != nil {
			s.alpha = f.Alpha
		}
		if f.CompleteScores != nil {
			s.complete = f.GetCompleteScores()
		}
		if f.ExactBonus != nil {
			s.bonus = f.GetExactBonus()
		}
	}
	if o.GetQuorum() > 0 {
		s.quorum = int(o.GetQuorum())
	}
	if o.GetRecency() != nil {
		s.recency = o.GetRecency()
	}
	if o.GetEntityBoost() != nil {
		s.boost = o.GetEntityBoost()
	}
	if with := o.GetRerank(); with != nil {
		s.rerank.apply(with)
	}
	if o.GetDiversity() != nil {
		s.alike = o.GetDiversity().GetResemblance()
	}
	onError, onTimeout := o.GetOnError(), o.GetOnTimeout()
	if len(o.GetLegs()) == 0 && len(o.GetRequiredLegs()) == 0 && onError == unset && onTimeout == unset {
		return s
	}
	s.legs = slices.Clone(s.legs)
	for i := range s.legs {
		leg, name := &s.legs[i], g.config.Legs[i].Name
		if onError != unset {
			leg.failError = onError == triskelev1.MissPolicy_MISS_POLICY_FAIL
		}
		if onTimeout != unset {
			leg.failLate = onTimeout == triskelev1.MissPolicy_MISS_POLICY_FAIL
		}
		leg.required = leg.required || slices.Contains(o.GetRequiredLegs(), name)
		if with := o.GetLegs()[name]; with != nil {
			leg.apply(with, by)
		}
	}
	return s
}

func (s *rerankSettings) apply(o *triskelev1.Rerank) {
	if o.Enabled != nil {
		s.on = o.GetEnabled()
	}
	if o.Top != nil {
		s.top = int(o.GetTop())
	}
	if o.GetDeadline() != nil {
		s.deadline = o.GetDeadline().AsDuration()
	}
}

func (s *legSettings) apply(o *triskelev1.LegOptions, by string) {
	if o.Enabled != nil {
		if s.off = ""; !o.GetEnabled() {
			s.off = "disabled by " + by
		}
	}
	if o.Weight != nil {
		s.weight = o.GetWeight()
	}
	if o.Trust != nil {
		s.trust = o.GetTrust()
	}
	if o.Depth != nil {
		s.depth = int(o.GetDepth())
	}
	if o.GetDeadline() != nil {
		s.deadline = o.GetDeadline().AsDuration()
	}
	if o.MinScore != nil {
		s.minScore = o.MinScore
	}
	if o.GetScorer() != triskelev1.Scorer_SCORER_UNSPECIFIED {
		s.scorer = o.GetScorer()
	}
	if o.GetTraversal() != triskelev1.Traversal_TRAVERSAL_UNSPECIFIED {
		s.traversal = o.GetTraversal()
	}
	if o.Quota != nil {
		s.quota = int(o.GetQuota())
	}
}

// resolvePolicies works the policies out once, each on top of those of the namespaces above it.
func (g *Gateway) resolvePolicies() error {
	g.policies = map[string]settings{"": g.config.settings()}
	for _, namespace := range slices.Sorted(maps.Keys(g.config.Policies)) { // a namespace follows those above it
		policy := g.config.Policies[namespace]
		if err := protovalidate.Validate(policy); err != nil {
			return fmt.Errorf("policy of namespace %q: %w", namespace, err)
		}
		if err := g.checkNames(policy); err != nil {
			return fmt.Errorf("policy of namespace %q: %w", namespace, err)
		}
		g.policies[namespace] = g.apply(g.policyOf(namespace), policy, "the policy of the namespace")
	}
	return nil
}

// policyOf returns the settings of the nearest namespace above, or the namespace itself, that has a policy.
func (g *Gateway) policyOf(namespace string) settings {
	for {
		if s, ok := g.policies[namespace]; ok {
			return s
		}
		namespace = namespace[:max(strings.LastIndexByte(namespace, '/'), 0)]
	}
}

// resolve returns the settings of each of a request's namespaces. What is merged into one order is merged by those of the
// first.
func (g *Gateway) resolve(req *triskelev1.RecallRequest) ([]settings, error) {
	if err := g.checkNames(req); err != nil {
		return nil, err
	}
	all := make([]settings, len(req.GetNamespaces()))
	for i, namespace := range req.GetNamespaces() {
		all[i] = g.apply(g.policyOf(namespace), req, "the request")
		if !slices.ContainsFunc(all[i].legs, func(leg legSettings) bool { return leg.off == "" }) {
			return nil, rpc.Invalid("legs", "must leave at least one leg enabled")
		}
	}
	return all, nil
}

// checkNames refuses what is not configured: legs, and reranking.
func (g *Gateway) checkNames(o overrides) error {
	if o.GetRerank().GetEnabled() && g.config.Rerank.Reranker == nil {
		return rpc.Invalid("rerank.enabled", "must not be true: this gateway has no reranker")
	}
	for name := range o.GetLegs() {
		if !g.hasLeg(name) {
			return rpc.Invalid(fmt.Sprintf("legs[%q]", name), "must be one of: "+g.legNames())
		}
	}
	for i, name := range o.GetRequiredLegs() {
		if !g.hasLeg(name) {
			return rpc.Invalid(fmt.Sprintf("required_legs[%d]", i), "must be one of: "+g.legNames())
		}
	}
	return nil
}

// legNames lists the configured legs for an error message.
func (g *Gateway) legNames() string {
	names := make([]string, len(g.config.Legs))
	for i, leg := range g.config.Legs {
		names[i] = leg.Name
	}
	return strings.Join(names, ", ")
}

func (g *Gateway) hasLeg(name string) bool {
	return slices.ContainsFunc(g.config.Legs, func(leg Leg) bool { return leg.Name == name })
}

// completing says whether missing scores are to be asked for.
func (s settings) completing() bool {
	return s.complete && s.method == triskelev1.FusionMethod_FUSION_METHOD_CONVEX
}

// fusion returns how to merge for a request made at a time.
func (s settings) fusion(req *triskelev1.RecallRequest, legs []Leg, now time.Time) fusion.Options {
	options := fusion.Options{Method: s.method, K: s.k, Alpha: s.alpha, Sort: req.GetSortBy(), ExactBonus: s.bonus, Limit: defaultLimit}
	if req.Limit != nil {
		options.Limit = int(req.GetLimit())
	}
	if s.recency != nil {
		options.Recency = fusion.Recency{Weight: s.recency.GetWeight(), HalfLife: s.recency.GetHalfLife().AsDuration(), Now: now}
	}
	if s.boost != nil {
		options.Boost = fusion.EntityBoost{Weight: s.boost.GetWeight(), MaxTerms: defaultMaxTerms}
		if s.boost.MaxTerms != nil {
			options.Boost.MaxTerms = int(s.boost.GetMaxTerms())
		}
	}
	for i, leg := range s.legs {
		if leg.quota > 0 {
			options.Quotas = append(options.Quotas, fusion.Quota{Leg: legs[i].Name, N: leg.quota})
		}
	}
	switch {
	case s.alike > 0:
		options.Spare = maxSpare
	case s.reranks(req):
		options.Spare = max(s.rerank.top-options.Limit, 0)
	}
	return options
}

// reranks says whether a reranker can do something about a request.
func (s settings) reranks(req *triskelev1.RecallRequest) bool {
	return s.rerank.on && req.GetQuery() != "" && req.GetTextOf() == "" && req.GetSortBy() != triskelev1.SortBy_SORT_BY_RECENCY
}

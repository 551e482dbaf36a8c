package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// settings hold for a recall in one namespace. They start as the gateway's configuration. The policies of the namespace change
// them, from the outermost namespace to its own, and then the request.
type settings struct {
	method     triskelev1.FusionMethod
	k          float64
	alpha      *float64
	complete   bool                // ask for missing scores if the method uses them
	bonus      float64             // for an exact match
	recency    *triskelev1.Recency // nil for none
	boost      *triskelev1.EntityBoost
	times      *triskelev1.TimePreference
	least      *triskelev1.MinScore // nil for none
	rerank     rerankSettings
	similarity float64       // of two texts from which on one of them is left out; 0 leaves none out
	legs       []legSettings // as Config.Legs
}

type rerankSettings struct {
	on       bool
	decided  bool // by a policy or the request; else if_local may
	wish     bool // only by if_local: an answer without it is complete
	top      int
	deadline time.Duration // 0 for none
}

type legSettings struct {
	weight              float64
	trust               float64
	depth               int
	deadline            time.Duration // 0 for none
	minScore            *float64
	scorer              triskelev1.Scorer    // of the lexical leg
	traversal           triskelev1.Traversal // of the graph leg
	borrow              *float64             // from neighbours in a thread; nil for the leg's own
	quota               int
	required            bool
	failError, failLate bool   // fail the recall if the leg fails, or if it is late
	off                 string // why the leg is not searched; "" if it is
}

// overrides are the settings of a policy or a request. To add a setting, add a field of the same name to RecallPolicy and
// RecallRequest, its getter here, and its effect to apply.
type overrides interface {
	GetFusion() *triskelev1.Fusion
	GetLegs() map[string]*triskelev1.LegOptions
	GetRequiredLegs() []string
	GetOnError() triskelev1.MissPolicy
	GetOnTimeout() triskelev1.MissPolicy
	GetRecency() *triskelev1.Recency
	GetEntityBoost() *triskelev1.EntityBoost
	GetMinScore() *triskelev1.MinScore
	GetRerank() *triskelev1.Rerank
	GetDiversity() *triskelev1.Diversity
	GetTimePreference() *triskelev1.TimePreference
}

var (
	_ overrides = (*triskelev1.RecallPolicy)(nil)
	_ overrides = (*triskelev1.RecallRequest)(nil)
)

// defaultMaxTerms is the most entities of a query that raise a memory.
const defaultMaxTerms = 3

const unset = triskelev1.MissPolicy_MISS_POLICY_UNSPECIFIED

func (c Config) settings() settings {
	return settings{
		method: c.Fusion.Method.Method(), k: c.Fusion.K, alpha: c.Fusion.Alpha, complete: true,
		times:  &triskelev1.TimePreference{Weight: defaultTimeWeight},
		rerank: rerankSettings{top: c.Rerank.Top}, legs: slice.Map(c.Legs, func(leg Leg) legSettings {
			return legSettings{weight: leg.Weight, trust: leg.Trust, depth: leg.Depth, quota: leg.Quota}
		}),
	}
}

func override[T any](value, o *T) {
	if o != nil {
		*value = *o
	}
}

func overrideInt(value *int, o *int32) {
	if o != nil {
		*value = int(*o)
	}
}

func overrideDuration(value *time.Duration, o *durationpb.Duration) {
	if o != nil {
		*value = o.AsDuration()
	}
}

// apply returns the settings as o changes them. by names o in reasons.
func (g *Gateway) apply(s settings, o overrides, by string) settings {
	if f := o.GetFusion(); f != nil {
		s.method = cmp.Or(f.GetMethod(), s.method)
		s.alpha = cmp.Or(f.Alpha, s.alpha)
		override(&s.k, f.K)
		override(&s.complete, f.CompleteScores)
		override(&s.bonus, f.ExactBonus)
	}
	s.recency = cmp.Or(o.GetRecency(), s.recency)
	s.boost = cmp.Or(o.GetEntityBoost(), s.boost)
	s.times = cmp.Or(o.GetTimePreference(), s.times)
	s.least = cmp.Or(o.GetMinScore(), s.least)
	if with := o.GetRerank(); with != nil {
		if with.Enabled != nil {
			s.rerank.on, s.rerank.decided, s.rerank.wish = with.GetEnabled(), true, false
		}
		if with.GetIfLocal() && !s.rerank.decided {
			s.rerank.on, s.rerank.wish = g.config.Rerank.Local, true
		}
		overrideInt(&s.rerank.top, with.Top)
		overrideDuration(&s.rerank.deadline, with.GetDeadline())
	}
	if o.GetDiversity() != nil {
		s.similarity = o.GetDiversity().GetResemblance()
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

func (s *legSettings) apply(o *triskelev1.LegOptions, by string) {
	if o.Enabled != nil {
		if s.off = ""; !o.GetEnabled() {
			s.off = "disabled by " + by
		}
	}
	override(&s.weight, o.Weight)
	override(&s.trust, o.Trust)
	overrideInt(&s.depth, o.Depth)
	overrideInt(&s.quota, o.Quota)
	overrideDuration(&s.deadline, o.GetDeadline())
	s.minScore = cmp.Or(o.MinScore, s.minScore)
	s.scorer = cmp.Or(o.GetScorer(), s.scorer)
	s.traversal = cmp.Or(o.GetTraversal(), s.traversal)
	s.borrow = cmp.Or(o.Borrow, s.borrow)
}

// resolvePolicies computes the settings of each namespace with a policy, on top of those of the namespaces above it.
func (g *Gateway) resolvePolicies() error {
	g.policies = map[string]settings{"": g.config.settings()}
	for _, namespace := range slices.Sorted(maps.Keys(g.config.Policies)) { // a namespace follows those above it
		policy := g.config.Policies[namespace]
		resolved := g.apply(g.policyOf(namespace), policy, "the policy of the namespace")
		var noNamespace error
		if namespace != "" && protovalidate.Validate(&triskelev1.RecallServiceGetIndexStatusRequest{Namespace: namespace}) != nil {
			noNamespace = errors.New("is no namespace; a policy also holds for the namespaces below its own")
		}
		if err := cmp.Or(noNamespace, rpc.FromViolations("", protovalidate.Validate(policy)), g.checkNames(policy), g.checkLegs(resolved)); err != nil {
			return fmt.Errorf("policy of namespace %q: %s", namespace, status.Convert(err).Message())
		}
		g.policies[namespace] = resolved
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

// resolve returns the settings of each of a request's namespaces. The settings of the first hold for fusion and all later
// stages.
func (g *Gateway) resolve(req *triskelev1.RecallRequest) ([]settings, error) {
	if err := g.checkNames(req); err != nil {
		return nil, err
	}
	all := make([]settings, len(req.GetNamespaces()))
	for i, namespace := range req.GetNamespaces() {
		all[i] = g.apply(g.policyOf(namespace), req, "the request")
		if err := g.checkLegs(all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkLegs refuses settings that leave no leg to search, or not one that is required.
func (g *Gateway) checkLegs(s settings) error {
	searched := false
	for i, leg := range s.legs {
		if leg.required && leg.off != "" {
			return rpc.Invalid("required_legs", fmt.Sprintf("must not have %s, which is %s", g.config.Legs[i].Name, leg.off))
		}
		searched = searched || leg.off == ""
	}
	if !searched {
		return rpc.Invalid("legs", "must leave at least one leg enabled")
	}
	return nil
}

// checkNames refuses overrides of legs and of a reranker that are not configured.
func (g *Gateway) checkNames(o overrides) error {
	if o.GetRerank().GetEnabled() && g.config.Rerank.Reranker == nil {
		return rpc.Invalid("rerank.enabled", "must not be true: this gateway has no reranker")
	}
	for name := range o.GetLegs() {
		if !slices.Contains(g.names, name) {
			return rpc.Invalid(fmt.Sprintf("legs[%q]", name), "must be one of: "+strings.Join(g.names, ", "))
		}
	}
	for i, name := range o.GetRequiredLegs() {
		if !slices.Contains(g.names, name) {
			return rpc.Invalid(fmt.Sprintf("required_legs[%d]", i), "must be one of: "+strings.Join(g.names, ", "))
		}
	}
	return nil
}

const calibrated = triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED

// completing says whether the recall asks for missing scores.
func (s settings) completing() bool {
	return s.complete && s.method == triskelev1.FusionMethod_FUSION_METHOD_CONVEX || s.method == calibrated
}

// fusion returns the options of a merge for a request made at a time.
func (s settings) fusion(req *triskelev1.RecallRequest, legs []Leg, now time.Time) fusion.Options {
	options := fusion.Options{Method: s.method, K: s.k, Alpha: s.alpha, Sort: req.GetSortBy(), ExactBonus: s.bonus, Limit: defaultLimit}
	overrideInt(&options.Limit, req.Limit)
	if s.recency != nil {
		options.Recency = fusion.Recency{Weight: s.recency.GetWeight(), HalfLife: s.recency.GetHalfLife().AsDuration(), Now: now}
	}
	if s.boost != nil {
		options.Boost = fusion.EntityBoost{Weight: s.boost.GetWeight(), MaxTerms: defaultMaxTerms}
		overrideInt(&options.Boost.MaxTerms, s.boost.MaxTerms)
	}
	for i, leg := range s.legs {
		if leg.quota > 0 {
			options.Quotas = append(options.Quotas, fusion.Quota{Leg: legs[i].Name, N: leg.quota})
		}
	}
	switch {
	case s.similarity > 0, s.least != nil && req.GetSortBy() == triskelev1.SortBy_SORT_BY_RECENCY: // the newest may score too little
		options.Reserve = maxReserve
	case s.reranks(req):
		options.Reserve = max(s.rerank.top-options.Limit, 0)
	}
	return options
}

// reranks says whether a request is reranked, as far as can be said before the search.
func (s settings) reranks(req *triskelev1.RecallRequest) bool {
	return s.rerank.on && req.GetQuery() != "" && req.GetTextOf() == "" && req.GetSortBy() != triskelev1.SortBy_SORT_BY_RECENCY
}

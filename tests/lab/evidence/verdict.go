package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/tests/lab/stats"
)

// Verdict is what the rule says of a hypothesis.
type Verdict struct {
	Hypothesis string `json:"hypothesis"`
	Baseline   string `json:"baseline"`
	Candidate  string `json:"candidate"` // the best on the tuning halves
	Adopted    bool   `json:"adopted"`
	Why        string `json:"why"`
	// Policy is what the gateway is to do by default, if the hypothesis decides that: the candidate's or the baseline's.
	Policy  string                            `json:"policy,omitempty"` // JSON of a RecallPolicy
	Sets    map[string]*Difference            `json:"sets"`
	Strata  map[string]map[string]*Difference `json:"strata"`  // by set
	Without map[string]map[string]*Difference `json:"without"` // by lost leg, then set
}

// half picks a set's queries: those to choose by, or those to judge by.
func half(set *eval.Set, values []eval.Metrics, metric string, tuning bool) []float64 {
	var out []float64
	for i, q := range set.Queries {
		if stats.Tuning(set.Name, q.ID) == tuning {
			out = append(out, values[i].Value(metric))
		}
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// tuning is what the tuning halves say of a cell: means by set, of the whole system and of what is left when one of the
// rule's legs is lost.
type tuning struct {
	whole []float64
	lost  map[string][]float64 // by leg
}

// tuned measures a cell on the tuning halves. It has to be one that a hypothesis names.
func (s *Study) tuned(c cell) tuning {
	if known, ok := s.tunings[c.name]; ok {
		return known
	}
	over := func(name string) []float64 {
		means := make([]float64, len(s.sets))
		for i, set := range s.sets {
			means[i] = mean(half(set, s.runs[run{set.Name, name}], s.Plan.Metric, true))
		}
		return means
	}
	t := tuning{whole: over(c.name), lost: map[string][]float64{}}
	for _, leg := range s.Plan.Rule.Without {
		if c.left(leg) {
			t.lost[leg] = over(c.without(leg).name)
		}
	}
	s.tunings[c.name] = t
	return t
}

// value is what cells are chosen by: the mean of the sets, of which the whole system makes up one half and what is left
// when a leg is lost the other.
func (t tuning) value() float64 {
	if len(t.lost) == 0 {
		return mean(t.whole)
	}
	sum := 0.
	for _, leg := range slices.Sorted(maps.Keys(t.lost)) {
		sum += mean(t.lost[leg])
	}
	return (mean(t.whole) + sum/float64(len(t.lost))) / 2
}

// within says whether a candidate falls behind the baseline nowhere by more than the tolerance.
func (t tuning) within(tolerance float64, baseline tuning) bool {
	for i := range t.whole {
		if t.whole[i] < baseline.whole[i]-tolerance {
			return false
		}
		for leg, lost := range t.lost {
			if before, ok := baseline.lost[leg]; ok && lost[i] < before[i]-tolerance {
				return false
			}
		}
	}
	return true
}

// best is a hypothesis's candidate: of all cells that stay within the tolerance the best on the tuning halves, the first
// of equals.
func (s *Study) best(h Hypothesis) cell {
	var best cell
	highest, found := -1., false
	baseline := s.tuned(s.cell(h.Baseline))
	for _, c := range s.cells {
		if !slices.Contains(h.Candidates, c.of) {
			continue
		}
		t := s.tuned(c)
		within := t.within(s.Plan.Rule.Tolerance, baseline)
		if within == found && t.value() > highest || within && !found {
			best, highest, found = c, t.value(), within
		}
	}
	return best
}

// Verdicts judges every hypothesis by the plan's rule. Comparisons on sets are one family for Holm's correction, over the
// whole plan; the strata of a hypothesis are one, and so are its comparisons with a leg lost.
func (s *Study) Verdicts() []Verdict {
	verdicts := make([]Verdict, len(s.Plan.Hypotheses))
	var family []*Difference
	for i, h := range s.Plan.Hypotheses {
		v := Verdict{
			Hypothesis: h.Name, Baseline: h.Baseline, Candidate: s.best(h).name,
			Sets: map[string]*Difference{}, Strata: map[string]map[string]*Difference{}, Without: map[string]map[string]*Difference{},
		}
		var strata, without []*Difference
		for _, set := range s.sets {
			d := s.difference(set, v.Baseline, v.Candidate)
			v.Sets[set.Name] = d
			family = append(family, d)
			v.Strata[set.Name] = s.strata(set, v.Baseline, v.Candidate)
			for _, name := range slices.Sorted(maps.Keys(v.Strata[set.Name])) {
				strata = append(strata, v.Strata[set.Name][name])
			}
		}
		for _, leg := range s.Plan.Rule.Without {
			base, candidate := s.cell(v.Baseline), s.cell(v.Candidate)
			if !base.left(leg) || !candidate.left(leg) {
				continue
			}
			v.Without[leg] = map[string]*Difference{}
			for _, set := range s.sets {
				d := s.difference(set, base.without(leg).name, candidate.without(leg).name)
				v.Without[leg][set.Name] = d
				without = append(without, d)
			}
		}
		holm(strata)
		holm(without)
		verdicts[i] = v
	}
	holm(family)
	for i, h := range s.Plan.Hypotheses {
		verdicts[i].judge(s.Plan.Rule)
		if h.Decides {
			chosen := s.cell(h.Baseline)
			if verdicts[i].Adopted {
				chosen = s.cell(verdicts[i].Candidate)
			}
			verdicts[i].Policy = policyText(chosen)
		}
	}
	return verdicts
}

// policyText is a cell's policy on one line, without protojson's random blanks.
func policyText(c cell) string {
	text, err := protojson.Marshal(c.policy)
	if err != nil {
		panic(err) // it was parsed from JSON
	}
	return strings.ReplaceAll(string(text), " ", "")
}

func (s *Study) difference(set *eval.Set, a, b string) *Difference {
	pair := func(name string) []float64 { return half(set, s.runs[run{set.Name, name}], s.Plan.Metric, false) }
	d := compare(pair(a), pair(b), s.Plan.Rule.Level)
	return &d
}

// strata compares within each category that has at least minStratum queries to judge by.
func (s *Study) strata(set *eval.Set, a, b string) map[string]*Difference {
	const minStratum = 10 // a bootstrap of fewer says nothing
	pairs := map[string][2][]float64{}
	for i, q := range set.Queries {
		if q.Stratum != "" && !stats.Tuning(set.Name, q.ID) {
			p := pairs[q.Stratum]
			p[0] = append(p[0], s.runs[run{set.Name, a}][i].Value(s.Plan.Metric))
			p[1] = append(p[1], s.runs[run{set.Name, b}][i].Value(s.Plan.Metric))
			pairs[q.Stratum] = p
		}
	}
	out := map[string]*Difference{}
	for name, p := range pairs {
		if len(p[0]) >= minStratum {
			d := compare(p[0], p[1], s.Plan.Rule.Level)
			out[name] = &d
		}
	}
	return out
}

// judge applies the rule and says why it came out so.
func (v *Verdict) judge(rule Rule) {
	var better, worse []string
	for _, set := range slices.Sorted(maps.Keys(v.Sets)) {
		switch d := v.Sets[set]; {
		case d.Better(rule.Level):
			better = append(better, set)
		case d.Worse(rule.Level):
			worse = append(worse, set)
		}
		for _, stratum := range slices.Sorted(maps.Keys(v.Strata[set])) {
			if v.Strata[set][stratum].Worse(rule.Level) {
				worse = append(worse, set+"/"+stratum)
			}
		}
	}
	for _, leg := range slices.Sorted(maps.Keys(v.Without)) {
		for _, set := range slices.Sorted(maps.Keys(v.Without[leg])) {
			if v.Without[leg][set].Worse(rule.Level) {
				worse = append(worse, set+" without "+leg)
			}
		}
	}
	v.Adopted = v.Candidate != v.Baseline && len(better) >= rule.Better && len(worse) == 0
	v.Why = fmt.Sprintf("significantly better on %s of the %d that the rule asks for; significantly worse on %s",
		list(better), rule.Better, list(worse))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}

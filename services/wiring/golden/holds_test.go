package golden_test

import (
	"regexp"
	"slices"
	"testing"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// checkExact: who asks in a memory's own rare words gets it first from the lexical leg.
func (c *corpus) checkExact(t *testing.T, got answers) {
	t.Helper()
	for i, q := range c.queries {
		if q.Stratum != "exact" {
			continue
		}
		if best := q.answerKeys()[0]; c.rank(got["lexical"][i], best) != 1 {
			t.Errorf("%s: the lexical leg ranks %s at %d", q.ID, best, c.rank(got["lexical"][i], best))
		}
	}
}

// checkGone: superseded memories come to those who ask for them, and to nobody else; expired and forgotten ones to nobody.
func (c *corpus) checkGone(t *testing.T, got answers) {
	t.Helper()
	for _, s := range settings() {
		for i, q := range c.queries {
			for _, hit := range got[s.name][i] {
				key := c.keys[hit.GetId()]
				if asked := s.superseded && c.memories[key].GetSupersededBy() != ""; !asked && !c.recalled(key) {
					t.Errorf("%s, %s: %q was recalled", q.ID, s.name, key)
				}
			}
			for _, key := range q.Absent {
				if s.superseded && c.memories[key].GetSupersededBy() != "" && c.rank(got[s.name][i], key) == 0 {
					t.Errorf("%s, %s: %s is not among the first %d", q.ID, s.name, key, depth)
				}
			}
		}
	}
}

// looked is of how many sensitive memories all tables are read, which takes a while.
const looked = 3

// checkSensitive: a sensitive memory is found by its words and by no leg but the lexical one. Only the records and the word index
// know of it, and the log of changes has its id.
func (c *corpus) checkSensitive(t *testing.T, got answers, f *storetest.Fixture) {
	t.Helper()
	for name, lists := range got {
		for i, hits := range lists {
			for _, hit := range hits {
				if !c.memories[c.keys[hit.GetId()]].GetSensitive() {
					continue
				}
				if slices.ContainsFunc(hit.GetContributions(), func(from *triskelev1.Contribution) bool { return from.GetLeg() != "lexical" }) {
					t.Errorf("%s, %s: another leg than the lexical one found a sensitive memory", c.queries[i].ID, name)
				}
			}
		}
	}
	var sensitive []string
	for i, q := range c.queries {
		if q.Stratum != "sensitive" {
			continue
		}
		for key := range q.Relevant {
			sensitive = append(sensitive, key)
			if c.rank(got["lexical"][i], key) == 0 {
				t.Errorf("%s: %s is not found by its words", q.ID, key)
			}
		}
	}
	allowed := regexp.MustCompile(`^(memory\.memories_\d|memories|(memory\.)?log|lexical[._].*)$`)
	for _, key := range sensitive[:looked] {
		tables := f.Holding(t, c.memories[key].GetId())
		if len(tables) < 2 {
			t.Errorf("%s is only in %q: the search is blind", key, tables)
		}
		for _, table := range tables {
			if !allowed.MatchString(table) {
				t.Errorf("the sensitive %s is in %s", key, table)
			}
		}
	}
}

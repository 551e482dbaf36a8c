package golden_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// files are the memories of three invented crews, in the form that `triskele import` reads. Whatever a ranking could depend on
// is given in them: ids, times, successors. A memory's idempotency key is the name by which the queries know it.
var files = []string{"station.jsonl", "bakery.jsonl", "software.jsonl"}

// forgotten are the keys of memories that are forgotten after the import.
var forgotten = []string{"fall-from-ladder", "spec-spelt", "old-wiki"}

// horizon is before any run of this test: what expires in the corpus has expired by then.
var horizon = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// query is a question with the keys of the memories that answer it, by grade: 2 for an answer, 1 for a repetition of one
// or for what helps. Absent are memories that would answer it, and no longer hold.
type query struct {
	ID       string         `json:"id"`
	Stratum  string         `json:"stratum"`
	Text     string         `json:"text"`
	Relevant map[string]int `json:"relevant"`
	Absent   []string       `json:"absent"`
}

// answerKeys are the keys of what is relevant, answers first.
func (q query) answerKeys() []string {
	keys := make([]string, 0, len(q.Relevant))
	for key := range q.Relevant {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := q.Relevant[b] - q.Relevant[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return keys
}

type corpus struct {
	memories map[string]*triskelev1.Memory // by key
	keys     map[string]string             // by id
	queries  []query                       // by stratum
	groups   map[string]int                // keys that say the same have the same number; all others have none
}

func load(t *testing.T) *corpus {
	t.Helper()
	c := &corpus{memories: map[string]*triskelev1.Memory{}, keys: map[string]string{}, groups: map[string]int{}}
	for _, name := range files {
		eachLine(t, name, func(line []byte) error {
			m := &triskelev1.Memory{}
			if err := protojson.Unmarshal(line, m); err != nil {
				return err
			}
			key := m.GetIdempotencyKey()
			if key == "" || c.memories[key] != nil || c.keys[m.GetId()] != "" {
				return fmt.Errorf("id %q and key %q must be there, once", m.GetId(), key)
			}
			c.memories[key], c.keys[m.GetId()] = m, key
			return nil
		})
	}
	eachLine(t, "queries.jsonl", func(line []byte) error {
		c.queries = append(c.queries, query{})
		return json.Unmarshal(line, &c.queries[len(c.queries)-1])
	})
	eachLine(t, "duplicates.jsonl", func(line []byte) error {
		var group []string
		number := len(c.groups) + 1
		if err := json.Unmarshal(line, &group); err != nil {
			return err
		}
		for _, key := range group {
			c.groups[key] = number
		}
		return nil
	})
	return c
}

func eachLine(t *testing.T, name string, fn func([]byte) error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if err := fn(line); err != nil {
			t.Fatalf("%s:%d: %v", name, number, err)
		}
	}
}

// TestCorpus checks that the corpus says all that a ranking depends on, and that the judgments fit it.
func TestCorpus(t *testing.T) {
	t.Parallel()
	c := load(t)
	if len(c.memories) < 300 || len(c.queries) < 150 {
		t.Errorf("%d memories and %d queries are too few", len(c.memories), len(c.queries))
	}
	for key, m := range c.memories {
		if m.GetId() == "" || m.Importance == nil || m.GetCreatedAt() == nil || m.GetUpdatedAt() == nil {
			t.Errorf("%s: id, importance, created_at and updated_at must be given", key)
		}
		if m.GetExpiresAt() != nil && !m.GetExpiresAt().AsTime().Before(horizon) {
			t.Errorf("%s: expires at %s, after %s", key, m.GetExpiresAt().AsTime(), horizon)
		}
		if next := c.memories[c.keys[m.GetSupersededBy()]]; m.GetSupersededBy() != "" && next.GetSupersedes() != m.GetId() {
			t.Errorf("%s: its successor is not one", key)
		}
		for _, link := range m.GetLinks() {
			if c.keys[link.GetTarget()] == "" {
				t.Errorf("%s: links to what is not there", key)
			}
		}
	}
	for key := range c.groups {
		if !c.recalled(key) {
			t.Errorf("duplicates: %s is never recalled", key)
		}
	}
	seen := map[string]bool{}
	for i, q := range c.queries {
		if seen[q.ID] || i > 0 && c.queries[i-1].Stratum != q.Stratum && seen[q.Stratum] {
			t.Errorf("%s: is there twice, or apart from its stratum", q.ID)
		}
		seen[q.ID], seen[q.Stratum] = true, true
		if len(q.Relevant)+len(q.Absent) == 0 {
			t.Errorf("%s: nothing is judged", q.ID)
		}
		for key, grade := range q.Relevant {
			if !c.recalled(key) || grade < 1 || grade > 2 {
				t.Errorf("%s: %s is never recalled, or has grade %d", q.ID, key, grade)
			}
			if sensitive := c.memories[key].GetSensitive(); sensitive != (q.Stratum == "sensitive") {
				t.Errorf("%s: %s is sensitive: %v", q.ID, key, sensitive)
			}
		}
		for _, key := range q.Absent {
			if c.memories[key] == nil || c.recalled(key) {
				t.Errorf("%s: %s is not there, or is recalled", q.ID, key)
			}
		}
	}
	for _, stratum := range []string{"exact", "paraphrase", "multi-hop", "superseded", "sensitive", "multilingual", "gone"} {
		if !seen[stratum] {
			t.Errorf("there is no query of stratum %s", stratum)
		}
	}
}

// recalled says whether a memory may come in an answer to a request without a filter.
func (c *corpus) recalled(key string) bool {
	m := c.memories[key]
	return m != nil && m.GetExpiresAt() == nil && m.GetSupersededBy() == "" && !slices.Contains(forgotten, key)
}

// rank of a memory among hits, from 1; 0 if it is not among them.
func (c *corpus) rank(hits []*triskelev1.Hit, key string) int {
	id := c.memories[key].GetId()
	return 1 + slices.IndexFunc(hits, func(hit *triskelev1.Hit) bool { return hit.GetId() == id })
}

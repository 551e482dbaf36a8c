package eval_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/services/eval"
)

// write makes a set's folder of the given files.
func write(t testing.TB, folder, corpus, queries, qrels string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels.tsv": qrels} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLinksOfTheText(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "set")
	write(t, folder,
		`{"_id":"a/1","title":"One","text":"See [two](b/2), [two](b/2) again, [me](a/1), [far](c/3), [away](https://example.org/b/2) and (b/2)."}
{"_id":"b/2","title":"Two","text":"b/2 [c/3]"}
{"_id":"c/3","title":"Three","text":"[one](a/1)","metadata":{"scope":"other"}}
`,
		`{"_id":"q","text":"which?"}`, "query-id\tcorpus-id\tscore\nq\ta/1\t1\n")
	set, err := eval.Load(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := set.Memories[0], set.Memories[1], set.Memories[2]
	if len(one.GetLinks()) != 1 || one.GetLinks()[0].GetTarget() != two.GetId() || len(two.GetLinks()) != 0 || len(three.GetLinks()) != 0 {
		t.Errorf("links %v, %v, %v", one.GetLinks(), two.GetLinks(), three.GetLinks())
	}
}

func TestLoad(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "Small set")
	write(t, folder,
		"\ufeff"+`{"_id":"d1","title":"Tides","text":"The moon pulls.","metadata":{"scope":"Conv 26","date":"2023-05-08T13:56:00","session":"D1","position":7,"entities":["HIDDEN"],"answer":"HIDDEN"}}
{"_id":"d2","title":"Only a title","text":"","metadata":{"scope":26,"session":3}}

{"_id":"d3","text":"No title","extra":"HIDDEN"}
`,
		`{"_id":"q1","text":"what pulls?","metadata":{"category":"physics","scope":"Conv 26","answer":"HIDDEN","evidence":["HIDDEN"],"chain":["HIDDEN"]}}
{"_id":"q2","text":"not judged","metadata":{"category":null}}
{"_id":"q3","text":"judged irrelevant"}
{"_id":"q4","text":"gold elsewhere"}
`,
		"query-id\tcorpus-id\tscore\r\nq1\td1\t2\nq1\td2\t0\nq3\td3\t0\nq4\td1\t1\nq4\td3\t1\nq4\td3\t1\nq9\td1\t1\n")
	set, err := eval.Load(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(set.Namespaces, " "); got != "small-set small-set/26 small-set/conv-26" {
		t.Errorf("namespaces %q", got)
	}
	if len(set.Memories) != 3 || len(set.Documents) != 3 {
		t.Fatalf("%d memories, %d documents", len(set.Memories), len(set.Documents))
	}
	first, second := set.Memories[0], set.Memories[1]
	if first.GetTitle() != "Tides" || first.GetContent() != "The moon pulls." || first.GetNamespace() != "small-set/conv-26" || set.Documents[first.GetId()] != "d1" {
		t.Errorf("first document: %v", first)
	}
	if at := first.GetCreatedAt().AsTime(); !at.Equal(time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)) {
		t.Errorf("first document is of %v", at)
	}
	if first.GetThread() != "D1" || first.GetPosition() != 7 || second.GetThread() != "3" || second.GetPosition() != 1 || set.Memories[2].GetThread() != "" {
		t.Errorf("threads %q at %d, %q at %d, %q", first.GetThread(), first.GetPosition(), second.GetThread(), second.GetPosition(), set.Memories[2].GetThread())
	}
	if second.GetContent() != "Only a title" {
		t.Errorf("content of a document without text: %q", second.GetContent())
	}
	if !set.Memories[2].GetCreatedAt().AsTime().After(second.GetCreatedAt().AsTime()) {
		t.Error("documents without a date are not in the file's order")
	}
	for _, m := range set.Memories {
		if strings.Contains(m.String(), "HIDDEN") || m.GetMetadata() != nil || len(m.GetTags()) > 0 || len(m.GetExpandedKeywords()) > 0 {
			t.Errorf("more than title, text and date is indexed: %v", m)
		}
	}
	if len(set.Queries) != 2 || set.Unjudged != 2 || set.Unreachable != 1 {
		t.Fatalf("%d queries, %d unjudged, %d unreachable", len(set.Queries), set.Unjudged, set.Unreachable)
	}
	if q := set.Queries[0]; q.ID != "q1" || q.Text != "what pulls?" || q.Namespace != "small-set/conv-26" || q.Stratum != "physics" || q.Grades["d1"] != 2 {
		t.Errorf("first query: %+v", q)
	}
	again, err := eval.Load(folder, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Queries) != 1 || again.Queries[0].ID != "q1" {
		t.Errorf("with a limit: %+v", again.Queries)
	}
	for i := range set.Memories {
		if again.Memories[i].GetId() != set.Memories[i].GetId() {
			t.Errorf("document %d has another id each time", i)
		}
	}
}

func TestLoadNamesFileAndLine(t *testing.T) {
	const (
		corpus  = `{"_id":"d1","text":"one"}` + "\n"
		queries = `{"_id":"q1","text":"one?"}` + "\n"
		qrels   = "query-id\tcorpus-id\tscore\nq1\td1\t1\n"
	)
	for _, test := range []struct{ name, corpus, queries, qrels, want string }{
		{"broken JSON", corpus + "\n{\"_id\":\n", queries, qrels, `corpus\.jsonl:3: .*unexpected end`},
		{"two values on a line", corpus + `{"_id":"d2","text":"x"} {}`, queries, qrels, `corpus\.jsonl:2: `},
		{"no id", `{"text":"x"}`, queries, qrels, `corpus\.jsonl:1: _id is missing`},
		{"id with a space", `{"_id":"a b","text":"x"}`, queries, qrels, `corpus\.jsonl:1: .*"a b".*space`},
		{"id twice", corpus + corpus, queries, qrels, `corpus\.jsonl:2: .*"d1" is repeated`},
		{"no text and no title", `{"_id":"d1"}`, queries, qrels, `corpus\.jsonl:1: document "d1"\.content: `},
		{"too long", `{"_id":"d1","text":"` + strings.Repeat("x", 1<<16+1) + `"}`, queries, qrels, `corpus\.jsonl:1: document "d1"\.content: .*65536`},
		{"title too long", `{"_id":"d1","text":"x","title":"` + strings.Repeat("x", 513) + `"}`, queries, qrels, `corpus\.jsonl:1: document "d1"\.title: .*512`},
		{"scope that is a list", `{"_id":"d1","text":"x","metadata":{"scope":[]}}`, queries, qrels, `corpus\.jsonl:1: .*must be a string`},
		{"scope without a letter", `{"_id":"d1","text":"x","metadata":{"scope":"//"}}`, queries, qrels, `corpus\.jsonl:1: "//" cannot be made a namespace`},
		{"scopes that fall together", `{"_id":"d1","text":"x","metadata":{"scope":"A b"}}` + "\n" + `{"_id":"d2","text":"x","metadata":{"scope":"a/b"}}`, queries, qrels, `corpus\.jsonl:2: scopes "A b" and "a/b"`},
		{"no documents", "\n", queries, qrels, `corpus\.jsonl: no documents`},
		{"query without text", corpus, `{"_id":"q1"}`, qrels, `queries\.jsonl:1: query "q1" has no text`},
		{"query twice", corpus, queries + queries, qrels, `queries\.jsonl:2: query "q1" is repeated`},
		{"query of an empty scope", corpus, `{"_id":"q1","text":"x","metadata":{"scope":"other"}}`, qrels, `queries\.jsonl:1: .*set/other, which has no documents`},
		{"no header", corpus, queries, "q1\td1\t1\n", `qrels\.tsv:1: want a header`},
		{"column missing", corpus, queries, qrels + "q1 d1 1\n", `qrels\.tsv:3: 1 columns`},
		{"score that is no number", corpus, queries, qrels + "q1\td2\tyes\n", `qrels\.tsv:3: score "yes"`},
		{"contradicting judgments", corpus, queries, qrels + "q1\td1\t0\n", `qrels\.tsv:3: .*graded 1 and 0`},
		{"nothing judged", corpus, queries, "query-id\tcorpus-id\tscore\n", `no query has a relevant document`},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "set")
			write(t, folder, test.corpus, test.queries, test.qrels)
			_, err := eval.Load(folder, 0)
			if err == nil || !regexp.MustCompile(test.want).MatchString(err.Error()) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func FuzzNamespace(f *testing.F) {
	f.Add("locomo-turn", "conv-26")
	f.Add("A B", "")
	f.Add("..x", "Ünïcode/..")
	pattern := regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$`) // of the contract
	f.Fuzz(func(t *testing.T, set, scope string) {
		if namespace, err := eval.Namespace(set, scope); err == nil && !pattern.MatchString(namespace) {
			t.Errorf("Namespace(%q, %q) = %q", set, scope, namespace)
		}
	})
}

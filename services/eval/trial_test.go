package eval_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/eval"
)

// TestTrial: a question whose answer lies behind a bridge, which words do not find and the graph does; and a fact that has
// been replaced, which the graph leaves behind once it knows the triples.
func TestTrial(t *testing.T) {
	data, out := t.TempDir(), t.TempDir()
	folder := filepath.Join(data, "bridged")
	write(t, folder, `{"_id":"1","title":"Kittiwake","text":"The Kittiwake was built by Orsolya Varga."}
{"_id":"2","title":"Orsolya Varga","text":"She was born beside a canal."}
{"_id":"3","title":"","text":"So Teo's house is Brackwater."}
{"_id":"4","title":"","text":"Then Teo moved into a house of Kessel."}
{"_id":"5","title":"","text":"nothing of note"}
`, `{"_id":"q1","text":"origin of the Kittiwake engineer","metadata":{"category":"bridge"}}
{"_id":"q2","text":"Teo's house","metadata":{"category":"replaced","stale_ids":["3"],"answer":"Kessel"}}
`, "query-id\tcorpus-id\tscore\nq1\t2\t1\nq2\t4\t1\n")
	triples := `{"doc_id":"4","subject":"Teo","relation":"lives in","object":"Kessel"}
{"doc_id":"3","subject":"Teo","relation":"lives in","object":"Brackwater"}
{"doc_id":"3","subject":"?","relation":"lives in","object":"Brackwater"}
`
	if err := os.WriteFile(filepath.Join(folder, "triples.jsonl"), []byte(triples), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := eval.Trial(t.Context(), eval.TrialOptions{
		Options: eval.Options{Data: data, Store: "sqlite", Embedder: embed.NewHashed(), Out: out, Progress: io.Discard, Command: "triskele graph trial --out " + out},
		Single:  []string{"bridged"},
	}, start(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Sets) != 2 || report.Sets[0].Name != "bridged" || report.Sets[1].Name != "bridged + triples" || report.Sets[1].Triples != 2 {
		t.Fatalf("%+v", report.Sets)
	}
	plain, told := report.Sets[0], report.Sets[1]
	if plain.Linked != 1 || plain.Reach1 != 0.5 || plain.Reach2 != 1 {
		t.Errorf("linked %v, within one hop %v, within two %v", plain.Linked, plain.Reach1, plain.Reach2)
	}
	// Of Teo, whom two memories mention, nothing specific is known without the triples.
	if plain.Bases["lexical"].Recall5 != 0.5 || plain.Alone["PageRank"].Recall5 != 0.5 || told.Alone["PageRank"].Recall5 != 1 {
		t.Errorf("lexical %+v, PageRank %+v, told %+v", plain.Bases["lexical"], plain.Alone["PageRank"], told.Alone["PageRank"])
	}
	for _, run := range plain.Runs {
		if run.Base == "lexical" && run.System == "PageRank" && run.Weight == 1 && (run.Recall5.Mean != 0.5 || run.OnlyGraphRelevant != 1 || run.Strata["bridge"].Mean != 1 || run.Strata["replaced"].Mean != 0) {
			t.Errorf("%+v", run)
		}
	}
	if plain.Stale["PageRank"] != 0 && plain.Stale["PageRank"] != 1 || told.Stale["PageRank"] != 0 || told.Stale["hop decay"] != 0 {
		t.Errorf("replaced facts: %v, told %v", plain.Stale, told.Stale)
	}
	if before, after := told.Stale["lexical + dense"], told.Stale["lexical + dense + PageRank, weight 1"]; before != 1 || after != 0 {
		t.Errorf("the replaced fact comes first in %v of the answers without the graph and %v with it", before, after)
	}
	text, err := os.ReadFile(filepath.Join(out, "trial.md"))
	if err != nil || string(text) != string(report.Markdown()) || strings.Contains(string(text), out) {
		t.Errorf("report: %v\n%s", err, text)
	}
	for _, want := range []string{"- **bridged**: the graph changes nothing that 2 queries could show. Recall@5 ", "50 % of the relevant documents are within one hop, 100 % within two"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if _, err := eval.Trial(t.Context(), eval.TrialOptions{Options: eval.Options{Data: data, Store: "paper", Out: out}}, start(t), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a trial on no store")
	}
}

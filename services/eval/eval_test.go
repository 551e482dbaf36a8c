package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/eval"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

// smallSet writes twelve documents in two scopes, the same in both but for the number, and six queries. Of those, four
// name a word that one document of their scope has, one a word that none has, and one has no judgment.
func smallSet(t *testing.T, folder string) {
	t.Helper()
	var corpus strings.Builder
	for _, scope := range []string{"Left", "Right"} {
		for i, text := range []string{
			"The heron waits beside the pond every morning.",
			"A quorum of five is needed for the board meeting.",
			"Rotate the certificate before it expires in March.",
			"Lena prefers the window seat on long flights.",
			"The backup of the warehouse takes forty minutes.",
			"Our harbour office moved to the second floor.",
		} {
			fmt.Fprintf(&corpus, `{"_id":"%s:%d","title":"Note %d","text":%q,"metadata":{"scope":%q,"date":"2024-03-0%dT10:00:00"}}`+"\n", scope, i, i, text, scope, i+1)
		}
	}
	write(t, folder, corpus.String(), `{"_id":"q1","text":"heron","metadata":{"scope":"Left","category":"word"}}
{"_id":"q2","text":"quorum","metadata":{"scope":"Right","category":"word"}}
{"_id":"q3","text":"certificate","metadata":{"scope":"Right","category":"word"}}
{"_id":"q4","text":"warehouse backup","metadata":{"scope":"Left","category":"words"}}
{"_id":"q5","text":"zygote","metadata":{"scope":"Left","category":"words"}}
{"_id":"q6","text":"harbour","metadata":{"scope":"Left","category":"words"}}
`, "query-id\tcorpus-id\tscore\nq1\tLeft:0\t1\nq2\tRight:1\t1\nq3\tRight:2\t2\nq3\tRight:5\t1\nq4\tLeft:4\t1\nq5\tLeft:3\t1\n")
}

func start(t *testing.T) *telemetry.Process {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return process
}

func TestRun(t *testing.T) {
	for _, store := range []string{"postgres", "sqlite"} {
		t.Run(store, func(t *testing.T) {
			data, out, temp := t.TempDir(), t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", temp)
			smallSet(t, filepath.Join(data, "small"))
			var progress bytes.Buffer
			options := eval.Options{Data: data, Store: store, Embedder: embed.NewHashed(), Out: out, Progress: &progress, Command: "triskele eval --data DATA --store " + store}
			if store == "postgres" {
				options.Postgres = pgtest.New(t)
			}
			report, err := eval.Run(t.Context(), options, start(t), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			checkReport(t, report)
			first := checkRunFiles(t, out)
			checkWritten(t, out, report, data)
			if !strings.Contains(progress.String(), "small A-all") {
				t.Error("no progress was shown")
			}

			// Concurrency changes no ranking, and results are written over older ones.
			options.Concurrency = 4
			if _, err := eval.Run(t.Context(), options, start(t), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			if again := checkRunFiles(t, out); !slices.Equal(first, again) {
				t.Errorf("a second run ranks differently:\n%s\n\n%s", strings.Join(first, "\n"), strings.Join(again, "\n"))
			}

			// What the reranker reads of more memories counts.
			scores := func() string {
				text, err := os.ReadFile(filepath.Join(out, "runs", "small", "F-all+reranker.trec"))
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			six := scores()
			options.Configs, options.Top = []string{"F-all+reranker"}, 2
			if _, err := eval.Run(t.Context(), options, start(t), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			if scores() == six {
				t.Errorf("two memories read give the scores of six:\n%s", six)
			}

			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if store == "postgres" {
				checkUntouched(t, options.Postgres)
			}
		})
	}
}

func checkReport(t *testing.T, report *eval.Report) {
	t.Helper()
	if len(report.Sets) != 1 {
		t.Fatalf("%d sets", len(report.Sets))
	}
	set := report.Sets[0]
	if set.Documents != 12 || set.Namespaces != 2 || set.Queries != 5 || set.Unjudged != 1 || set.Unreachable != 0 || set.ImportSeconds <= 0 || set.ImportPerSecond <= 0 {
		t.Errorf("set: %+v", set)
	}
	var names []string
	for _, c := range set.Configs {
		names = append(names, c.Name)
		if c.Latency.P50 <= 0 || c.Latency.P50 > c.Latency.P95 || c.Latency.P95 > c.Latency.P99 {
			t.Errorf("%s: latency %+v", c.Name, c.Latency)
		}
		for _, leg := range c.Legs {
			total := 0
			for _, n := range leg.States {
				total += n
			}
			if skipped := leg.States["SKIPPED"]; total != 5 || skipped != 0 && skipped != 5 || (skipped == 5) != (leg.Latency == eval.Percentiles{}) {
				t.Errorf("%s: leg %+v", c.Name, leg)
			}
			if leg.States["FAILED"]+leg.States["TIMED_OUT"] > 0 {
				t.Errorf("%s: leg %+v", c.Name, leg)
			}
		}
	}
	if !slices.Equal(names, eval.ConfigNames()) {
		t.Fatalf("configurations %v", names)
	}
	lexical := set.Configs[3]
	if lexical.Legs[0].Leg != "lexical" || lexical.Legs[0].States["SKIPPED"] != 0 || lexical.Legs[1].States["SKIPPED"] != 5 || lexical.Legs[2].States["SKIPPED"] != 5 {
		t.Errorf("legs of %s: %+v", lexical.Name, lexical.Legs)
	}
	// Four of five queries have a relevant document first; q3 has two, of which one cannot be found by its words.
	const idealOfQ3, gotOfQ3 = 2 + 0.63092975357145742, 2.0
	want := map[string]eval.Metrics{
		"all":   {Recall5: 3.5 / 5, Recall10: 3.5 / 5, NDCG10: (3 + gotOfQ3/idealOfQ3) / 5, MRR10: 0.8, Success5: 0.8, Success10: 0.8},
		"word":  {Recall5: 2.5 / 3, Recall10: 2.5 / 3, NDCG10: (2 + gotOfQ3/idealOfQ3) / 3, MRR10: 1, Success5: 1, Success10: 1},
		"words": {Recall5: 0.5, Recall10: 0.5, NDCG10: 0.5, MRR10: 0.5, Success5: 0.5, Success10: 0.5},
	}
	if len(lexical.Strata) != 3 || lexical.Strata[0].Name != "all" {
		t.Fatalf("strata: %+v", lexical.Strata)
	}
	for _, stratum := range lexical.Strata {
		got, want := stratum.Metrics, want[stratum.Name]
		for _, pair := range [][2]float64{
			{got.Recall5, want.Recall5}, {got.Recall10, want.Recall10}, {got.NDCG10, want.NDCG10}, {got.MRR10, want.MRR10},
			{got.Success5, want.Success5}, {got.Success10, want.Success10},
		} {
			if !near(pair[0], pair[1]) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", stratum.Name, got, want)
				break
			}
		}
	}
}

// checkRunFiles returns the lines of all run files but for their scores.
func checkRunFiles(t *testing.T, out string) (lines []string) {
	t.Helper()
	scopes := map[string]string{"q1": "Left", "q2": "Right", "q3": "Right", "q4": "Left", "q5": "Left"}
	for _, name := range eval.ConfigNames() {
		text, err := os.ReadFile(filepath.Join(out, "runs", "small", name+".trec"))
		if err != nil {
			t.Fatal(err)
		}
		rank, query, last := 0, "", float32(0)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			var score float32
			if len(fields) != 6 || fields[1] != "Q0" || fields[5] != "triskele-"+name {
				t.Fatalf("%s: line %q", name, line)
			}
			if fields[0] != query {
				rank, query = 0, fields[0]
			}
			rank++
			if _, err := fmt.Sscan(fields[4], &score); err != nil || fields[3] != fmt.Sprint(rank) || rank > 1 && score >= last {
				t.Errorf("%s: rank or score of %q does not follow", name, line)
			}
			last = score
			if scope := scopes[query]; scope == "" || !strings.HasPrefix(fields[2], scope+":") {
				t.Errorf("%s: %q is outside its query's scope", name, line)
			}
			lines = append(lines, strings.Join(append(fields[:4:4], fields[5]), " "))
		}
		if strings.Contains(name, "lexical") && !slices.Contains(lines, "q4 Q0 Left:4 1 triskele-"+name) {
			t.Errorf("%s lacks a line:\n%s", name, text)
		}
	}
	return lines
}

func checkWritten(t *testing.T, out string, report *eval.Report, data string) {
	t.Helper()
	encoded, err := os.ReadFile(filepath.Join(out, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var decoded eval.Report
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Sets[0].Configs[0].Strata[0] != report.Sets[0].Configs[0].Strata[0] || decoded.Machine != report.Machine {
		t.Error("report.json differs from the report")
	}
	page, err := os.ReadFile(filepath.Join(out, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, private := range []string{data, out, host, "postgres://"} {
		if bytes.Contains(page, []byte(private)) || bytes.Contains(encoded, []byte(private)) {
			t.Errorf("the report has %q in it", private)
		}
	}
	for _, wanted := range []string{
		"triskele eval --data DATA --store ", "| small | D-lexical | 5 | 0.700 | 0.700 | 0.", "| words | 2 | D-lexical | 0.500 |",
		"\n| small | 12 | 2 | 5 | 1 | 0 | ", report.Database,
	} {
		if !bytes.Contains(page, []byte(wanted)) {
			t.Errorf("report.md lacks %q:\n%s", wanted, page)
		}
	}
}

// checkUntouched makes sure that the database whose URL was given was only used to create others.
func checkUntouched(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM memory.memories").Scan(&n); err != nil || n > 0 {
		t.Errorf("%d memories in a database that is not the run's own (%v)", n, err)
	}
}

func TestRunRefusesOptions(t *testing.T) {
	data := t.TempDir()
	smallSet(t, filepath.Join(data, "small"))
	write(t, filepath.Join(data, "zbroken"), "{", "", "")
	good := eval.Options{Embedder: embed.NewHashed(), Data: data, Sets: []string{"small"}, Store: "sqlite", Out: t.TempDir()}
	for _, test := range []struct {
		name string
		edit func(*eval.Options)
		want string
	}{
		{"unknown store", func(o *eval.Options) { o.Store = "oracle" }, `store "oracle"`},
		{"no URL", func(o *eval.Options) { o.Store = "postgres" }, "connection URL"},
		{"unreadable URL", func(o *eval.Options) { o.Store, o.Postgres = "postgres", "postgres://u:secret@h:x/db" }, "not valid"},
		{"no folder for results", func(o *eval.Options) { o.Out = "" }, "folder"},
		{"negative time", func(o *eval.Options) { o.Reading = -1 }, "time -1ns"},
		{"one memory to read", func(o *eval.Options) { o.Top = 1 }, "memories 1 must be from 2 to 100"},
		{"too many to read", func(o *eval.Options) { o.Top = 101 }, "memories 101 must be from 2 to 100"},
		{"negative limit", func(o *eval.Options) { o.Limit = -1 }, "limit -1"},
		{"negative concurrency", func(o *eval.Options) { o.Concurrency = -1 }, "concurrency -1"},
		{"unknown configuration", func(o *eval.Options) { o.Configs = []string{"Z"} }, `"Z"; there are A-all, B-`},
		{"unknown set", func(o *eval.Options) { o.Sets = []string{"absent"} }, "no such file"},
		{"no sets", func(o *eval.Options) { o.Sets, o.Data = nil, t.TempDir() }, "no sub-folder"},
		{"broken set among good ones", func(o *eval.Options) { o.Sets = nil }, filepath.Join("zbroken", "corpus.jsonl") + ":1: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := good
			test.edit(&options)
			_, err := eval.Run(t.Context(), options, start(t), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if left, err := os.ReadDir(good.Out); err != nil || len(left) > 0 {
		t.Errorf("results of refused runs: %v, %v", left, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	data := t.TempDir()
	smallSet(t, filepath.Join(data, "small"))
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := eval.Run(ctx, eval.Options{Embedder: embed.NewHashed(), Data: data, Store: "sqlite", Out: t.TempDir()}, start(t), slog.New(slog.DiscardHandler))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context was cancelled", err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

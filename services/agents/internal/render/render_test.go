package render_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/render"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, text, want)
	}
}

var day = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func answer() *triskelev1.RecallResponse {
	k := 60.0
	report := func(leg string, state triskelev1.LegState, reason string, returned int32, spent time.Duration) *triskelev1.LegReport {
		return &triskelev1.LegReport{
			Leg: leg, Namespace: "default", State: state, Reason: reason, Returned: returned,
			Budget: durationpb.New(450 * time.Millisecond), Spent: durationpb.New(spent),
		}
	}
	return &triskelev1.RecallResponse{
		Degraded: true, DegradedReason: "This recall is incomplete: the dense leg timed out (no answer within 450ms).",
		Fusion: &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_RRF, K: &k}, Spent: durationpb.New(455 * time.Millisecond),
		Legs: []*triskelev1.LegReport{
			report("lexical", triskelev1.LegState_LEG_STATE_OK, "", 2, 1230*time.Microsecond),
			report("dense", triskelev1.LegState_LEG_STATE_TIMED_OUT, "no answer within 450ms", 0, 450*time.Millisecond),
			report("graph", triskelev1.LegState_LEG_STATE_OK, "", 1, 21*time.Millisecond),
		},
		Hits: []*triskelev1.Hit{
			{
				Id: "0195942f-0000-7000-8000-000000000001", Namespace: "default", Rank: 1, Score: 0.0214672131, Importance: 0.9, Prior: 0.97,
				CreatedAt: timestamppb.New(day), Why: "about “release branches”, named in the question; the words “force-push” and “release”; important", Memory: &triskelev1.Memory{
					Title: "Never force-push release branches", Sensitive: true,
					Content: "Never force-push on release branches, not even to fix a typo in a message.\n\nOther machines build from them, and Maren wants a visible revert commit instead.",
				},
				Matches: &triskelev1.Matches{
					Title:   []*triskelev1.TextRange{{Start: 6, End: 16}, {Start: 17, End: 24}},
					Content: []*triskelev1.TextRange{{Start: 6, End: 16}, {Start: 20, End: 27}},
				},
				Contributions: []*triskelev1.Contribution{
					{Leg: "lexical", Rank: 1, RawScore: 12.3456, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25, Weight: 1, Value: 0.0159016393},
					{Leg: "graph", Rank: 1, RawScore: 0.75, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_HOP_DECAY, Weight: 0.35, Value: 0.0055655738},
				},
			},
			{
				Id: "0195942f-0000-7000-8000-000000000002", Namespace: "default", Rank: 2, Score: 0.0137096774, Importance: 0.5, Prior: 0.85,
				CreatedAt: timestamppb.New(day.AddDate(0, -1, 0)), Memory: &triskelev1.Memory{Content: "Ein kürzerer Text \x1b[2Johne Titel."},
				Contributions: []*triskelev1.Contribution{
					{Leg: "lexical", Rank: 2, RawScore: 3, ScoreKind: triskelev1.ScoreKind_SCORE_KIND_BM25, Weight: 1, Value: 0.0137096774},
				},
			},
		},
	}
}

func TestRecall(t *testing.T) {
	golden(t, "recall.golden", render.Style{}.Recall(answer(), render.RecallOptions{}))
	golden(t, "explain.golden", render.Style{}.Recall(answer(), render.RecallOptions{Explain: true}))
	golden(t, "excerpt.golden", render.Style{Width: 60}.Recall(answer(), render.RecallOptions{Show: func(hit *triskelev1.Hit) bool { return hit.GetRank() == 2 }}))

	convex := answer()
	convex.Fusion.Method = triskelev1.FusionMethod_FUSION_METHOD_CONVEX
	convex.Hits[0].Score = 0.97*1 + 0.97*0.35*0.5
	convex.Hits[0].Contributions[0].NormalizedScore, convex.Hits[0].Contributions[0].Value = 1, 0.97*1
	convex.Hits[0].Contributions[1].NormalizedScore, convex.Hits[0].Contributions[1].Value = 0.5, 0.97*0.35*0.5
	convex.Hits[1].Score, convex.Hits[1].Contributions[0].Value = 0, 0
	convex.Legs[2].Namespace = "other"
	golden(t, "convex.golden", render.Style{}.Recall(convex, render.RecallOptions{Explain: true}))
	behind := answer()
	behind.Legs[0].Behind, behind.Legs[1].Behind, behind.Legs[1].Stale, behind.Legs[2].Stale = 10_000, 12, true, true
	golden(t, "behind.golden", render.Style{}.Recall(behind, render.RecallOptions{Explain: true}))
	reranked := answer()
	reranked.Hits[0].FusedRank, reranked.Hits[0].RerankScore = 2, proto.Float64(0.8125)
	reranked.Hits[0].Duplicates = []*triskelev1.Duplicate{{Id: "0190b3a0-0000-7000-8000-00000000000d", Namespace: "default", FusedRank: 3, Resemblance: 0.914}}
	reranked.Rerank = &triskelev1.RerankReport{
		State: triskelev1.LegState_LEG_STATE_OK, Model: "tei", Reranked: 2, Budget: durationpb.New(135 * time.Millisecond), Spent: durationpb.New(41 * time.Millisecond),
	}
	golden(t, "reranked.golden", render.Style{}.Recall(reranked, render.RecallOptions{Explain: true}))
	read := answer()
	read.Fusion.Method, read.ScoreScale = triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED, triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY
	read.Hits[0].FusedRank, read.Hits[0].RerankScore = 1, proto.Float64(9.25)
	read.Hits[0].Contributions = append(read.Hits[0].Contributions, &triskelev1.Contribution{Leg: "reranker", RawScore: 9.25, Value: 2})
	got := (render.Style{}).Recall(read, render.RecallOptions{Explain: true})
	if strings.Count(got, "log-odds that it answers 9.25") != 1 || strings.Contains(got, "of the sums") || strings.Contains(got, "fused 1") {
		t.Errorf("what the built-in reranker read is in\n%s", got)
	}
	timed := answer()
	timed.Hits[0].MatchedTime = "May\x1b 2023"
	if got := (render.Style{}).Recall(timed, render.RecallOptions{}); strings.Count(got, ", matched: May 2023") != 1 {
		t.Errorf("got\n%s\nwant the first hit to say what time it matched", got)
	}
	golden(t, "colour.golden", render.Style{Colour: true}.Recall(answer(), render.RecallOptions{Explain: true}))
}

// found is where words are in a text.
func found(text string, words ...string) (out []*triskelev1.TextRange) {
	for _, word := range words {
		for at := 0; ; {
			i := strings.Index(text[at:], word)
			if i < 0 {
				break
			}
			out = append(out, &triskelev1.TextRange{Start: int32(at + i), End: int32(at + i + len(word))})
			at += i + len(word)
		}
	}
	return out
}

// long is an answer whose matches are far down, with more legs and reasons than fit beside the figures.
func long() *triskelev1.RecallResponse {
	resp := answer()
	text := "Minutes of the harbour board.\n\n" + strings.Repeat("Nothing of note was said about tea. ", 20) +
		"The northern\tcrane is serviced each spring by Maren,\x1b[2J who has its keys. " + strings.Repeat("The crane was not mentioned again. ", 9)
	resp.Hits[0].Memory = &triskelev1.Memory{Title: "Board, 14 March", Content: text}
	resp.Hits[0].Matches = &triskelev1.Matches{Content: found(text, "crane", "serviced", "spring", "keys")}
	resp.Hits[0].FusedRank, resp.Hits[0].RerankScore = 12, proto.Float64(0.5)
	resp.Hits[0].Contributions = append(resp.Hits[0].Contributions, &triskelev1.Contribution{Leg: "temporal", Rank: 123, Weight: 1})
	resp.Hits[1].Memory = &triskelev1.Memory{Content: "港の北側にあるクレーンは、毎年春に点検されます。鍵はマレンが持っています。" + strings.Repeat("会議では茶の話だけでした。", 12)}
	resp.Hits[1].Matches = &triskelev1.Matches{Content: found(resp.Hits[1].GetMemory().GetContent(), "クレーン")}
	resp.Legs[1].Reason = strings.Repeat("the embedder's server answered with a status that nobody expects, ", 3)
	return resp
}

// TestTitleIsBoldWhereItStands: a part of a text from far below its title has nothing of the title's.
func TestTitleIsBoldWhereItStands(t *testing.T) {
	resp := long()
	m := resp.GetHits()[0].GetMemory()
	m.Title = "Minutes of the harbour board."
	style := render.Style{Colour: true}
	if text := style.Recall(resp, render.RecallOptions{}); strings.Contains(text, "\x1b[1m…") {
		t.Errorf("what is shown begins in bold: %q", text)
	}
	resp.GetHits()[0].Matches = nil
	if text := style.Recall(resp, render.RecallOptions{}); !strings.Contains(text, style.Bold(m.GetTitle())) {
		t.Errorf("the title is not bold: %q", text)
	}
}

func TestSnippets(t *testing.T) {
	for name, style := range map[string]render.Style{"narrow": {Width: 50}, "wide": {Width: 120}, "colours": {Colour: true}} {
		golden(t, "snippets-"+name+".golden", style.Recall(long(), render.RecallOptions{}))
	}
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, width := range []int{42, 50, 80, 120} {
		plain := render.Style{Width: width}.Recall(long(), render.RecallOptions{Explain: width >= 80})
		if coloured := (render.Style{Width: width, Colour: true}).Recall(long(), render.RecallOptions{Explain: width >= 80}); escapes.ReplaceAllString(coloured, "") != plain {
			t.Errorf("%d columns: with colours the text is another:\n%s", width, coloured)
		}
		for line := range strings.Lines(plain) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns in a line for %d: %s", n, width, line)
			}
		}
	}
}

// The sum behind a probability fits into a terminal's lines.
func TestLogOddsFit(t *testing.T) {
	resp := &triskelev1.RecallResponse{
		ScoreScale: triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY, Fusion: &triskelev1.Fusion{Method: triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED},
		Hits: []*triskelev1.Hit{{Rank: 1, Score: 0.6, BaseLogOdds: -9, Contributions: []*triskelev1.Contribution{{Leg: "lexical", Rank: 1, Value: 4, RawScore: 8.1}}}},
	}
	for _, width := range []int{50, 80, 120} {
		text := render.Style{Width: width}.Recall(resp, render.RecallOptions{Explain: true})
		for line := range strings.Lines(text) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns in a line for %d: %s", n, width, line)
			}
		}
		if said := strings.Join(strings.Fields(text), " "); !strings.Contains(said, "before -9.00 the query, the namespace, importance, and legs that did not find it") {
			t.Errorf("%d columns: got\n%s", width, text)
		}
	}
	resp.Hits[0].MatchedTime = "last week"
	if text := (render.Style{}).Recall(resp, render.RecallOptions{Explain: true}); !strings.Contains(strings.Join(strings.Fields(text), " "), "did not find it; the time that it matches") {
		t.Errorf("got\n%s, want the time among what came before", text)
	}
}

func TestTable(t *testing.T) {
	table := render.Table{Columns: []render.Column{{Name: "id"}, {Name: "n", Right: true}, {Name: "why", Gives: true}, {Name: "who", Gives: true}}}
	table.Add("0195942f", "7", "a reason that is so long that a narrow terminal cannot hold it", "acme/notes")
	table.Add("0195942e", "12345", "港の北側にあるクレーンは、毎年春に点検されます", "\x1b[2Jb")
	golden(t, "table.golden", render.Style{}.Table(table)+render.Style{Terminal: true, Width: 50}.Table(table)+render.Style{Terminal: true, Width: 120, Colour: true}.Table(table))
}

func TestWaterfall(t *testing.T) {
	span := func(id, parent, service, name string, start, took time.Duration, attributes map[string]string) *triskelev1.Span {
		return &triskelev1.Span{
			Id: id, ParentId: parent, Service: service, Name: name, Start: timestamppb.New(day.Add(start)), Duration: durationpb.New(took),
			Attributes: attributes, Failed: attributes["triskele.state"] == "TIMED_OUT",
		}
	}
	const ms = time.Millisecond
	spans := []*triskelev1.Span{
		span("05", "04", "lexical", "lexical.search", 3*ms, 5*ms, map[string]string{"triskele.state": "LEG_STATE_OK", "triskele.hits": "1", "triskele.budget_us": "448000"}),
		span("01", "", "triskele", "triskele recall", 0, 460*ms, nil),
		span("02", "01", "triskele", "triskele.v1.RecallService/Recall", ms, 458*ms, nil),
		span("07", "missing", "store", "SELECT", 400*ms, ms/2, nil),
		span("03", "02", "fuser", "retrieval dense", 2*ms, 450*ms, map[string]string{"triskele.state": "TIMED_OUT", "triskele.hits": "0", "triskele.budget_us": "450000"}),
		span("04", "02", "fuser", "retrieval lexical", 2*ms, 8*ms, map[string]string{"triskele.state": "OK", "triskele.hits": "1", "triskele.budget_us": "450000"}),
		span("06", "05", "store", "a name that is so long that no column of a terminal can hold it", 3*ms, 4*ms, nil),
	}
	golden(t, "waterfall.golden", render.Style{}.Waterfall(spans))
	golden(t, "waterfall-wide.golden", render.Style{Width: 120}.Waterfall(spans))
	if text := (render.Style{}).Waterfall(nil); text != "no spans were recorded\n" {
		t.Errorf("no spans: %q", text)
	}
}

func TestMemory(t *testing.T) {
	importance := 0.9
	m := &triskelev1.Memory{
		Id: "0195942f-0000-7000-8000-000000000001", Namespace: "acme/notes", Title: "Crane", Content: "One paragraph.\n\nAnother, " + strings.Repeat("and so on ", 10),
		Tags: []string{"a", "b"}, Importance: &importance, Sensitive: true, CreatedAt: timestamppb.New(day), Revision: 3,
		SupersededBy: "0195942f-0000-7000-8000-000000000002",
	}
	golden(t, "memory.golden", render.Style{}.Memory(m))
	golden(t, "list.golden", render.Style{}.Line(m))
}

func TestNamespace(t *testing.T) {
	n := &triskelev1.GetNamespaceResponse{
		Namespace: "acme/notes", CreatedAt: timestamppb.New(day), Memories: 12,
		Statistics: &triskelev1.NamespaceStatistics{
			Live: 9, Superseded: 2, Expired: 1, Sensitive: 3, Bytes: 5_400_000,
			Indexes: []*triskelev1.IndexLag{{Index: "dense", Pending: 4, Dead: 1, Lag: durationpb.New(83 * time.Second)}, {Index: "extraction"}, {Index: "graph"}},
		},
	}
	golden(t, "namespace.golden", render.Style{}.Namespace(n))
	for size, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 40: "3.0 TiB", 5000 << 40: "5000.0 TiB"} {
		if got := render.Bytes(size); got != want {
			t.Errorf("%d: %q, want %q", size, got, want)
		}
	}
}

// No line may be longer than what it is drawn for, whatever the text.
func FuzzWidth(f *testing.F) {
	f.Add("title", "some text with words of several lengths and averyveryveryveryveryveryveryverylongoneindeed", 40)
	f.Add("", "\x1b[2J\u202e\t\n ", 80)
	f.Fuzz(func(t *testing.T, title, content string, width int) {
		width = max(40, min(width, 140))
		text := render.Style{Width: width}.Line(&triskelev1.Memory{Title: title, Content: content, CreatedAt: timestamppb.New(day)})
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); uniseg.StringWidth(line) > width {
				t.Errorf("%d columns: %q", uniseg.StringWidth(line), line)
			}
			if strings.ContainsAny(line, "\x1b\x07\u009b\u202e\n") {
				t.Errorf("control characters: %q", line)
			}
		}
	})
}

// Whatever the text and wherever the matches, a ranking fits, and colours change nothing of it.
func FuzzSnippet(f *testing.F) {
	f.Add("title", strings.Repeat("some text with words of several lengths ", 20), int32(400), int32(405), 50)
	f.Add("", "\x1b[2J\u202e\t\n 港の北側", int32(3), int32(9), 60)
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	f.Fuzz(func(t *testing.T, title, content string, from, to int32, width int) {
		width = max(50, min(width, 140))
		hit := &triskelev1.Hit{
			Id: "0195942f-0000-7000-8000-000000000001", Rank: 1, CreatedAt: timestamppb.New(day), Memory: &triskelev1.Memory{Title: title, Content: content},
			Matches: &triskelev1.Matches{Content: []*triskelev1.TextRange{{Start: from, End: to}, {Start: to, End: from}, {Start: 0, End: to}}, Title: []*triskelev1.TextRange{{Start: from, End: to}}},
		}
		resp := &triskelev1.RecallResponse{Hits: []*triskelev1.Hit{hit}}
		plain := render.Style{Width: width}.Recall(resp, render.RecallOptions{})
		if coloured := (render.Style{Width: width, Colour: true}).Recall(resp, render.RecallOptions{}); escapes.ReplaceAllString(coloured, "") != plain {
			t.Errorf("%q\n%q", coloured, plain)
		}
		for line := range strings.Lines(plain) {
			if line = strings.TrimSuffix(line, "\n"); uniseg.StringWidth(line) > width {
				t.Errorf("%d columns: %q", uniseg.StringWidth(line), line)
			}
		}
	})
}

package embed_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed"
)

func query(t testing.TB, text string) []float32 {
	t.Helper()
	v, err := embed.NewHashed().EmbedQuery(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func cosine(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// Stored vectors outlive the program that made them: a change of these values needs a new model name.
func TestHashedIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	golden := map[string]map[int]float32{
		"The backup of the harbour sensors runs at 03:00.": {23: -0.092897676, 27: 0.090321794, 28: -0.17418315, 31: -0.12067762},
		"Größe: ﬁnal Ⅷ":                                    {23: -0.14883964, 30: -0.13395567, 36: 0.34373042, 40: -0.13749216},
		"東京都庁":                                             {27: -0.23162743, 95: -0.23162743, 109: 0.23162743, 211: 0.23162743},
	}
	for text, want := range golden {
		got := query(t, text)
		for i, x := range want {
			if math.Abs(float64(got[i]-x)) > 1e-6 {
				t.Errorf("%q: dimension %d is %v, want %v", text, i, got[i], x)
			}
		}
	}
}

// All dimensions are those of the embedder that has no number: other vectors would need another name.
func TestNothingToFold(t *testing.T) {
	if folded, err := embed.NewFolded(256); err != nil || folded != embed.NewHashed() {
		t.Errorf("got %+v, %v, want %+v", folded, err, embed.NewHashed())
	}
}

func TestHashedLength(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", "the", "deploy", "ERR_CONN_RESET", strings.Repeat("long text ", 6000), "日本語", "한국어", "हिन्दी"} {
		v := query(t, text)
		if length := cosine(v, v); len(v) != 256 || math.Abs(length-1) > 1e-5 {
			t.Errorf("%.20q: %d dimensions of length %v, want 256 of length 1", text, len(v), length)
		}
	}
	for _, text := range []string{"", " \n\t", "…!?", "\xff\xfe"} {
		if v := query(t, text); len(v) != 256 || cosine(v, v) != 0 {
			t.Errorf("%q: want the zero vector of 256 dimensions, got length %v", text, cosine(v, v))
		}
	}
}

func TestHashedIgnores(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{
		{"Deploy The API", "deploy the api"},
		{"café au lait", "CAFÉ AU LAIT"},
		{"café", "cafe"},
		{"ｆｕｌｌ ｗｉｄｔｈ", "full width"},
		{"harbour, sensor.", "sensor -- harbour"},
	} {
		if got := cosine(query(t, same[0]), query(t, same[1])); got < 1-1e-6 {
			t.Errorf("%q and %q have cosine %v, want 1", same[0], same[1], got)
		}
	}
}

func TestHashedTellsSimilarFromUnrelated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, similar, unrelated string }{
		{"deploying the harbour sensors", "The harbour sensor was deployed on Monday.", "Teo cooks fish at weekends."},
		{"getUserById deleted accounts", "getUserByID returns accounts that were deleted", "the invoice is due in March"},
		{"postgres connection timeout", "Connections to PostgreSQL time out after a failover", "Maren's daughter plays the cello"},
		{"authentication", "authenticate with a token", "the canal freezes in winter"},
		{"kubernets", "kubernetes upgrade notes", "kitchen cabinet measurements"},
		{"東京の天気", "東京都の天気予報", "大阪城の歴史"},
	} {
		q := query(t, c.query)
		near, far := cosine(q, query(t, c.similar)), cosine(q, query(t, c.unrelated))
		if near < far+0.1 {
			t.Errorf("%q: %.3f to %q, %.3f to %q", c.query, near, c.similar, far, c.unrelated)
		}
	}
}

func TestHashedDocuments(t *testing.T) {
	t.Parallel()
	texts := []string{"first document", "", "second document"}
	vectors, err := embed.NewHashed().EmbedDocuments(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if !slices.Equal(vectors[i], query(t, text)) {
			t.Errorf("document %d is not embedded like the same query", i)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := embed.NewHashed().EmbedDocuments(ctx, texts); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context gives %v", err)
	}
}

func FuzzHashed(f *testing.F) {
	for _, text := range []string{"", "plain words", "Ünïcödé ﬃ ½", "\xff\x00a", "ＡＢＣ 東京", strings.Repeat("x", 200), "é́́́"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := query(t, text)
		length := cosine(v, v)
		if length != 0 && math.Abs(length-1) > 1e-5 || math.IsNaN(length) {
			t.Fatalf("length %v", length)
		}
		if !slices.Equal(v, query(t, text)) {
			t.Fatal("a second call gives another vector")
		}
	})
}

func BenchmarkHashedQuery(b *testing.B) {
	const text = "Which harbour did we deploy the new soil sensors to after the ERR_CONN_RESET incident?"
	b.ReportAllocs()
	for b.Loop() {
		_ = query(b, text)
	}
}

func BenchmarkHashedDocument(b *testing.B) {
	text := strings.Repeat("Fenwright Labs is a fourteen-person company that sells tide and soil sensors to small harbours. ", 20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		_ = query(b, text)
	}
}

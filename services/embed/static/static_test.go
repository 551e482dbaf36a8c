package static_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed/static"
)

func builtin(t testing.TB) *static.Model {
	t.Helper()
	m, err := static.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func query(t testing.TB, text string) []float32 {
	t.Helper()
	v, err := builtin(t).EmbedQuery(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func document(t testing.TB, text string) []float32 {
	t.Helper()
	v, err := builtin(t).EmbedDocuments(t.Context(), []string{text})
	if err != nil {
		t.Fatal(err)
	}
	return v[0]
}

func dot(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// The model, its card and its loader belong together: stored vectors outlive the program that made them.
func TestCardDescribesTheModel(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("model.bin")
	if err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile("../../../docs/embedder/README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := builtin(t)
	sum := sha256.Sum256(file)
	for what, want := range map[string]string{
		"SHA-256": hex.EncodeToString(sum[:]), "bytes": strconv.Itoa(len(file)), "words": strconv.Itoa(m.Words()),
		"dimensions": strconv.Itoa(m.Model().Dimensions), "name": m.Model().Provider + "/" + m.Model().Name,
	} {
		row := regexp.MustCompile(`(?m)^\| ` + what + ` \| (.*) \|$`).FindStringSubmatch(string(card))
		if row == nil || strings.ReplaceAll(strings.Trim(row[1], "`"), ",", "") != want {
			t.Errorf("the card says %q for %s, and it is %s", row, what, want)
		}
	}
	if len(file) > 8_000_000 {
		t.Errorf("the model has %d bytes, want at most 8 MB", len(file))
	}
}

func TestLength(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", "the the the", "deploy", "ERR_CONN_RESET", "Größe", strings.Repeat("long text ", 6000), strings.Repeat("x", 5000), "日本語", "한국어", "हिन्दी"} {
		for _, v := range [][]float32{query(t, text), document(t, text)} {
			if length := dot(v, v); math.Abs(length-1) > 1e-5 {
				t.Errorf("%.20q has length %v, want 1", text, length)
			}
		}
	}
	for _, text := range []string{"", " \n\t", "…!?", "\xff\xfe"} {
		for _, v := range [][]float32{query(t, text), document(t, text)} {
			if len(v) != builtin(t).Model().Dimensions || dot(v, v) != 0 {
				t.Errorf("%q: want the zero vector, got length %v", text, dot(v, v))
			}
		}
	}
}

// A page repeats what it is about, a remark repeats by the way.
func TestRepeatedWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		times, words int
		want         float32
	}{{1, 5, 1}, {16, 20, 4}, {16, 70, 5}, {16, 120, 6}, {16, 5000, 6}, {1, 5000, 1}} {
		if got := static.Repeated(c.times, c.words); got != c.want {
			t.Errorf("%d times in %d words weigh %v, want %v", c.times, c.words, got, c.want)
		}
	}
	remark, page := document(t, "violin violin kettle"), document(t, "violin violin kettle "+strings.Repeat("the ", 200))
	if dot(remark, query(t, "violin")) <= dot(remark, query(t, "kettle")) || dot(page, query(t, "violin")) <= dot(page, query(t, "kettle")) {
		t.Error("a word that comes twice weighs no more than one that comes once")
	}
}

// What the hashed embedder cannot: texts that share a meaning and no word.
func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, similar, unrelated string }{
		{"doctor's appointment", "She sees her physician at the hospital tomorrow.", "The compiler inlines short functions."},
		{"which car did we buy", "They purchased a used automobile, a small vehicle with four doors.", "The choir sings on Sunday evening."},
		{"how to remove a file", "Deletes the specified directory and its contents.", "The king married a princess."},
		{"is she ill", "Her sickness began with fever and a cough.", "The server listens on port 443."},
		{"employment and wages", "He got a new job with a better salary.", "Rivers carry sediment to the sea."},
	} {
		q := query(t, c.query)
		near, far := dot(q, document(t, c.similar)), dot(q, document(t, c.unrelated))
		if near < far+0.05 {
			t.Errorf("%q: %.3f to %q, %.3f to %q", c.query, near, c.similar, far, c.unrelated)
		}
	}
}

// Words without a row are told apart by their spelling, and a misspelling stays near its word.
func TestSpelling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, same, other string }{
		{"zyqqorvax", "zyqqorvax is down", "wumblefitz is down"},
		{"certifcate expird", "the certificate expired", "the sourdough starter rises"},
		{"kubernets", "kubernetes upgrade notes", "kitchen cabinet measurements"},
	} {
		q := query(t, c.query)
		if same, other := dot(q, document(t, c.same)), dot(q, document(t, c.other)); same < 1.5*other || same < 0.05 {
			t.Errorf("%q: %.3f to %q, %.3f to %q", c.query, same, c.same, other, c.other)
		}
	}
}

// Of two texts about the same, the one that says more is nearer.
func TestShortDocumentsDoNotWin(t *testing.T) {
	t.Parallel()
	q := query(t, "when did Ann go to the pottery class")
	greeting, answer := dot(q, document(t, "Hi Ann!")), dot(q, document(t, "Ann: on Tuesday I went to a pottery class with my sister and made a bowl."))
	if greeting >= answer {
		t.Errorf("the greeting has %.3f, the answer %.3f", greeting, answer)
	}
}

func TestDocumentsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := builtin(t).EmbedDocuments(ctx, []string{"text"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context gives %v", err)
	}
}

// smallModel is the file of a model with two columns and the rows sea (1, 0) and harbour (0, 2). Other words' vectors have
// the length 0.5, and documents the constant 3.
func smallModel() string {
	file := []byte("TSE1")
	for _, number := range []uint32{2, 2, math.Float32bits(0.5), math.Float32bits(3)} {
		file = binary.LittleEndian.AppendUint32(file, number)
	}
	file = append(file, "\x03\x07seaharbour"...)
	for _, scale := range []float32{1. / 127, 2. / 127} {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(scale))
	}
	return string(append(file, 127, 0, 0, 127))
}

// The vectors of a model with two words and two columns can be computed by hand.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	m, err := static.Decode(smallModel())
	if err != nil {
		t.Fatal(err)
	}
	q, err := m.EmbedQuery(t.Context(), "Sea harbour sea harbour SEA seas")
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.EmbedDocuments(t.Context(), []string{"harbours"})
	if err != nil {
		t.Fatal(err)
	}
	// Four times sea counts 2, twice harbour √2·2.
	for i, want := range []float64{2 / math.Sqrt(12), math.Sqrt(8) / math.Sqrt(12), 0} {
		if math.Abs(float64(q[i])-want) > 0.01 {
			t.Errorf("query component %d is %v, want %v", i, q[i], want)
		}
	}
	for i, want := range []float64{0, 2 / math.Sqrt(13), 3 / math.Sqrt(13)} {
		if math.Abs(float64(d[0][i])-want) > 0.01 {
			t.Errorf("document component %d is %v, want %v", i, d[0][i], want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	file := smallModel()
	for name, broken := range map[string]string{
		"nothing":            "",
		"another kind":       "GGE1" + file[4:],
		"a byte short":       file[:len(file)-1],
		"a byte long":        file + "x",
		"the header only":    file[:20],
		"no words":           file[:4] + "\x00\x00\x00\x00" + file[8:],
		"too many words":     file[:4] + "\xff\xff\xff\xff" + file[8:],
		"too many columns":   file[:8] + "\xff\xff\xff\x7f" + file[12:],
		"another word count": file[:4] + "\x03\x00\x00\x00" + file[8:],
	} {
		if _, err := static.Decode(broken); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzEmbed(f *testing.F) {
	for _, text := range []string{"", "plain words", "Ünïcödé ﬃ ½", "\xff\x00a", "ＡＢＣ 東京", strings.Repeat("x", 200), "é́́́"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := query(t, text)
		if length := dot(v, v); length != 0 && math.Abs(length-1) > 1e-5 || math.IsNaN(length) {
			t.Fatalf("length %v", length)
		}
		if !slices.Equal(v, query(t, text)) {
			t.Fatal("a second call gives another vector")
		}
	})
}

const sentence = "Fenwright Labs is a fourteen-person company that sells tide and soil sensors to small harbours and growers. "

func BenchmarkQuery(b *testing.B) {
	m := builtin(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.EmbedQuery(b.Context(), "Which harbour did we deploy the new soil sensors to after the ERR_CONN_RESET incident?"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDocument100Words(b *testing.B) {
	m := builtin(b)
	texts := []string{strings.Join(strings.Fields(strings.Repeat(sentence, 10))[:100], " ")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.EmbedDocuments(b.Context(), texts); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is what the first query pays.
func BenchmarkLoad(b *testing.B) {
	text, err := os.ReadFile("model.bin")
	if err != nil {
		b.Fatal(err)
	}
	file := string(text)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := static.Decode(file); err != nil {
			b.Fatal(err)
		}
	}
}

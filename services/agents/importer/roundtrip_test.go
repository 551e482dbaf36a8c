package importer_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// arbitrary makes memories with every field set, or left out, at random.
type arbitrary struct{ *rand.Rand }

// alphabet has what encodings trip over: quotes, escapes, control characters, characters of one to four bytes, one that
// is written in two ways, marks of direction, line separators that JSON allows and others do not, and no character at all.
var alphabet = []rune("aZ09 \t\n\r\"'\\/<>&%$?:{}[]\x01\x1f\x7f\u0085äéé\u0301ß€中\u200b\u202e\u2028\u2029\ufeff\ufffd\uffff😀\U0010ffff")

func (a arbitrary) text(least, most int) string {
	var b strings.Builder
	for n := least + a.IntN(most-least+1); n > 0; n-- {
		b.WriteRune(alphabet[a.IntN(len(alphabet))])
	}
	return b.String()
}

func (a arbitrary) texts(most int) []string {
	out := make([]string, a.IntN(most+1))
	for i := range out {
		out[i] = a.text(1, 20)
	}
	return out
}

func (a arbitrary) number() float64 {
	switch a.IntN(6) {
	case 0:
		return float64(a.IntN(10))
	case 1:
		return []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, -math.MaxFloat64, 1 << 53, 1<<53 + 2, 0.1, 1e21, 1e-7, -1e-300}[a.IntN(9)]
	}
	for {
		if f := math.Float64frombits(a.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
}

func (a arbitrary) value(depth int) *structpb.Value {
	switch kind := a.IntN(7); {
	case kind == 0:
		return structpb.NewNullValue()
	case kind == 1:
		return structpb.NewBoolValue(a.IntN(2) == 0)
	case kind == 2 || depth == 0:
		return structpb.NewStringValue(a.text(0, 20))
	case kind == 3:
		list := &structpb.ListValue{}
		for range a.IntN(4) {
			list.Values = append(list.Values, a.value(depth-1))
		}
		return structpb.NewListValue(list)
	case kind == 4:
		return structpb.NewStructValue(a.object(depth - 1))
	}
	return structpb.NewNumberValue(a.number())
}

func (a arbitrary) object(depth int) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	for range a.IntN(5) {
		fields[a.text(0, 10)] = a.value(depth)
	}
	return &structpb.Struct{Fields: fields}
}

// time is one between the years 1 and 9999, to the microsecond.
func (a arbitrary) time() *timestamppb.Timestamp {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC).UnixMicro(), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
	if a.IntN(2) == 0 {
		first, last = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	}
	return timestamppb.New(time.UnixMicro(first + a.Int64N(last-first)))
}

func (a arbitrary) id() string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(a.Uint32())
	}
	return id.String()
}

// chain returns a memory and those that replaced it, in turn.
func (a arbitrary) chain(namespace string) []*triskelev1.Memory {
	out := make([]*triskelev1.Memory, 1+a.IntN(4)*a.IntN(2))
	for i := range out {
		importance := a.Float64()
		out[i] = &triskelev1.Memory{
			Id: a.id(), Namespace: namespace, Content: a.text(1, 200), Title: a.text(0, 30), ExpandedKeywords: a.texts(4), Tags: a.texts(4),
			Category: a.text(0, 10), Importance: &importance, Sensitive: a.IntN(3) == 0, Source: a.text(0, 30),
			CreatedAt: a.time(), UpdatedAt: a.time(), Revision: 1 + a.Int64N(1<<40),
		}
		m := out[i]
		if object := a.object(4); len(object.GetFields()) > 0 {
			m.Metadata = object
		}
		if a.IntN(2) == 0 {
			m.OccurredAt = a.time()
		}
		if a.IntN(3) == 0 {
			m.ExpiresAt = a.time()
		}
		if a.IntN(2) == 0 {
			m.IdempotencyKey = a.id() + a.text(0, 10)
		}
		if a.IntN(2) == 0 {
			m.Thread = a.text(1, 20)
			if position := a.Int64N(1 << 53); a.IntN(2) == 0 {
				m.Position = &position
			}
		}
		for range a.IntN(4) {
			m.Links = append(m.Links, &triskelev1.Link{Target: a.id(), Relation: a.text(1, 10)})
		}
		if i > 0 {
			m.Supersedes, out[i-1].SupersededBy = out[i-1].GetId(), m.GetId()
		}
	}
	return out
}

// lines writes memories as an export does, in its order.
func lines(t *testing.T, memories []*triskelev1.Memory) []byte {
	t.Helper()
	slices.SortFunc(memories, func(a, b *triskelev1.Memory) int {
		if n := a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime()); n != 0 {
			return n
		}
		return strings.Compare(a.GetId(), b.GetId())
	})
	var out []byte
	for _, m := range memories {
		line, err := render.JSONLine(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line...)
	}
	return out
}

func exported(t *testing.T, c triskelev1.MemoryServiceClient, namespace string) []byte {
	t.Helper()
	stream, err := c.Export(t.Context(), &triskelev1.ExportRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range resp.GetMemories() {
			line, err := render.JSONLine(m)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, line...)
		}
	}
}

func file(text []byte, namespace string) *importer.JSONL {
	return &importer.JSONL{Name: "export", Size: int64(len(text)), Namespace: namespace, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}}
}

// FuzzRoundTrip imports arbitrary memories into one store, its export into the other and another namespace, and theirs
// back again: not a bit may change, and nothing may be stored twice.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint64(1), uint16(450)) // more than two batches
	f.Add(uint64(2), uint16(60))
	f.Add(uint64(3), uint16(60))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		n %= 500
		a := arbitrary{rand.New(rand.NewPCG(seed, uint64(n)))}
		memories := a.chain("n")
		for len(memories) < int(n) {
			memories = append(memories, a.chain("n")...)
		}
		text := lines(t, memories)
		clients := map[string]triskelev1.MemoryServiceClient{"sqlite": storetest.SQLite(t).Client(t), "postgres": storetest.Postgres(t).Client(t)}
		for first, c := range clients {
			for second, other := range clients {
				namespace := fmt.Sprintf("%s-to-%s", first, second)
				there := bytes.ReplaceAll(text, []byte(`"namespace":"n"`), []byte(`"namespace":"`+namespace+`"`))
				for _, step := range []struct {
					to        triskelev1.MemoryServiceClient
					namespace string
					text      []byte
				}{{c, "", text}, {other, namespace, text}, {other, namespace, text}, {c, "", text}} {
					report := runs(t, step.to, file(step.text, step.namespace), importer.Options{})
					if report.Stored+report.Unchanged != int64(len(memories)) || report.Stored > 0 && report.Unchanged > 0 || report.Skipped > 0 {
						t.Fatalf("%s: %s", namespace, report)
					}
					want := step.text
					if step.namespace != "" {
						want = there
					}
					same(t, want, exported(t, step.to, cmp.Or(step.namespace, "n")))
				}
			}
		}
	})
}

// same fails the test at the first line that differs.
func same(t *testing.T, want, got []byte) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	wants, gots := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range min(len(wants), len(gots)) {
		if !bytes.Equal(wants[i], gots[i]) {
			t.Fatalf("line %d\n%s\nbecame\n%s", i+1, wants[i], gots[i])
		}
	}
	t.Fatalf("%d lines became %d", len(wants), len(gots))
}

package importer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// jsonl is a source of lines.
func jsonl(lines ...string) *importer.JSONL {
	text := strings.Join(lines, "\n")
	return &importer.JSONL{Name: "notes", Size: int64(len(text)), DefaultNamespace: "n", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// numbered returns lines with different contents.
func numbered(from, to int) []string {
	var lines []string
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf(`{"content": "note %d"}`, i))
	}
	return lines
}

func runs(t *testing.T, c triskelev1.MemoryServiceClient, source importer.Source, options importer.Options) *importer.Report {
	t.Helper()
	report, err := importer.Run(t.Context(), c, source, options)
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	return report
}

// want fails the test unless a report counts so.
func want(t *testing.T, what string, got *importer.Report, stored, unchanged, updated, forgotten, skipped int64) {
	t.Helper()
	if got.Stored != stored || got.Unchanged != unchanged || got.Updated != updated || got.Forgotten != forgotten || got.Skipped != skipped {
		t.Errorf("%s: %s", what, got)
	}
}

// all returns the contents of a namespace, oldest first.
func all(t *testing.T, f *storetest.Fixture, namespace string) []record.Record {
	t.Helper()
	var found []record.Record
	if err := f.Memory.Scan(t.Context(), namespace, 100, func(batch []record.Record) error {
		found = append(found, batch...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// flaky is a client whose call for the batch with a given text fails, after the server has stored what it sent.
type flaky struct {
	triskelev1.MemoryServiceClient
	text string
}

var errCut = errors.New("cut off")

func (c *flaky) Import(ctx context.Context, options ...grpc.CallOption) (grpc.ClientStreamingClient[triskelev1.ImportRequest, triskelev1.ImportResponse], error) {
	stream, err := c.MemoryServiceClient.Import(ctx, options...)
	return &flakyStream{stream, c.text, false}, err
}

type flakyStream struct {
	grpc.ClientStreamingClient[triskelev1.ImportRequest, triskelev1.ImportResponse]
	text string
	cut  bool
}

func (s *flakyStream) Send(req *triskelev1.ImportRequest) error {
	s.cut = slices.ContainsFunc(req.GetMemories(), func(m *triskelev1.Memory) bool { return m.GetContent() == s.text })
	return s.ClientStreamingClient.Send(req)
}

func (s *flakyStream) CloseAndRecv() (*triskelev1.ImportResponse, error) {
	resp, err := s.ClientStreamingClient.CloseAndRecv()
	if err == nil && s.cut {
		return nil, errCut
	}
	return resp, err
}

// overlapping is a client that reports whether a batch is sent while another one is stored. The first one waits for that, a moment.
type overlapping struct {
	triskelev1.MemoryServiceClient
	calls   atomic.Int64
	overlap chan struct{}
}

func (c *overlapping) Import(ctx context.Context, options ...grpc.CallOption) (grpc.ClientStreamingClient[triskelev1.ImportRequest, triskelev1.ImportResponse], error) {
	first := c.calls.Add(1) == 1
	if !first {
		select {
		case c.overlap <- struct{}{}:
		default:
		}
	}
	stream, err := c.MemoryServiceClient.Import(ctx, options...)
	return &overlappingStream{stream, c, first}, err
}

type overlappingStream struct {
	grpc.ClientStreamingClient[triskelev1.ImportRequest, triskelev1.ImportResponse]
	client *overlapping
	first  bool
}

func (s *overlappingStream) CloseAndRecv() (*triskelev1.ImportResponse, error) {
	if s.first {
		select {
		case <-s.client.overlap:
			return nil, errors.New("another batch is sent meanwhile")
		case <-time.After(300 * time.Millisecond):
		}
	}
	return s.ClientStreamingClient.CloseAndRecv()
}

// A memory and its successor are not stored at the same time: neither would know of the other.
func TestSuccessorsWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	old, newer := "01985a3c-7c1f-7000-8000-000000000001", "01985a3c-7c1f-7000-8000-000000000002"
	source := jsonl(slices.Concat([]string{`{"content": "old", "id": "` + old + `"}`}, numbered(0, 200), []string{`{"content": "new", "id": "` + newer + `", "supersedes": "` + old + `"}`})...)
	runs(t, &overlapping{MemoryServiceClient: f.Client(t), overlap: make(chan struct{}, 1)}, source, importer.Options{})
	for _, r := range all(t, f, "n") {
		if r.ID.String() == old && r.SupersededBy.String() != newer {
			t.Errorf("superseded by %s, want %s", r.SupersededBy, newer)
		}
	}
}

func TestAnInterruptedImportIsRunAgain(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := f.Client(t)
		lines := numbered(0, 1500)
		lines[100] = "not a memory"
		report, err := importer.Run(t.Context(), &flaky{MemoryServiceClient: c, text: "note 650"}, jsonl(lines...), importer.Options{})
		if !errors.Is(err, errCut) || report.Stored != 600 || report.Skipped != 1 {
			t.Fatalf("%v, %s", err, report)
		}
		report = runs(t, c, jsonl(lines...), importer.Options{})
		if report.Skipped != 1 || len(report.Problems) != 1 || report.Stored+report.Unchanged != 1499 || report.Unchanged < 800 {
			t.Errorf("again: %s", report)
		}
		if n := len(all(t, f, "n")); n != 1499 {
			t.Errorf("%d memories", n)
		}
	})
}

func TestEqualLinesAreTwoMemories(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := f.Client(t)
		source := jsonl(`{"content": "a", "tags": ["x"]}`, ``, `{"tags": ["x"], "content": "a"}`, `{"content": "b"}`)
		want(t, "dry run", runs(t, c, source, importer.Options{DryRun: true}), 3, 0, 0, 0, 0)
		want(t, "first", runs(t, c, source, importer.Options{}), 3, 0, 0, 0, 0)
		want(t, "again", runs(t, c, source, importer.Options{}), 0, 3, 0, 0, 0)
		want(t, "dry run of all", runs(t, c, source, importer.Options{DryRun: true}), 0, 3, 0, 0, 0)
		if n := len(all(t, f, "n")); n != 3 {
			t.Errorf("%d memories", n)
		}
	})
}

func TestBadLinesAreNamed(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	c := f.Client(t)
	lines := []string{
		`{"content": "taken", "idempotency_key": "k"}`, `{`, `{"content": "x", "importance": 7}`, `{"content": ""}`,
		`{"content": "x", "metadata": {"a": "` + strings.Repeat("x", 20<<10) + `"}}`, strings.Repeat("x", 5<<20),
		`{"content": "other", "idempotency_key": "k"}`, `{"content": "x", "namespace": "Not A Name"}`,
		`{"content": "big", "metadata": {"id": [12345678901234567890, 1]}}`, `{"content": "exact", "metadata": {"id": 36028797018963968}}`, "\xff", `{"content": "\ud800"}`,
	}
	source := jsonl(lines...)
	source.DefaultNamespace = "bad"
	report := runs(t, c, source, importer.Options{})
	want(t, "bad lines", report, 3, 0, 0, 0, 9)
	got := map[string]string{}
	for _, p := range report.Problems {
		got[p.Position] = p.Reason
	}
	wanted := map[string]string{
		"notes:2": "not a memory", "notes:3": "invalid importance", "notes:4": "invalid content", "notes:5": "invalid metadata", "notes:6": "line too long",
		"notes:7": "conflict", "notes:8": "invalid namespace", "notes:9": "number rounded", "notes:11": "not a memory", "notes:12": "not a memory",
	}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("got  %v\nwant %v", got, wanted)
	}
	if !slices.ContainsFunc(report.Problems, func(p importer.Problem) bool {
		return p.Position == "notes:12" && strings.Contains(p.Detail, `\ud800 is half of a surrogate pair`)
	}) {
		t.Errorf("half a character: %+v", report.Problems)
	}

	source.DefaultNamespace = "strict"
	if _, err := importer.Run(t.Context(), c, source, importer.Options{Strict: true}); err == nil || !strings.HasPrefix(err.Error(), "notes:2: ") {
		t.Errorf("strict: %v", err)
	}
	conflicting := jsonl(lines[0], `{"content": "before"}`, lines[6], `{"content": "after"}`)
	conflicting.DefaultNamespace = "conflict"
	if _, err := importer.Run(t.Context(), c, conflicting, importer.Options{Strict: true}); err == nil || !strings.HasPrefix(err.Error(), "notes:3: ") {
		t.Errorf("strict: %v", err)
	}
	if found := all(t, f, "conflict"); len(found) != 2 {
		t.Errorf("%d memories up to the conflict", len(found))
	}
}

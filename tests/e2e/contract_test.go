package e2e_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// raw sends bytes as they are, which no generated client would.
type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(d mem.BufferSlice, v any) error {
	*v.(*[]byte) = d.Materialize()
	return nil
}
func (raw) Name() string { return "proto" }

func objectFilter(t *testing.T) *triskelev1.Filter {
	t.Helper()
	value, err := structpb.NewValue(map[string]any{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	return &triskelev1.Filter{Metadata: map[string]*structpb.Value{"k": value}}
}

// TestBadInputIsNamed sends what clients get wrong, through the gateway and, for records, on to the memory service.
func TestBadInputIsNamed(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.seed("known")
	recall := func(edit func(*triskelev1.RecallRequest)) func() error {
		return func() error {
			req := &triskelev1.RecallRequest{Namespaces: []string{"known"}, Query: "backup"}
			edit(req)
			_, err := s.recall.Recall(t.Context(), req)
			return err
		}
	}
	remember := func(m *triskelev1.Memory) func() error {
		return func() error {
			_, err := s.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: m})
			return err
		}
	}
	never := revision.Token{Namespace: "known", Sequence: 1 << 40}.String()
	number := func(x float64) *float64 { return &x }
	count := func(x int32) *int32 { return &x }
	malformed := func() error {
		query := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "known")
		query = protowire.AppendString(protowire.AppendTag(query, 2, protowire.BytesType), "\xff")
		var out []byte
		return s.conn.Invoke(t.Context(), triskelev1.RecallService_Recall_FullMethodName, query, &out, grpc.ForceCodecV2(raw{}))
	}
	for name, x := range map[string]struct {
		call  func() error
		field string
		bound string
	}{
		"oversized content": {remember(&triskelev1.Memory{Namespace: "known", Content: strings.Repeat("x", 65537)}), "memory.content", "65536"},
		"no content":        {remember(&triskelev1.Memory{Namespace: "known"}), "memory.content", "1"},
		"importance 1.5":    {remember(&triskelev1.Memory{Namespace: "known", Content: "x", Importance: number(1.5)}), "memory.importance", "1"},
		"importance NaN":    {remember(&triskelev1.Memory{Namespace: "known", Content: "x", Importance: number(math.NaN())}), "memory.importance", "1"},
		"server's field":    {remember(&triskelev1.Memory{Namespace: "known", Content: "x", Revision: 3}), "memory.revision", "unset"},
		"17 namespaces": {recall(func(r *triskelev1.RecallRequest) {
			r.Namespaces = nil
			for i := range 17 {
				r.Namespaces = append(r.Namespaces, fmt.Sprint("n", i))
			}
		}), "namespaces", "16"},
		"unknown namespace":    {recall(func(r *triskelev1.RecallRequest) { r.Namespaces = []string{"nowhere"} }), "namespaces[0]", "unknown"},
		"limit 0":              {recall(func(r *triskelev1.RecallRequest) { r.Limit = count(0) }), "limit", "1"},
		"limit 10^6":           {recall(func(r *triskelev1.RecallRequest) { r.Limit = count(1_000_000) }), "limit", "1000"},
		"500 KB query":         {recall(func(r *triskelev1.RecallRequest) { r.Query = strings.Repeat("x", 500_000) }), "query", "32768"},
		"wrong dimensions":     {recall(func(r *triskelev1.RecallRequest) { r.Vector = []float32{1, 2, 3} }), "vector", "384"},
		"filter on an object":  {recall(func(r *triskelev1.RecallRequest) { r.Filter = objectFilter(t) }), "filter.metadata", "string"},
		"budget of an hour":    {recall(func(r *triskelev1.RecallRequest) { r.Budget = durationpb.New(time.Hour) }), "budget", "60"},
		"no token":             {recall(func(r *triskelev1.RecallRequest) { r.AtLeast = []string{"newest"} }), "at_least[0]", "revision token"},
		"token of no write":    {recall(func(r *triskelev1.RecallRequest) { r.AtLeast = []string{never} }), "at_least", `"known"`},
		"leg that isn't there": {recall(func(r *triskelev1.RecallRequest) { r.RequiredLegs = []string{"psychic"} }), "required_legs[0]", "lexical"},
	} {
		st := status.Convert(x.call())
		if st.Code() != codes.InvalidArgument {
			t.Errorf("%s: %v", name, st.Err())
			continue
		}
		found := false
		for _, detail := range st.Details() {
			if bad, ok := detail.(*errdetails.BadRequest); ok {
				for _, v := range bad.GetFieldViolations() {
					found = found || v.GetField() == x.field && strings.Contains(v.GetDescription(), x.bound) || strings.HasPrefix(v.GetField(), x.field+"[") && strings.Contains(v.GetDescription(), x.bound)
				}
			}
		}
		if !found {
			t.Errorf("%s: no violation of %s that mentions %s in %v", name, x.field, x.bound, st.Proto())
		}
	}
	if got := status.Code(malformed()); got != codes.InvalidArgument {
		t.Errorf("malformed UTF-8: got %v, want %v", got, codes.InvalidArgument)
	}
	tooLong := recall(func(r *triskelev1.RecallRequest) { r.Query = strings.Repeat("x", 10_000_000) })
	if got := status.Code(tooLong()); got != codes.ResourceExhausted {
		t.Errorf("a query of 10 MB: got %v, want %v", got, codes.ResourceExhausted)
	}
	if ns, err := s.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: "known", Statistics: true}); err != nil || ns.GetMemories() != 20 {
		t.Errorf("something was stored by a refused call: %v, %v", ns, err)
	}
}

// TestRecordsThroughTheGateway walks a record through its life over the wire.
func TestRecordsThroughTheGateway(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.remember(&triskelev1.Memory{Namespace: "life", Content: "The heron nests by the weir.", IdempotencyKey: "k"})
	again, err := s.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "life", Content: "The heron nests by the weir.", IdempotencyKey: "k"}})
	if err != nil || again.GetStored() || again.GetMemory().GetId() != m.GetId() {
		t.Fatalf("retry: %v, %v", again, err)
	}
	token := again.GetRevisionToken()
	find := func(query string) []string {
		resp, err := s.recall.Recall(t.Context(), &triskelev1.RecallRequest{
			Namespaces: []string{"life"}, Query: query, RequiredLegs: []string{"lexical"}, Budget: durationpb.New(5 * time.Second), AtLeast: []string{token},
		})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, h := range resp.GetHits() {
			out = append(out, h.GetMemory().GetContent())
		}
		return out
	}
	if got := find("heron weir"); len(got) != 1 {
		t.Fatalf("found %q", got)
	}
	replaced, err := s.memory.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: m.GetId(), Replacement: &triskelev1.Memory{Namespace: "life", Content: "The heron nests on the island."}})
	if err != nil {
		t.Fatal(err)
	}
	token = replaced.GetRevisionToken()
	if got := find("where does the heron nest"); len(got) != 1 || got[0] != "The heron nests on the island." {
		t.Errorf("after it was superseded: %q", got)
	}
	if _, err := s.memory.Update(t.Context(), &triskelev1.UpdateRequest{Namespace: "life", Id: replaced.GetMemory().GetId(), ExpectedRevision: 9}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no mask: %v", err)
	}
	forgot, err := s.memory.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: "life", Ids: []string{m.GetId(), replaced.GetMemory().GetId()}})
	if err != nil || forgot.GetForgotten() != 2 {
		t.Fatalf("forget: %v, %v", forgot, err)
	}
	if got := find("heron"); len(got) != 0 {
		t.Errorf("after it was forgotten: %q", got)
	}
	if _, err := s.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: "nowhere"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown namespace: %v", err)
	}
}

// TestReadYourWrites stores in two namespaces and asks both at once: each leg of each knows of both writes. Then the
// embedding model changes: a dense leg that has not been restarted says that it does not, and one that has been does.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	s := start(t)
	namespaces, stored := []string{"mine", "yours"}, map[string]bool{}
	var tokens []string
	for _, namespace := range namespaces {
		resp, err := s.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: namespace, Content: "The Heron crane is serviced in spring."}})
		if err != nil {
			t.Fatal(err)
		}
		tokens, stored[resp.GetMemory().GetId()] = append(tokens, resp.GetRevisionToken()), true
	}
	check := func(when string, staleDense bool) {
		t.Helper()
		resp, err := s.recall.Recall(t.Context(), &triskelev1.RecallRequest{
			Namespaces: namespaces, Query: "when is the Heron crane serviced", AtLeast: tokens, Explain: true, Budget: durationpb.New(20 * time.Second),
		})
		if err != nil || resp.GetDegraded() != staleDense || len(resp.GetHits()) != 2 || len(resp.GetLegs()) != 6 {
			t.Fatalf("%s: %v, %v", when, err, resp)
		}
		for _, hit := range resp.GetHits() {
			if !stored[hit.GetId()] || len(hit.GetContributions()) != 3 {
				t.Errorf("%s: hit %v", when, hit)
			}
		}
		for _, l := range resp.GetLegs() {
			if l.GetStale() != (staleDense && l.GetLeg() == "dense") {
				t.Errorf("%s: %v", when, l)
			}
		}
	}
	check("at once", false)
	up{s, []string{"--postgres", s.url}}.must("reembed", "--embedder", "hashed?dims=128")
	check("searching the retired model", true)
	s.signal("dense", syscall.SIGTERM)
	s.processes["dense"].args = append(s.processes["dense"].args, "--embedder", "hashed?dims=128")
	s.run("dense")
	s.awaitServing("dense")
	s.eventually("the gateway uses the dense leg again", func() bool {
		resp, err := s.ask("mine", 5*time.Second)
		return err == nil && report(resp, "dense").GetState() == triskelev1.LegState_LEG_STATE_OK
	})
	check("searching the active model", false)
}

// TestNamespacesThroughTheGateway lists, counts, renames and deletes over the wire.
func TestNamespacesThroughTheGateway(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.remember(&triskelev1.Memory{Namespace: "team/herons", Title: "Heron", Content: "The heron nests by the weir."})
	s.remember(&triskelev1.Memory{Namespace: "team/terns", Content: "The tern nests on the roof."})
	s.awaitIndexes("team/herons")
	size := int32(1)
	var names []string
	req := &triskelev1.ListNamespacesRequest{Prefix: "team/", PageSize: &size}
	for {
		page, err := s.memory.ListNamespaces(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range page.GetNamespaces() {
			names = append(names, n.GetNamespace())
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	if !slices.Equal(names, []string{"team/herons", "team/terns"}) {
		t.Errorf("listed %v", names)
	}
	if _, err := s.memory.ListNamespaces(t.Context(), &triskelev1.ListNamespacesRequest{PageToken: "?"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("bad token: %v", err)
	}
	info, err := s.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: "team/herons"})
	if err != nil || info.GetStatistics() != nil || info.GetMemories() != 0 {
		t.Errorf("without statistics: %v, %v", info, err)
	}
	info, err = s.memory.GetNamespace(t.Context(), &triskelev1.GetNamespaceRequest{Namespace: "team/herons", Statistics: true})
	if err != nil || info.GetMemories() != 1 || info.GetStatistics().GetLive() != 1 || len(info.GetStatistics().GetIndexes()) != 2 {
		t.Errorf("with statistics: %v, %v", info, err)
	}
	rename := func(from, to string) (*triskelev1.RenameNamespaceResponse, error) {
		return s.memory.RenameNamespace(t.Context(), &triskelev1.RenameNamespaceRequest{Namespace: from, NewName: to})
	}
	if _, err := rename("team/herons", "team/terns"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("to a name that is taken: %v", err)
	}
	if _, err := rename("team/gulls", "team/auks"); status.Code(err) != codes.NotFound {
		t.Errorf("of an unknown one: %v", err)
	}
	if _, err := rename("team/herons", "Team"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("to a bad name: %v", err)
	}
	if resp, err := rename("team/herons", "team/egrets"); err != nil || resp.GetMemories() != 1 {
		t.Fatalf("rename: %v, %v", resp, err)
	}
	find := func(namespace string) (*triskelev1.RecallResponse, error) {
		return s.recall.Recall(t.Context(), &triskelev1.RecallRequest{
			Namespaces: []string{namespace, "team/terns"}, Query: "Heron weir", Explain: true, Budget: durationpb.New(5 * time.Second),
			RequiredLegs: []string{"lexical", "dense", "graph"},
		})
	}
	resp, err := find("team/egrets")
	if err != nil || len(resp.GetHits()) == 0 || resp.GetHits()[0].GetMemory().GetId() != m.GetId() || len(resp.GetHits()[0].GetContributions()) != 3 {
		t.Errorf("after the rename: %v, %v", resp, err)
	}
	if _, err := find("team/herons"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("by the old name: %v", err)
	}
	remove := func() int64 {
		resp, err := s.memory.DeleteNamespace(t.Context(), &triskelev1.DeleteNamespaceRequest{Namespace: "team/egrets"})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetForgotten()
	}
	if first, again := remove(), remove(); first != 1 || again != 0 {
		t.Errorf("forgot %d, then %d", first, again)
	}
	if got, err := s.memory.Get(t.Context(), &triskelev1.GetRequest{Namespace: "team/egrets", Ids: []string{m.GetId()}}); err != nil || len(got.GetMemories()) != 0 {
		t.Errorf("after the deletion: %v, %v", got, err)
	}
}

// TestTraceSpansEveryHopAndNoText asks for the waterfall of one recall: every process down to SQL is in it, linked into
// one tree, and neither it nor any log quotes the query or a memory.
func TestTraceSpansEveryHopAndNoText(t *testing.T) {
	t.Parallel()
	s := start(t)
	const canary = "xylophonequetzal"
	s.remember(&triskelev1.Memory{Namespace: "trace", Title: "Canary " + canary, Content: "The word is " + canary + ".", Tags: []string{canary}})
	secret := s.remember(&triskelev1.Memory{Namespace: "trace", Content: "Door code " + canary + " secret", Sensitive: true})
	s.awaitIndexes("trace")
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5, 6}, TraceFlags: trace.FlagsSampled,
	}))
	resp, err := s.recall.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{"trace"}, Query: "What is the word " + canary + "?", ReturnSpans: true, Explain: true, Budget: durationpb.New(5 * time.Second),
	})
	if err != nil || len(resp.GetHits()) != 2 {
		t.Fatalf("%v, %v", resp, err)
	}
	if want := (trace.TraceID{1, 2, 3}).String(); resp.GetTraceId() != want {
		t.Errorf("trace id %s, want the caller's %s", resp.GetTraceId(), want)
	}
	ids, seen := map[string]bool{}, map[string]bool{}
	for _, span := range resp.GetSpans() {
		ids[span.GetId()] = true
		seen[span.GetService()+" "+span.GetName()] = true
		seen[span.GetService()+" sql"] = seen[span.GetService()+" sql"] || span.GetAttributes()["db.system.name"] != "" || span.GetAttributes()["db.system"] != ""
	}
	for _, want := range []string{"fuser search_memory", "lexical lexical.search", "dense dense.search", "graph graph.search"} {
		if !seen[want] {
			t.Errorf("no span %q among %v", want, seen)
		}
	}
	orphans := 0
	for _, span := range resp.GetSpans() {
		if !ids[span.GetParentId()] {
			orphans++ // its parent is a server span, which ends after the answer is sent
		}
	}
	if orphans == len(resp.GetSpans()) {
		t.Error("the spans form no tree")
	}
	for _, hit := range resp.GetHits() {
		if hit.GetId() != secret.GetId() {
			continue
		}
		for _, c := range hit.GetContributions() {
			if c.GetLeg() != "lexical" {
				t.Errorf("a sensitive memory was found by the %s leg", c.GetLeg())
			}
		}
	}
	for _, span := range resp.GetSpans() {
		if strings.Contains(span.String(), canary) {
			t.Errorf("a span quotes text: %v", span)
		}
	}
	if strings.Contains(s.logs(), canary) {
		t.Error("a log quotes text")
	}
}

func TestEveryServerHasHealthAndReflection(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, p := range s.processes {
		conn, err := rpc.Dial(p.address, s.tel)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%s: health %v, %v", name, resp, err)
		}
		stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"fuser": "triskele.v1.RecallService", "memory": "triskele.v1.MemoryService"}[name]
		if want == "" {
			want = "triskele.v1.LegService"
		}
		if resp, err := stream.Recv(); err != nil || !strings.Contains(resp.String(), want) {
			t.Errorf("%s: reflection %v, %v", name, resp, err)
		}
	}
}

// TestCutConnectionsAreReplaced cuts every connection of the services to the database, as a failover does.
func TestCutConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.seed("cut")
	admin := s.sql()
	var name string
	if err := admin.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE 'triskele-%'`, name); err != nil {
		t.Fatal(err)
	}
	s.eventually("recalls work over new connections", func() bool {
		resp, err := s.ask("cut", time.Second)
		return err == nil && !resp.GetDegraded() && len(resp.GetHits()) > 0
	})
}

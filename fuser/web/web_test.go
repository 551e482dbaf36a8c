package web_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/web"
	"github.com/triskele/triskele/proto/client/clienttest"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const absent = "01980000-0000-7000-8000-000000000001"

// fake is the client package's, with what it lacks and a look at what reaches it.
type fake struct {
	*clienttest.Fake
	mu     sync.Mutex
	ctx    context.Context                                                                      // of the last recall
	update *triskelev1.UpdateRequest                                                            // the last
	stored int64                                                                                // by the last import that came to its end
	recall func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) // instead, if not nil
}

func (f *fake) Recall(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
	f.mu.Lock()
	f.ctx = ctx
	f.mu.Unlock()
	if f.recall != nil {
		return f.recall(ctx, req)
	}
	return f.Fake.Recall(ctx, req)
}

func (f *fake) Update(_ context.Context, req *triskelev1.UpdateRequest) (*triskelev1.UpdateResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update = req
	return &triskelev1.UpdateResponse{Memory: req.GetMemory()}, nil
}

func (f *fake) GetNamespace(_ context.Context, req *triskelev1.GetNamespaceRequest) (*triskelev1.GetNamespaceResponse, error) {
	return &triskelev1.GetNamespaceResponse{Namespace: req.GetNamespace()}, nil
}

func (f *fake) RenameNamespace(_ context.Context, req *triskelev1.RenameNamespaceRequest) (*triskelev1.RenameNamespaceResponse, error) {
	return nil, status.Errorf(codes.AlreadyExists, "new_name: %s is taken", req.GetNewName())
}

func (f *fake) Import(stream grpc.ClientStreamingServer[triskelev1.ImportRequest, triskelev1.ImportResponse]) error {
	out := &triskelev1.ImportResponse{}
	for {
		req, err := stream.Recv()
		if err == io.EOF {
			f.mu.Lock()
			f.stored = out.GetStored()
			f.mu.Unlock()
			return stream.SendAndClose(out)
		}
		if err != nil {
			return err
		}
		out.Stored += int64(len(req.GetMemories()))
	}
}

// Export sends more than all buffers on the way take, and gives up callers who read nothing.
func (f *fake) Export(req *triskelev1.ExportRequest, stream grpc.ServerStreamingServer[triskelev1.ExportResponse]) error {
	if req.GetNamespace() != "large" {
		return f.Fake.Export(req, stream)
	}
	resp := &triskelev1.ExportResponse{Memories: []*triskelev1.Memory{{Content: strings.Repeat("x", 1<<20)}}}
	for range 64 {
		if err := rpc.SendInTime(stream.Send, resp, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// gateway is a server of the fake, as fuserd is of the gateway.
type gateway struct {
	*fake
	t       testing.TB
	address string
	stop    func() // and wait
}

func start(t testing.TB, flags web.Flags, listener auth.Listener, access auth.Access) *gateway {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tel, log := process.Service("test"), slog.New(slog.DiscardHandler)
	listener.Listen, listener.TLS.Reload = "127.0.0.1:0", time.Minute
	server, at, err := listener.Open(access, tel, log)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{fake: &fake{Fake: clienttest.NewFake()}, t: t, address: at.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	triskelev1.RegisterRecallServiceServer(server, g)
	triskelev1.RegisterMemoryServiceServer(server, g)
	server.Ready()
	closeWeb, err := web.Open(ctx, flags, server, at.Addr(), log)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Run(ctx, at) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		closeWeb()
	})
	t.Cleanup(g.stop)
	return g
}

func startPlain(t *testing.T) *gateway {
	return start(t, web.Flags{HTTP: true}, auth.Listener{}, auth.Access{})
}

// ask sends a request; a body is JSON unless the header says otherwise. Headers are "Name: value".
func (g *gateway) ask(c *http.Client, method, url, body string, headers ...string) (*http.Response, string) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp, string(text)
}

const (
	memory = `{"namespace": "acme/ops", "content": "Deploys are frozen."}`
	frozen = `{"namespaces": ["acme/ops"], "query": "frozen deploys"}`
)

func TestJSON(t *testing.T) {
	g := startPlain(t)
	stored, err := g.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "acme/ops", Content: "Deploys are frozen."}})
	if err != nil {
		t.Fatal(err)
	}
	id := stored.GetMemory().GetId()
	long := strings.Repeat("x", 1<<20)
	for name, x := range map[string]struct {
		method, path, body string
		headers            []string
		code               int
		says               string
	}{
		"remember":                   {"POST", "/v1/memories", `{"namespace": "acme/dev", "content": "Tea at four.", "occurredAt": "2026-01-02T03:04:05Z"}`, nil, 200, `"occurred_at":"2026-01-02T03:04:05Z"`},
		"recall":                     {"POST", "/v1/recall", frozen, nil, 200, `"content":"Deploys are frozen."`},
		"recall by a short name":     {"POST", "/v1/recall", `{"fusion": {"method": "rrf"}, ` + frozen[1:], nil, 200, `"content":"Deploys are frozen."`},
		"recall by a wrong name":     {"POST", "/v1/recall", `{"fusion": {"method": "psychic"}, ` + frozen[1:], nil, 400, `invalid value for enum field method`},
		"list":                       {"GET", "/v1/memories?namespace=acme/ops&page_size=1", "", nil, 200, id},
		"get":                        {"GET", "/v1/memories/" + id + "?namespace=acme/ops", "", nil, 200, "frozen"},
		"get two":                    {"GET", "/v1/memories/" + id + "," + absent + "?namespace=acme%2Fops", "", nil, 200, "frozen"},
		"get by a body":              {"POST", "/v1/memories:get", `{"namespace": "acme/ops", "ids": ["` + id + `"]}`, nil, 200, "frozen"},
		"get what is not":            {"GET", "/v1/memories/" + id + "?namespace=acme/dev", "", nil, 404, `"message":"ids: no such memory"`},
		"supersede what is not":      {"POST", "/v1/memories/" + absent + ":supersede", memory, nil, 404, `"message":"no such memory`},
		"forget":                     {"DELETE", "/v1/memories/" + absent + "?namespace=acme/ops", "", nil, 200, `"forgotten":"0"`},
		"export":                     {"GET", "/v1/memories:export?namespace=acme/ops", "", nil, 200, `{"result":{"memories":[`},
		"export of no namespace":     {"GET", "/v1/memories:export?namespace=Acme", "", nil, 400, `"field_violations":[{"field":"namespace"`},
		"import":                     {"POST", "/v1/memories:import", `{"memories": [` + memory + `]}` + "\n" + `{"memories": [` + memory + `]}`, nil, 200, `"stored":"2"`},
		"import of garbage":          {"POST", "/v1/memories:import", `{"memories": [` + memory + `]} nonsense`, nil, 400, "object 2 of the body: syntax error (line 1:1)"},
		"import of lines":            {"POST", "/v1/memories:import", memory + "\n" + memory, nil, 400, `object 1 of the body: (line 1:2): unknown field \"namespace\"`},
		"a namespace":                {"GET", "/v1/namespaces/acme/ops", "", nil, 200, `"namespace":"acme/ops"`},
		"a conflict":                 {"POST", "/v1/namespaces/acme/ops:rename", `{"new_name": "x"}`, nil, 409, "new_name: x is taken"},
		"what is not served":         {"GET", "/v1/decisions?namespace=acme", "", nil, 501, `"code":12`},
		"the document":               {"GET", "/openapi.json", "", nil, 200, `"openapi": "3`},
		"whose document it is":       {"GET", "/openapi.json", "", nil, 200, `"url": "/"`},
		"nothing":                    {"GET", "/v2/recall", "", nil, 404, "/openapi.json"},
		"another method":             {"PUT", "/v1/recall", "{}", nil, 405, "method PUT is not allowed"},
		"a form":                     {"POST", "/v1/recall", frozen, []string{"Content-Type: application/x-www-form-urlencoded"}, 415, "application/json"},
		"a form as a GET":            {"POST", "/v1/memories", "namespace=acme", []string{"Content-Type: application/x-www-form-urlencoded", "X-HTTP-Method-Override: GET"}, 415, ""},
		"no JSON":                    {"POST", "/v1/recall", "{", nil, 400, "one JSON object"},
		"two objects":                {"POST", "/v1/recall", frozen + "{}", nil, 400, "one JSON object"},
		"a list":                     {"POST", "/v1/recall", "[]", nil, 400, `"code":3`},
		"an unknown field":           {"POST", "/v1/recall", `{"namespace": "acme"}`, nil, 400, `unknown field \"namespace\"`},
		"an unknown field inside":    {"POST", "/v1/memories", `{"kontent": "x"}`, nil, 400, `unknown field \"kontent\"`},
		"an unknown parameter":       {"GET", "/v1/memories?namspace=acme", "", nil, 400, "namspace: no such parameter"},
		"one beside a body":          {"POST", "/v1/recall?limit=5", frozen, nil, 400, "no parameters"},
		"one of a deletion":          {"DELETE", "/v1/namespaces/acme?dry_run=true", "", nil, 400, "no parameters"},
		"a malformed one":            {"DELETE", "/v1/namespaces/acme?dry;run", "", nil, 400, "no parameters"},
		"a parameter of the path":    {"GET", "/v1/namespaces/acme?namespace=other", "", nil, 400, "namespace: no such parameter"},
		"one of the path, too":       {"DELETE", "/v1/memories/x?namespace=acme&ids=y", "", nil, 400, "ids: no such parameter"},
		"one of the body":            {"PATCH", "/v1/memories/x?namespace=acme&memory.title=y", `{"content": "z"}`, nil, 400, "memory.title: no such parameter"},
		"a field twice":              {"POST", "/v1/recall", `{"namespaces": ["acme"], "query": "x", "sort_by": "recency", "filter": {"tags_any": ["x"]}, "filter": {}}`, nil, 400, `duplicate field \"filter\"`},
		"an unknown parameter below": {"GET", "/v1/memories?namespace=acme&filter.tag=x", "", nil, 400, "filter.tag: no such parameter"},
		"a parameter of no number":   {"GET", "/v1/memories?namespace=acme&page_size=many", "", nil, 400, `"field_violations":[{"field":"page_size","description":"must be a whole number of 32 bits"`},
		"a parameter of no time":     {"GET", "/v1/memories?namespace=acme&filter.created_from=yesterday", "", nil, 400, `"field_violations":[{"field":"filter.created_from","description":"must be a time such as 2026-`},
		"a parameter of no boolean":  {"GET", "/v1/namespaces/acme?statistics=yes", "", nil, 400, `"message":"statistics: must be true or false"`},
		"a parameter of no text":     {"GET", "/v1/memories?namespace=acme&filter=x", "", nil, 400, "filter: must be given by its fields, such as filter."},
		"a parameter given twice":    {"GET", "/v1/namespaces?prefix=a&prefix=b", "", nil, 400, "prefix: must be given once"},
		"a parameter of no UTF-8":    {"GET", "/v1/namespaces?prefix=%ff", "", nil, 400, `"field_violations":[{"field":"prefix","description":"must be UTF-8"`},
		"a list of no UTF-8":         {"GET", "/v1/memories?namespace=acme&filter.tags_any=x&filter.tags_any=%ff", "", nil, 400, "filter.tags_any: must be UTF-8"},
		"a path of no UTF-8":         {"GET", "/v1/namespaces/acme%ff", "", nil, 400, `"field_violations":[{"field":"namespace","description":"must be UTF-8"`},
		"a body of no UTF-8":         {"POST", "/v1/memories", `{"namespace": "acme", "content": "` + "\xff" + `"}`, nil, 400, "byte 35: must be UTF-8"},
		"half of a character":        {"POST", "/v1/memories", `{"namespace": "acme", "content": "\ud800"}`, nil, 400, "half of a surrogate pair"},
		"a tab in a text":            {"POST", "/v1/memories", `{"namespace": "acme", "content": "` + "\t" + `"}`, nil, 400, "byte 35: invalid character"},
		"a byte order mark":          {"POST", "/v1/memories", "\uFEFF" + memory, nil, 400, "byte order mark"},
		"a compressed body":          {"POST", "/v1/memories", "\x1f\x8b", []string{"Content-Encoding: gzip"}, 415, "Content-Encoding"},
		"a field out of bounds":      {"POST", "/v1/recall", `{"namespaces": ["acme"], "query": "x", "limit": 5000}`, nil, 400, `"field_violations":[{"field":"limit"`},
		"nothing to remember":        {"POST", "/v1/memories", `null`, nil, 400, `"code":3`},
		"a body that is too long":    {"POST", "/v1/recall", `"` + long + `"`, nil, 413, "524288"},
		"a body of a GET":            {"GET", "/v1/memories?namespace=acme", "{}", nil, 400, "no body"},
		"a wrong time":               {"POST", "/v1/recall", frozen, []string{"Grpc-Timeout: soon"}, 400, "grpc-timeout"},
		"too little time":            {"POST", "/v1/recall", frozen, []string{"Grpc-Timeout: 1n"}, 504, `"code":4`},
		"no time":                    {"POST", "/v1/recall", frozen, []string{"Grpc-Timeout: 0m"}, 504, `"code":4`},
		"time of no unit":            {"POST", "/v1/recall", frozen, []string{"Grpc-Timeout: 5"}, 400, "must be at most 8 digits"},
		"DNS rebinding":              {"GET", "/v1/memories?namespace=acme", "", []string{"Host: evil.example"}, 421, "localhost"},
		"a page of another site":     {"POST", "/v1/recall", frozen, []string{"Origin: https://evil.example"}, 403, "--http-allow-origin"},
		"its picture":                {"GET", "/v1/memories?namespace=acme/ops", "", []string{"Sec-Fetch-Site: cross-site"}, 403, "--http-allow-origin"},
		"its reading":                {"GET", "/v1/memories?namespace=acme/ops", "", []string{"Origin: https://evil.example"}, 403, "--http-allow-origin"},
		"a page of this site":        {"GET", "/v1/memories?namespace=acme/ops", "", []string{"Sec-Fetch-Site: same-origin"}, 200, "frozen"},
		"a person with a browser":    {"GET", "/v1/memories?namespace=acme/ops", "", []string{"Sec-Fetch-Site: none"}, 200, "frozen"},
	} {
		resp, text := g.ask(http.DefaultClient, x.method, "http://"+g.address+x.path, x.body, x.headers...)
		text = strings.ReplaceAll(text, `", "`, `","`) // spaces vary
		if resp.StatusCode != x.code || !strings.Contains(text, x.says) || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %.300s, want %d %s", name, resp.StatusCode, text, x.code, x.says)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s: answered as %s", name, kind)
		}
		if x.code != 200 && !strings.HasPrefix(text, `{"code":`) {
			t.Errorf("%s: %s is not an error as the others are", name, text)
		}
	}
}

// An import's objects that come before one that cannot be read are stored.
func TestImportOfABrokenBody(t *testing.T) {
	g := startPlain(t)
	object := `{"memories": [` + memory + `]}`
	resp, text := g.ask(http.DefaultClient, "POST", "http://"+g.address+"/v1/memories:import", object+object+`{"memory": {}}`+object)
	if g.mu.Lock(); resp.StatusCode != 400 || !strings.Contains(text, `object 3 of the body: (line 1:2): unknown field \"memory\"`) || g.stored != 2 {
		t.Errorf("got %d %s and %d stored, want 400 about the third and 2", resp.StatusCode, text, g.stored)
	}
	g.mu.Unlock()
}

// A method that a path lacks is answered with those that it has.
func TestAllow(t *testing.T) {
	g := startPlain(t)
	for path, want := range map[string]string{
		"/v1/recall":                 "POST",
		"/v1/memories":               "GET, POST",
		"/v1/memories/a":             "GET, PATCH, DELETE",
		"/v1/memories/a:supersede":   "GET, POST, PATCH, DELETE", // since an id may be anything
		"/v1/namespaces/acme/ops":    "GET, DELETE",
		"/triskele.v1.RecallService": "POST",
	} {
		var headers []string
		if strings.HasPrefix(path, "/triskele") {
			headers = append(headers, "Content-Type: application/grpc-web")
		}
		resp, text := g.ask(http.DefaultClient, "PUT", "http://"+g.address+path, "", headers...)
		if got := resp.Header.Get("Allow"); resp.StatusCode != 405 || got != want || !strings.Contains(text, `"code":12`) {
			t.Errorf("%s: %d, Allow %q, %s, want 405, Allow %q and one JSON object", path, resp.StatusCode, got, text, want)
		}
	}
}

// An update's mask is what its body has, unless the caller names fields. Metadata is a field like others.
func TestPatch(t *testing.T) {
	g := startPlain(t)
	for _, x := range [][3]string{
		{`{"title": "Freeze", "tags": []}`, "", "tags title"},
		{`{"title": "Freeze", "metadata": {"a": {"b": 1}, "c": 2}, "expandedKeywords": ["x"], "occurred_at": null}`, "", "expanded_keywords metadata occurred_at title"},
		{`{"title": "Freeze", "metadata": {}}`, "", "metadata title"},
		{`{"title": "Freeze", "category": "x"}`, "&update_mask=title", "title"},
	} {
		resp, text := g.ask(http.DefaultClient, "PATCH", "http://"+g.address+"/v1/memories/"+absent+"?namespace=acme/ops&expected_revision=3"+x[1], x[0])
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", x[0], resp.StatusCode, text)
		}
		u := g.update
		paths := strings.Join(slices.Sorted(slices.Values(u.GetUpdateMask().GetPaths())), " ")
		if u.GetNamespace() != "acme/ops" || u.GetId() != absent || u.GetExpectedRevision() != 3 || u.GetMemory().GetTitle() != "Freeze" || paths != x[2] {
			t.Errorf("%s%s: got %v, want the fields %s", x[0], x[1], u, x[2])
		}
	}
	for _, body := range []string{"{}", "null"} {
		resp, text := g.ask(http.DefaultClient, "PATCH", "http://"+g.address+"/v1/memories/"+absent+"?namespace=acme/ops", body)
		if resp.StatusCode != 400 || !strings.Contains(text, "at least one field to change") {
			t.Errorf("%s: got %d %s, want 400", body, resp.StatusCode, text)
		}
	}
}

// What a caller says about time and traces arrives, and only what is meant for the gateway does.
func TestWhatIsPassedOn(t *testing.T) {
	g := startPlain(t)
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	if resp, text := g.ask(http.DefaultClient, "POST", "http://"+g.address+"/v1/recall", frozen, "Traceparent: 00-"+traceID+"-b7ad6b7169203331-01", "Grpc-Timeout: 7S"); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	if got := trace.SpanContextFromContext(g.ctx).TraceID().String(); got != traceID {
		t.Errorf("trace %s", got)
	}
	if at, ok := g.ctx.Deadline(); !ok || time.Until(at) > 7*time.Second {
		t.Errorf("deadline %v %v", at, ok)
	}
	if resp, _ := g.ask(http.DefaultClient, "POST", "http://"+g.address+"/v1/recall", frozen); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	if at, ok := g.ctx.Deadline(); ok { // or the budget would not be the gateway's default
		t.Errorf("a deadline that nobody has set: %v", at)
	}
}

// A caller who goes away ends the call.
func TestGoneCaller(t *testing.T) {
	g := startPlain(t)
	began, ended := make(chan struct{}), make(chan struct{})
	g.recall = func(ctx context.Context, _ *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+g.address+"/v1/recall", strings.NewReader(frozen))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	go func() {
		<-began
		leave()
	}()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("an answer")
	}
	<-ended
}

func TestOrigins(t *testing.T) {
	const friend = "https://app.example"
	g := start(t, web.Flags{HTTP: true, Origins: []string{"https://App.Example"}}, auth.Listener{}, auth.Access{}) // browsers send it in lower case
	url := "http://" + g.address + "/v1/recall"
	for name, x := range map[string]struct {
		method, body string
		origin       string
		code         int
		allowed      string
	}{
		"a page that may":               {"POST", frozen, friend, 200, friend},
		"a page that may not":           {"POST", frozen, "https://evil.example", 403, ""},
		"reading by a page that may":    {"GET", "", friend, 405, friend},
		"reading by one that may not":   {"GET", "", "https://evil.example", 403, ""},
		"asking first":                  {"OPTIONS", "", friend, 204, friend},
		"asking first from elsewhere":   {"OPTIONS", "", "https://evil.example", 204, ""},
		"the same host, another scheme": {"POST", frozen, "http://app.example", 403, ""},
	} {
		headers := []string{"Origin: " + x.origin}
		if x.method == "OPTIONS" {
			headers = append(headers, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type,x-grpc-web")
		}
		resp, text := g.ask(http.DefaultClient, x.method, url, x.body, headers...)
		if got := resp.Header.Get("Access-Control-Allow-Origin"); resp.StatusCode != x.code || got != x.allowed {
			t.Errorf("%s: %d %q %s", name, resp.StatusCode, got, text)
		}
		if got := resp.Header.Get("Access-Control-Allow-Headers"); x.method == "OPTIONS" && x.allowed != "" && !strings.Contains(got, "authorization") {
			t.Errorf("%s: headers %q", name, got)
		}
	}
}

func TestWrongOrigin(t *testing.T) {
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tel, log := process.Service("test"), slog.New(slog.DiscardHandler)
	for _, origin := range []string{"app.example", "https://*.example"} {
		_, err = web.Open(t.Context(), web.Flags{HTTP: true, Origins: []string{origin}}, rpc.NewServer(tel, log), &net.TCPAddr{}, log)
		if err == nil || !strings.Contains(err.Error(), "--http-allow-origin") {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

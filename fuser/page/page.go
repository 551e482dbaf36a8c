// Package page serves the gateway's page for operators. It runs a recall and shows how its answer came about. It shows the
// memories and changes them, leg latencies against budgets, recent slow and degraded recalls, and the lag of the indexes.
//
//  1. A browser loads and runs only the embedded assets; withHeaders sets the headers for that.
//  2. /v1 is the gateway's own JSON, for everything about memories. recall adds a waterfall to one of its methods. Both call
//     the gateway's server by rpc.Local, with the browser's token. It asks the gate as for any call.
//  3. live, recalls and traces show recent recalls of all callers, so known asks the gate about all namespaces first.
//  4. near keeps other machines out if there is no gate to ask.
//  5. view.go turns spans and statistics into the JSON that the assets draw.
package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/traces/otlp"
	"github.com/triskele/triskele/fuser/traces/recent"
	"github.com/triskele/triskele/fuser/web"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	maxRequest = 64 << 10 // bytes of a recall's request
	maxListed  = 2048     // recalls
	longest    = time.Minute
)

//go:embed assets
var assets embed.FS

// page answers a browser, and `triskele budget`.
type page struct {
	recalling triskelev1.RecallServiceClient
	recent    *recent.Ring
	recorder  *telemetry.Recorder
	inside    *rpc.Local
	gate      rpc.Gate // nil admits everybody on this machine
}

// Open adds the page to mux, whose server refuses other sites' requests. The page calls outer. Texts, queries and recalls need a
// caller that its gate admits. The page's own files do not, since they ask for the token.
func Open(ctx context.Context, mux *http.ServeMux, ring *recent.Ring, outer *rpc.Server, tel *telemetry.Service) {
	inside := rpc.NewLocal(outer, tel).Give()
	(&page{triskelev1.NewRecallServiceClient(inside), ring, tel.Recorder, inside, outer.Gate}).register(mux, web.JSON(ctx, inside))
}

func (p *page) register(mux *http.ServeMux, contract http.Handler) {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // it was embedded
	}
	static := http.FileServerFS(files)
	handle := func(pattern string, handler http.HandlerFunc) { mux.Handle(pattern, withHeaders(handler)) }
	handle("GET /{$}", static.ServeHTTP)
	handle("GET /assets/", http.StripPrefix("/assets/", static).ServeHTTP)
	handle("/v1/", p.near(func(w http.ResponseWriter, r *http.Request) { contract.ServeHTTP(w, r.WithContext(rpc.From(r))) }))
	handle("POST /api/recall", p.near(p.recall))
	handle("GET /api/live", p.known(p.live))
	handle("GET /api/recalls", p.known(p.recalls))
	handle("GET /api/recalls/{id}", p.known(p.one))
	handle("GET /api/traces", p.known(p.traces))
}

// withHeaders forbids a browser to load or run anything else, and to show the page in a frame.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store", // answers hold memories
		} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// known protects all callers' recalls: the gate must allow all namespaces. Other handlers call the gateway, which
// asks the gate itself.
func (p *page) known(next http.HandlerFunc) http.HandlerFunc {
	return p.near(func(w http.ResponseWriter, r *http.Request) {
		if p.gate != nil {
			call, err := p.gate(rpc.From(r), rpc.Operate)
			if err == nil {
				err = call.Allow(everywhere{})
				call.Done(err)
			}
			if err != nil {
				fail(w, err)
				return
			}
		}
		next(w, r)
	})
}

// near refuses pages of other origins, and other machines if the gateway lets everybody in. It does so on loopback only, and this
// address may be another.
func (p *page) near(next http.HandlerFunc) http.HandlerFunc {
	own := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if rpc.CheckOrigin(own, r) != nil {
			fail(w, status.Error(codes.PermissionDenied, "pages of other origins may not ask"))
			return
		}
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if p.gate == nil && (err != nil || !from.Addr().Unmap().IsLoopback()) {
			fail(w, status.Error(codes.PermissionDenied, "the gateway has no tokens, so its memories are shown on its own machine only: see --tokens"))
			return
		}
		if p.gate == nil { // nor foreign pages in a browser here
			rpc.Loopback(next).ServeHTTP(w, r)
			return
		}
		next(w, r)
	}
}

type everywhere struct{}

// GetNamespace returns the pattern that only "*" covers.
func (everywhere) GetNamespace() string { return "*" }

// recall runs the browser's recall and returns all that explains the answer.
func (p *page) recall(w http.ResponseWriter, r *http.Request) {
	// Forms cannot send this type, so pages of other sites must ask by CORS first.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(w, status.Error(codes.InvalidArgument, "the request must be application/json"))
		return
	}
	ctx, err := p.inside.Admit(rpc.From(r), triskelev1.RecallService_Recall_FullMethodName)
	if err != nil {
		fail(w, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, status.Error(codes.InvalidArgument, "the request is too long"))
		return
	}
	req := &triskelev1.RecallRequest{}
	if err := protojson.Unmarshal(body, req); err != nil {
		fail(w, status.Error(codes.InvalidArgument, "the request is not a RecallRequest"))
		return
	}
	req.Explain, req.ReturnSpans = true, true
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	var resp *triskelev1.RecallResponse
	spans, err := telemetry.Trace(ctx, p.recorder, "recall from the page", func(ctx context.Context) (_ []*triskelev1.Span, err error) {
		resp, err = p.recalling.Recall(ctx, req)
		return resp.GetSpans(), err
	})
	if err != nil {
		fail(w, err)
		return
	}
	resp.Spans = nil
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(resp)
	if err != nil {
		fail(w, err)
		return
	}
	write(w, struct {
		Answer    json.RawMessage `json:"answer"`
		Waterfall []row           `json:"waterfall"`
	}{text, waterfall(spans)})
}

func (p *page) live(w http.ResponseWriter, r *http.Request) {
	write(w, liveView(p.recent.Live(time.Now())))
}

func (p *page) recalls(w http.ResponseWriter, r *http.Request) {
	write(w, slice.Map(p.recent.Recalls(recent.Kind(r.URL.Query().Get("kind")), number(r, "limit", 50)), viewOf))
}

func (p *page) one(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.ParseUint(r.PathValue("id"), 10, 64)
	one := p.recent.Recall(id)
	if one == nil {
		fail(w, status.Error(codes.NotFound, "this recall is no longer kept"))
		return
	}
	write(w, waterfall(one.Trace().Spans))
}

// traces returns the recent recalls as OTLP, one trace a line.
func (p *page) traces(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, one := range p.recent.Recalls(recent.All, number(r, "limit", maxListed)) {
		if otlp.Encode(w, one.Trace()) != nil {
			return // the client has gone
		}
	}
}

// number is a parameter from 1 to maxListed.
func number(r *http.Request, name string, otherwise int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 {
		return otherwise
	}
	return min(n, maxListed)
}

func write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // an error means that the client has gone
}

// fail answers with the gateway's error, which is fit for callers.
func fail(w http.ResponseWriter, err error) {
	message := status.Convert(err).Message()
	if _, ok := status.FromError(err); !ok && !errors.Is(err, context.Canceled) {
		message = "internal error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(runtime.HTTPStatusFromCode(status.Code(err)))
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

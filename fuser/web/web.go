// Package web serves a gateway's gRPC services over HTTP/1.1 on the same port, as JSON and as gRPC-Web.
//
//  1. The gRPC server's muxer hands over the HTTP/1.1 connections, see rpc.Server.HTTP.
//  2. newHandler refuses pages of other origins, and adds the peer and the token to the context.
//  3. serveGRPCWeb hands over gRPC-Web's frames, which are gRPC's. grpc-gateway handles JSON, by the routes of proto/http.yaml.
//  4. Both ask the gate before they read the body, and read it within the method's limits.
//  5. Each request becomes a call of the gRPC server, by rpc.Local. So auth, rate limits, validation, deadlines, spans
//     and the audit log are those of gRPC.
//
// It knows services only by the code generated from the contract.
package web

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/cors"
	"github.com/triskele/triskele/fuser/platform/rpc"
)

const (
	headerTime = 10 * time.Second // for a request's header
	bodyTime   = time.Minute      // for all of a request
	writeTime  = time.Minute      // for the caller to take the next writePart of an answer
	writePart  = 64 << 10         // bytes
	idleTime   = 2 * time.Minute  // of a connection between requests
	drainTime  = 5 * time.Second  // for running requests at the end
	maxHeader  = 64 << 10         // bytes
	preflight  = 600              // seconds for which a browser remembers what it may send
)

// Flags say what is served. Embed them.
type Flags struct {
	HTTP    bool     `name:"http" help:"Also serve HTTP with JSON and gRPC-Web on the same address." default:"true" negatable:"" env:"TRISKELE_HTTP"`
	Origins []string `name:"http-allow-origin" help:"Origin whose web pages may call over HTTP, such as https://app.example.com. Repeat the flag for several; other origins cannot call." env:"TRISKELE_HTTP_ALLOW_ORIGIN" placeholder:"ORIGIN" needs:"http"`
}

//go:embed openapi.json
var openAPI []byte

// Open serves a gRPC server's services over HTTP until ctx ends. closeWeb waits for running requests. Call Open before the server
// runs, on this address.
func Open(ctx context.Context, flags Flags, outer *rpc.Server, address net.Addr, log *slog.Logger) (closeWeb func(), err error) {
	if !flags.HTTP {
		return func() {}, nil
	}
	handler, err := newHandler(ctx, rpc.NewLocal(outer, nil).Give(), flags.Origins)
	if err != nil {
		return nil, err
	}
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() && outer.Gate == nil {
		handler = rpc.Loopback(handler)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	closeWeb = rpc.ServeHTTP(server, outer.HTTP(), drainTime, log)
	context.AfterFunc(ctx, closeWeb)
	return closeWeb, nil
}

// hurried closes connections whose callers stop reading. They would hold the connection and an answer for ever. A
// deadline for the whole answer would cut long exports.
func hurried(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inTime := &hurriedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
		handler.ServeHTTP(inTime, r)
		inTime.begin() // what is buffered is sent after this
	})
}

type hurriedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	mu      sync.Mutex
	last    bool // the deadline is not moved any more
}

func (w *hurriedWriter) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last {
		_ = w.control.SetWriteDeadline(time.Now().Add(writeTime))
	}
}

// SetWriteDeadline is for http.ResponseController. The deadline holds for all that follows, also for the rest of a write that runs.
func (w *hurriedWriter) SetWriteDeadline(deadline time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = true
	return w.control.SetWriteDeadline(deadline)
}

func (w *hurriedWriter) Write(p []byte) (int, error) {
	written := 0
	for part := range slices.Chunk(p, writePart) {
		w.begin()
		n, err := w.ResponseWriter.Write(part)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// Unwrap is for http.ResponseController.
func (w *hurriedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// newHandler answers requests by calls over a connection. It refuses pages of other origins.
func newHandler(ctx context.Context, inside *rpc.Local, origins []string) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle("/", JSON(ctx, inside))
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI)
	})
	known := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store") // answers hold memories
		r = r.WithContext(rpc.From(r))
		if strings.HasPrefix(r.Header.Get("Content-Type"), grpcWebType) {
			serveGRPCWeb(inside, w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	own := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if strings.Contains(origin, "*") {
			return nil, fmt.Errorf("--http-allow-origin: %q must be one origin, without *", origin)
		}
		if err := own.AddTrustedOrigin(strings.ToLower(origin)); err != nil { // as browsers send it
			return nil, fmt.Errorf("--http-allow-origin: %w", err)
		}
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rpc.CheckOrigin(own, r) != nil {
			refuse(w, http.StatusForbidden, errors.New("pages of this origin may not call: see --http-allow-origin"))
			return
		}
		known.ServeHTTP(w, r)
	})
	if len(origins) == 0 {
		return hurried(handler), nil
	}
	return hurried(cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: methods,
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"Retry-After", "WWW-Authenticate"},
		MaxAge:         preflight,
	}).Handler(handler)), nil
}

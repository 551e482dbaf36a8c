package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// ServeHTTP serves until stop is called. stop waits for running requests, but no longer than drain, and may be called again.
func ServeHTTP(server *http.Server, listener net.Listener, drain time.Duration, log *slog.Logger) (stop func()) {
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			log.Error("an HTTP server has stopped", "address", listener.Addr().String(), "error", err.Error())
		}
	}()
	return sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-served
	})
}

// Loopback refuses requests to a host other than loopback. It stops DNS rebinding, by which a foreign page resolves
// its name to this machine and reads the answers.
func Loopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusMisdirectedRequest)
			_, _ = io.WriteString(w, `{"code":3, "message":"ask for 127.0.0.1 or localhost", "details":[]}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// CheckOrigin returns an error for a request by a page of another origin than this server's and those that own trusts. own itself lets
// such pages send GET and HEAD, which our services answer with memories.
func CheckOrigin(own *http.CrossOriginProtection, r *http.Request) error {
	changing := r.WithContext(r.Context())
	changing.Method = http.MethodPost
	return own.Check(changing)
}

// From returns an HTTP request's context with the peer and token where a gate looks for them.
func From(r *http.Request) context.Context {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // net/http writes it
	p := &peer.Peer{Addr: net.TCPAddrFromAddrPort(from)}
	if r.TLS != nil {
		p.AuthInfo = credentials.TLSInfo{State: *r.TLS, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	}
	ctx := metadata.NewIncomingContext(r.Context(), metadata.MD{"authorization": r.Header.Values("Authorization")})
	return peer.NewContext(ctx, p)
}

// Package admin is a program's HTTP server for operators: metrics for Prometheus, health, and pages that the program
// adds. It knows no service.
//
//  1. Listen opens the address. It must be loopback unless the flags allow others, since metrics and health have no
//     authentication.
//  2. Health adds GET /healthz, and the program registers its pages. Each page does its own auth.
//  3. Start serves. It refuses requests from pages of other sites, and on loopback those for other hosts.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

const (
	headerTime = 5 * time.Second // for a request's header
	idleTime   = 2 * time.Minute // of a connection between requests
	drainTime  = 2 * time.Second // for running requests at the end
	maxHeader  = 64 << 10        // bytes
)

// Flags are the address to listen on. The variable "admin" is its default.
type Flags struct {
	Address     string `name:"admin" help:"Address of the admin port: metrics, health and pages for operators, over HTTP; \"off\" for none." default:"${admin}" env:"TRISKELE_ADMIN" placeholder:"HOST:PORT"`
	AllowRemote bool   `name:"admin-allow-remote" help:"Serve the admin port on an address that other machines can reach. Anybody there can see metrics and health. The gateway's page asks callers who they are." env:"TRISKELE_ADMIN_ALLOW_REMOTE"`
}

// Beside returns the default address for operators: the service's, with a port higher by 10.
func Beside(service string) string {
	host, port, err := net.SplitHostPort(service)
	if n, wrong := strconv.Atoi(port); err == nil && wrong == nil {
		return net.JoinHostPort(host, strconv.Itoa(n+10))
	}
	return "off"
}

// On reports whether there is anything to serve.
func (f Flags) On() bool { return f.Address != "" && f.Address != "off" }

// Server is an admin server. Handlers may be registered on its mux at any time.
type Server struct {
	*http.ServeMux
	listener net.Listener
	log      *slog.Logger
}

// Listen opens the address. It refuses one that other machines can reach, unless the flags allow it. metrics answers
// GET /metrics, and GET /livez is always 200. With "off" the server has a mux and listens nowhere.
func Listen(flags Flags, metrics http.Handler, log *slog.Logger) (*Server, error) {
	s := &Server{ServeMux: http.NewServeMux(), log: log}
	if !flags.On() {
		return s, nil
	}
	s.Handle("GET /metrics", metrics)
	s.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("alive\n")) })
	var err error
	if s.listener, err = rpc.Listen(flags.Address, flags.AllowRemote); err != nil {
		if errors.Is(err, rpc.ErrNotLoopback) {
			err = fmt.Errorf("%w: use 127.0.0.1, or pass --admin-allow-remote if the network keeps others out", err)
		}
		return nil, fmt.Errorf("--admin: %w", err)
	}
	return s, nil
}

// Health registers GET /healthz: 200 while serving is true, else 503. Each concern adds a line and leaves the code: a
// pod's successor would have the same concern.
func (s *Server) Health(serving func() bool, concerns func() []string) {
	s.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer, code := "serving\n", http.StatusOK
		if !serving() {
			answer, code = "not serving\n", http.StatusServiceUnavailable
		}
		for _, concern := range concerns() {
			answer += "concern: " + concern + "\n"
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	})
}

// Addr returns the address, or nil if there is none.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Start serves until stop is called, which lets running requests end.
func (s *Server) Start(ctx context.Context) (stop func()) {
	if s.listener == nil {
		return func() {}
	}
	handler := http.Handler(s.ServeMux)
	if tcp, ok := s.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		handler = rpc.Loopback(handler)
	}
	server := &http.Server{
		Handler: http.NewCrossOriginProtection().Handler(handler), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.log.InfoContext(ctx, "serving the admin port", "address", s.listener.Addr().String())
	return rpc.ServeHTTP(server, s.listener, drainTime, s.log)
}

// Package admin is the HTTP server for who runs a program: metrics for Prometheus, health, and the pages that the program
// adds, which ask by themselves who may see them. Metrics and health have no authentication, so it listens on loopback unless told otherwise, and keeps out what a browser on the same
// machine may be tricked into sending. It knows no service.
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

// Flags say where to listen. The variable "admin" holds the default address.
type Flags struct {
	Address     string `name:"admin" help:"Address to serve metrics, health and pages for operators on, over HTTP; \"off\" for none." default:"${admin}" env:"TRISKELE_ADMIN" placeholder:"HOST:PORT"`
	AllowRemote bool   `name:"admin-allow-remote" help:"Serve operators on an address other machines can reach: anybody there can see metrics and pages." env:"TRISKELE_ADMIN_ALLOW_REMOTE"`
}

// Beside is the default address of a server for operators, given that of a program's service: the port is 10 higher.
func Beside(service string) string {
	host, port, err := net.SplitHostPort(service)
	if n, wrong := strconv.Atoi(port); err == nil && wrong == nil {
		return net.JoinHostPort(host, strconv.Itoa(n+10))
	}
	return "off"
}

// On says whether there is anything to serve.
func (f Flags) On() bool { return f.Address != "" && f.Address != "off" }

// Server is an operator's server. Handlers may be registered on its mux at any time, before Start and after.
type Server struct {
	*http.ServeMux
	listener net.Listener
	log      *slog.Logger
}

// Listen opens the address, which is refused if other machines can reach it unless the flags allow that. metrics answers
// GET /metrics, and GET /livez is 200 as long as the program answers at all. If the flags say "off", the server has a mux and listens nowhere.
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

// Health registers GET /healthz, which is 200 while serving says so and 503 else. A line follows for each of the concerns, which do not
// change that: no pod should be taken away for what its successor would have, too.
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
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.ErrorContext(ctx, "the server for operators has stopped", "error", err.Error())
		}
	}()
	s.log.InfoContext(ctx, "serving operators", "address", s.listener.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-stopped
	}
}

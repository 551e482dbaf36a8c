package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/web"
)

// A caller that stops reading loses the connection; one that reads slowly gets all of an answer.
func TestSlowCallers(t *testing.T) {
	for name, x := range map[string]struct {
		request string
		most    int // bytes that are read of the answer
		end     string
	}{
		"stops":   {"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 8 << 10, ""},
		"begins":  {"OPTIONS /v1/recall HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\r\n", 0, ""},
		"goes on": {"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 1 << 20, "\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, closed := serveOne(t)
				begun := time.Now()
				if _, err := io.WriteString(caller, x.request); err != nil {
					t.Fatal(err)
				}
				var got []byte
				for part := make([]byte, 4<<10); len(got) < x.most && (x.end == "" || !bytes.HasSuffix(got, []byte(x.end))); {
					n, err := caller.Read(part)
					if got = append(got, part[:n]...); err != nil {
						t.Fatalf("after %v and %d bytes: %v", time.Since(begun), len(got), err)
					}
					time.Sleep(3 * time.Second)
				}
				if x.end != "" {
					if took := time.Since(begun); took < time.Minute {
						t.Errorf("all of it within %v, so this proves nothing", took)
					}
					return
				}
				<-closed
				if took := time.Since(begun); took > 2*time.Minute {
					t.Errorf("given up after %v", took)
				}
			})
		})
	}
}

// serveOne serves one connection until the test ends. It returns the caller's side, and what is closed with the server's.
func serveOne(t *testing.T) (caller net.Conn, closed <-chan struct{}) {
	handler, err := web.NewHandler(t.Context(), &rpc.Local{}, []string{"https://app.example"})
	if err != nil {
		t.Fatal(err)
	}
	caller, conn := net.Pipe()
	conns := make(chan net.Conn, 1)
	conns <- conn
	listener := oneConn{conns, sync.OnceFunc(func() { close(conns) })}
	gone, served := make(chan struct{}), make(chan struct{})
	server := &http.Server{Handler: handler, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(gone)
		}
	}}
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		_ = caller.Close()
		<-served
		<-gone
	})
	return caller, gone
}

// oneConn is a listener of connections that are there already.
type oneConn struct {
	conns chan net.Conn
	close func()
}

func (l oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, fmt.Errorf("accept: %w", net.ErrClosed)
	}
	return conn, nil
}

func (l oneConn) Close() error {
	l.close()
	return nil
}

func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// A call's end gives up a caller amid a write: the parts that follow do not get a minute each.
func TestGivenUpAmidWrite(t *testing.T) {
	caller := &givenUp{ResponseWriter: httptest.NewRecorder()}
	var now time.Time
	web.Hurried(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		caller.amid = func() {
			now = time.Now()
			if err := http.NewResponseController(w).SetWriteDeadline(now); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
	})).ServeHTTP(caller, httptest.NewRequestWithContext(t.Context(), "GET", "/", http.NoBody))
	if now.IsZero() || !caller.deadline.Equal(now) {
		t.Errorf("the deadline is %v, want %v", caller.deadline, now)
	}
}

// givenUp is given up with its first write.
type givenUp struct {
	http.ResponseWriter
	amid     func()
	deadline time.Time
}

func (g *givenUp) Write(p []byte) (int, error) {
	if g.amid != nil {
		g.amid()
		g.amid = nil
	}
	return len(p), nil
}

func (g *givenUp) SetWriteDeadline(deadline time.Time) error {
	g.deadline = deadline
	return nil
}

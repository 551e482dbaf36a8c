package page_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/page"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/traces/recent"
)

// unread fails a test if it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestStrangersAreNotRead(t *testing.T) {
	w := asked(t, func(context.Context, string) (rpc.Call, error) {
		return nil, status.Error(codes.Unauthenticated, "who are you?")
	})
	if w.Code != http.StatusUnauthorized {
		t.Errorf("got %d %s, want 401", w.Code, w.Body)
	}
}

// TestOtherMachinesAreRefused: a gateway that lets everybody in is on loopback, and this address may be another.
func TestOtherMachinesAreRefused(t *testing.T) {
	if w := asked(t, nil); w.Code != http.StatusForbidden {
		t.Errorf("got %d %s, want 403", w.Code, w.Body)
	}
}

// TestForeignPagesAreRefused: a foreign page's name may resolve to this machine for a browser on it.
func TestForeignPagesAreRefused(t *testing.T) {
	if w := askedBy(t, "127.0.0.1:1", nil); w.Code != http.StatusMisdirectedRequest {
		t.Errorf("got %d %s, want 421", w.Code, w.Body)
	}
}

// TestForeignPagesReadNothing: a page of another site cannot read the answer to a GET either, or see whether there is one.
func TestForeignPagesReadNothing(t *testing.T) {
	w := askedBy(t, "127.0.0.1:1", nil, func(r *http.Request) {
		r.Method, r.URL.Path, r.Host, r.Body = "GET", "/api/recalls", "localhost", http.NoBody
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if w.Code != http.StatusForbidden {
		t.Errorf("got %d %s, want 403", w.Code, w.Body)
	}
}

// asked returns the answer to a recall from another machine.
func asked(t *testing.T, gate rpc.Gate) *httptest.ResponseRecorder {
	t.Helper()
	return askedBy(t, "192.0.2.1:1", gate)
}

// askedBy returns the answer to a recall that an address sends to example.com, unless edit changes it.
func askedBy(t *testing.T, from string, gate rpc.Gate, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	process, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tel, log := process.Service("test"), slog.New(slog.DiscardHandler)
	outer := rpc.NewServer(tel, log)
	if gate != nil {
		outer.Gate = gate
	}
	mux := http.NewServeMux()
	page.Open(t.Context(), mux, recent.New(), outer, tel)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/recall", unread{t})
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = from
	for _, change := range edit {
		change(r)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

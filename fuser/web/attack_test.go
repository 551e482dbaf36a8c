package web_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	"github.com/triskele/triskele/fuser/web"
)

const mib = 1 << 20

// TestAttack has strangers, and callers who were let in, send bodies that are large, or stall, or hold more than it seems: plainly and
// over TLS. What the process allocates meanwhile is counted, with the sender's part, which is small.
func TestAttack(t *testing.T) {
	folder := t.TempDir()
	access := auth.Access{Tokens: filepath.Join(folder, "tokens.json"), Audit: filepath.Join(folder, "audit.jsonl")}
	secret, kept, err := auth.NewToken(auth.Token{Namespaces: []string{"*"}, Scopes: []auth.Scope{auth.Recall, auth.Write}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.WriteTokens(access.Tokens, []auth.Token{kept}); err != nil {
		t.Fatal(err)
	}
	frame := func(announced, sent int) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(announced)), make([]byte, sent)...)
	}
	list := func(before, of string, n int, after string) []byte {
		return []byte(before + strings.Repeat(of+",", n-1) + of + after)
	}
	const once = 8 // MiB: the first request of a process compiles the rules of the contract
	const recall, importing = "/triskele.v1.RecallService/Recall", "/triskele.v1.MemoryService/Import"
	for name, x := range map[string]struct {
		path, kind string
		body       []byte
		length     int // announced
		known      bool
		says       string
		most       int // MiB that may be allocated
	}{
		"a stranger's import":             {"/v1/memories:import", "application/json", list(`{"memories":[`, "{}", 5<<20, "]}"), 0, false, "401", 4},
		"a stranger's memory":             {"/v1/memories", "application/json", list(`{"content":"`, "x", mib/2, `"}`), 0, false, "401", 4},
		"a stranger's frame, stalled":     {recall, web1, frame(96*mib, 16*mib), 97 * mib, false, "grpc-status: 16", 4},
		"a stranger's import, stalled":    {importing, web1, frame(15*mib, 8*mib), 97 * mib, false, "grpc-status: 16", 4},
		"a stranger's text frame":         {importing, webText, []byte(strings.Repeat("A", 16*mib)), 97 * mib, false, "ncnBjLXN0YXR1czogMTY", 4},
		"a stranger's health check":       {"/grpc.health.v1.Health/Check", web1, frame(96*mib, 16*mib), 97 * mib, false, "grpc-status: 8", 4},
		"a large frame":                   {recall, web1, frame(96*mib, 16*mib), 97 * mib, true, "grpc-status: 8", 4},
		"a large query":                   {"/v1/recall", "application/json", list(`{"query":"`, "x", 8<<20, `"}`), 0, true, "413", 4},
		"a recall of much":                {"/v1/recall", "application/json", list(`{"filter":{"metadata":{"a":[`, "{}", 160_000, "]}}}"), 0, true, "429", 4},
		"an import of memories":           {"/v1/memories:import", "application/json", list(`{"memories":[`, "{}", 5<<20, "]}"), 0, true, "too many values", 96},
		"an import of 2,000":              {"/v1/memories:import", "application/json", list(`{"memories":[`, `{"namespace":"a","content":"x"}`, 2000, "]}"), 0, true, "memories: must contain no more than 1000", 16},
		"an import that has no end":       {"/v1/memories:import", "application/json", list(`{"memories":[`, "[", 5<<20, ""), 0, true, "too many values", 96},
		"an import of a frame of nothing": {importing, web1, append(frame(800_000, 0), []byte(strings.Repeat("\x0a\x00", 400_000))...), 0, true, "grpc-status: 8", 8},
	} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, encrypted %v", name, encrypted), func(t *testing.T) {
				listener := auth.Listener{}
				if encrypted {
					listener.TLS = authtest.NewAuthority(t).Issue(t, "fuser")
				}
				g := start(t, web.Flags{HTTP: true}, listener, access)
				head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: fuser\r\nContent-Type: %s\r\nContent-Length: %d\r\n", x.path, x.kind, max(x.length, len(x.body)))
				if x.known {
					head += "Authorization: Bearer " + secret + "\r\n"
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if got := g.attack(encrypted, head+"\r\n", x.body); !strings.Contains(got, x.says) {
					t.Errorf("got the answer %.400q, want %q", got, x.says)
				}
				runtime.ReadMemStats(&after)
				if got := int(after.TotalAlloc - before.TotalAlloc); got > (x.most+once)*mib {
					t.Errorf("got %d KiB allocated, want at most %d MiB", got>>10, x.most+once)
				}
			})
		}
	}
	audit, err := os.ReadFile(access.Audit)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(string(audit), `"denied"`), 5*2; got != want {
		t.Errorf("the audit log has %d refusals, want %d, one for each", got, want)
	}
}

// attack sends a request without waiting for what comes of it, and returns what did.
func (g *gateway) attack(encrypted bool, head string, body []byte) string {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	if encrypted {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		g.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, head); err != nil {
		g.t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = conn.Write(body) // an error means that the answer has come
	}()
	defer func() { _ = conn.Close(); <-sent }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(resp.Body) // the connection may end before all of it is sent
	return resp.Status + " " + string(text)
}

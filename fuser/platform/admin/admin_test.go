package admin_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves operators on a free port and returns the address.
func start(t *testing.T, address string, metrics http.Handler) (*admin.Server, string) {
	t.Helper()
	var log bytes.Buffer
	s, err := admin.Listen(admin.Flags{Address: address, AllowRemote: true}, metrics, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Start(t.Context()))
	_, listening, _ := strings.Cut(log.String(), "address=")
	return s, strings.TrimSpace(listening)
}

// ask sends a request and returns the status and the body.
func ask(t *testing.T, method, url string, edit func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(req)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	process, err := telemetry.Start(t.Context(), telemetry.Scraped)
	if err != nil {
		t.Fatal(err)
	}
	counter, err := process.Service("one").MeterProvider.Meter("test").Int64Counter("things")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	s, address := start(t, "127.0.0.1:0", process.Metrics())
	serving := false
	var concerns []string
	s.Health(func() bool { return serving }, func() []string { return concerns })
	pages := 0
	s.HandleFunc("/page", func(http.ResponseWriter, *http.Request) { pages++ })

	if code, body := ask(t, "GET", "http://"+address+"/metrics", nil); code != 200 || !strings.Contains(body, `things_total{service_name="one"} 3`) || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics: %d %s", code, body)
	}
	if code, _ := ask(t, "GET", "http://"+address+"/healthz", nil); code != 503 {
		t.Errorf("health before it serves: %d", code)
	}
	if code, _ := ask(t, "GET", "http://"+address+"/livez", nil); code != 200 {
		t.Errorf("alive before it serves: %d", code)
	}
	serving = true
	if code, body := ask(t, "GET", "http://"+address+"/healthz", nil); code != 200 || body != "serving\n" {
		t.Errorf("health: %d %q", code, body)
	}
	concerns = []string{"the token file cannot be read"}
	if code, body := ask(t, "GET", "http://"+address+"/healthz", nil); code != 200 || body != "serving\nconcern: the token file cannot be read\n" {
		t.Errorf("health with a concern: %d %q", code, body)
	}
	for name, x := range map[string]struct {
		method string
		edit   func(*http.Request)
		code   int
	}{
		"by address":      {"GET", nil, 200},
		"by name":         {"GET", func(r *http.Request) { r.Host = "localhost" }, 200},
		"by IPv6":         {"GET", func(r *http.Request) { r.Host = "[::1]:80" }, 200},
		"by IPv6 alone":   {"GET", func(r *http.Request) { r.Host = "[::1]" }, 200},
		"another's name":  {"GET", func(r *http.Request) { r.Host = "rebound.example" }, 421},
		"another address": {"GET", func(r *http.Request) { r.Host = "192.0.2.1:7410" }, 421},
		"own page":        {"POST", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
		"another's page":  {"POST", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
	} {
		before := pages
		if code, _ := ask(t, x.method, "http://"+address+"/page", x.edit); code != x.code || (code == 200) != (pages > before) {
			t.Errorf("%s: %d, and %d pages", name, code, pages-before)
		}
	}
}

func TestListen(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:7410", "nonsense"} {
		if _, err := admin.Listen(admin.Flags{Address: address}, http.NotFoundHandler(), quiet); err == nil || !strings.Contains(err.Error(), "--admin") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"off", ""} {
		s, err := admin.Listen(admin.Flags{Address: address}, nil, quiet)
		if err != nil {
			t.Fatal(err)
		}
		s.Health(func() bool { return true }, func() []string { return nil }) // harmless
		s.Start(context.Background())()
	}
	// Where other machines may ask, they may do so by any name.
	_, address := start(t, "0.0.0.0:0", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	port := regexp.MustCompile(`\d+$`).FindString(address)
	if code, _ := ask(t, "GET", "http://127.0.0.1:"+port+"/metrics", func(r *http.Request) { r.Host = "recall.example" }); code != 200 {
		t.Errorf("by a name of its own: %d", code)
	}
	if got := admin.Beside("127.0.0.1:7402"); got != "127.0.0.1:7412" {
		t.Errorf("beside 7402: %s", got)
	}
}

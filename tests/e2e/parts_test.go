package e2e_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// proxy stands before a service, in the same place whatever is done to what passes.
type proxy struct{ *toxiproxy.Proxy }

func newProxy(t *testing.T, upstream string) *proxy {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics have a logger of their own
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), upstream, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return &proxy{p}
}

func (p *proxy) address() string { return p.Listen }

// toxic returns the fault of a kind that toxiproxy knows, in one direction.
func toxic(kind, stream, attributes string) func(*matrix, string) func() {
	return func(m *matrix, target string) func() {
		toxics := m.proxies[target].Toxics
		text := fmt.Sprintf(`{"name": "fault", "type": %q, "stream": %q, "attributes": %s}`, kind, stream, attributes)
		if _, err := toxics.AddToxicJson(strings.NewReader(text)); err != nil {
			m.t.Fatal(err)
		}
		return func() {
			if err := toxics.RemoveToxic(m.t.Context(), "fault"); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// startServer starts a PostgreSQL server for this test alone, which may do to it what it likes, and returns its folder and the URL
// of a database with the whole schema.
func startServer(t *testing.T) (dir, url string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "triskele-pg-") // not t.TempDir(), which only its owner can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("../postgres.sh", "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stop the server: %v\n%s", err, out)
		}
	})
	out, err := exec.Command("../postgres.sh", "start", dir).Output()
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	url = strings.TrimSpace(string(out))
	if out, err := exec.Command(filepath.Join(programs, "triskele"), "migrate", "up", "--postgres", url).CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	return dir, url
}

// serverPIDs are the processes of the server of a data folder, the first one first.
func serverPIDs(t *testing.T, data string) []int {
	t.Helper()
	file, err := os.Open(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Scan()
	first, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", first, first))
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{first}
	for _, field := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

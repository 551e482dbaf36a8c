package e2e_test

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

var (
	faultRecalls = flag.Int("faults.recalls", 0, "recalls in each cell of TestFaultMatrix, which then tries every fault and holds to its time; 0 for a few, of a few faults")
	faultReport  = flag.String("faults.report", "", "file to write the table of TestFaultMatrix to")
)

const (
	matrixBudget = 250 * ms
	// slack is how long after its budget 99 of 100 recalls must be back at most.
	slack = 5 * ms
	// patience is what a cell of a few recalls gets on a machine that does other things as well. There a recall counts only if
	// what has nothing to do with the fault was in time.
	patience = time.Minute
	// recovery bounds the time from the end of a fault until recalls are whole.
	recovery = 15 * time.Second
)

// A fault is done to one part of the system, and undone by the function it returns.
type fault struct {
	name string
	do   func(*matrix, string) (undo func())
	// states are those that a leg may be in, or the fetching of contents.
	states []triskelev1.LegState
	brief  bool // also among the few that every run of the tests tries
}

// Before the breaker opens a leg fails in its own way; then it is skipped.
var faults = []fault{
	{name: "latency 20 ms", do: toxic("latency", "downstream", `{"latency": 20}`), states: []triskelev1.LegState{ok}},
	{name: "latency 1 s", do: toxic("latency", "downstream", `{"latency": 1000}`), states: []triskelev1.LegState{timedOut, skipped}},
	{name: "jitter 0-200 ms", do: toxic("latency", "downstream", `{"latency": 100, "jitter": 100}`), states: []triskelev1.LegState{ok, timedOut, skipped}},
	{name: "bandwidth 1 kB/s", do: toxic("bandwidth", "downstream", `{"rate": 1}`), states: []triskelev1.LegState{ok, timedOut, skipped}},
	{name: "reset", do: toxic("reset_peer", "downstream", `{"timeout": 0}`), states: []triskelev1.LegState{failed, skipped}, brief: true},
	{name: "blackhole", do: toxic("timeout", "upstream", `{"timeout": 0}`), states: []triskelev1.LegState{timedOut, skipped}},
	{name: "SIGSTOP", do: (*matrix).pause, states: []triskelev1.LegState{timedOut, skipped}, brief: true},
	{name: "SIGKILL", do: (*matrix).kill, states: []triskelev1.LegState{failed, skipped}, brief: true},
}

// TestFaultMatrix does every fault to every part of the system: a recall is back within its budget, says in which state
// each leg is, and is whole again by itself when the fault is gone.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	m := startMatrix(t)
	for _, target := range []string{"lexical", "dense", "graph", "memory", "postgres"} {
		for _, f := range faults {
			if f.brief || *faultRecalls > 0 {
				t.Run(target+"/"+f.name, func(t *testing.T) { m.cell(t, target, f) })
			}
		}
	}
	m.checkLeaks()
	t.Log("\n" + m.table.String())
	if *faultReport != "" && !t.Failed() {
		if err := os.WriteFile(*faultReport, []byte(m.report()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// matrix is a system with a proxy before every service, as the gateway calls it, and before its PostgreSQL, a server of
// its own, as every service calls it.
type matrix struct {
	*system
	data    string // the PostgreSQL server's folder
	proxies map[string]*proxy
	table   strings.Builder
	files   int // that the gateway has open when nothing is wrong
}

func startMatrix(t *testing.T) *matrix {
	m := &matrix{system: &system{t: t}, proxies: map[string]*proxy{}}
	address, ok := coordinator(t)
	if ok {
		m.url = pgtest.New(t)
	} else {
		var dir string
		dir, m.url = startServer(t)
		address = bridge(t, filepath.Join(dir, ".s.PGSQL.5432"))
	}
	if err := m.sql().QueryRow(t.Context(), "SHOW data_directory").Scan(&m.data); err != nil {
		t.Fatal(err)
	}
	m.proxies["postgres"] = newProxy(t, address)
	m.start(setup{via: func(name, address string) string {
		m.proxies[name] = newProxy(t, address)
		return m.proxies[name].address()
	}}, func(name string) string {
		u, err := url.Parse(pgtest.Login(t, m.url, name))
		if err != nil {
			t.Fatal(err)
		}
		u.Host, u.RawQuery = m.proxies["postgres"].address(), ""
		return u.String()
	})
	m.seed("faults")
	m.eventually("all is well", m.whole)
	m.files = m.open()
	fmt.Fprintf(&m.table, "| part | fault | recalls | states, or code of the error | p50 ms | p99 ms | well again after |\n|---|---|---|---|---|---|---|\n")
	return m
}

// coordinator returns the address of the tests' server if it is the coordinator of a Citus cluster. Faults are then done to it, which
// must be on this machine.
func coordinator(t *testing.T) (address string, ok bool) {
	server := os.Getenv(pgtest.Variable)
	if server == "" || !pgtest.Distributed(t) {
		return "", false
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host, true
}

// whole tells whether a recall gives everything, and each leg searches in memory.
func (m *matrix) whole() bool {
	resp, err := m.ask("faults", time.Second)
	return err == nil && !resp.GetDegraded() && len(resp.GetHits()) > 0 && resp.GetHits()[0].GetMemory().GetContent() != "" &&
		!slices.ContainsFunc(resp.GetLegs(), func(r *triskelev1.LegReport) bool { return r.GetState() != ok })
}

// cell tries a fault on a part.
func (m *matrix) cell(t *testing.T, target string, f fault) {
	n, over, strict := *faultRecalls, slack, true
	if n == 0 {
		n, over, strict = 8, patience, false
	}
	undo := f.do(m, target)
	var took []time.Duration
	seen := map[string]int{}
	begun := time.Now()
	for len(took) < n {
		start := time.Now()
		resp, err := m.ask("faults", matrixBudget)
		spent := time.Since(start)
		if !strict && busy(target, f, resp, err) {
			if time.Since(begun) > patience {
				t.Fatalf("what is whole was not in time for %v: %v, %v", patience, resp, err)
			}
			continue
		}
		took = append(took, spent)
		switch target {
		case "postgres":
			seen[withoutDatabase(t, resp, err)]++
		case "memory":
			seen[withoutMemory(t, f, resp, err)]++
		default:
			seen[withoutLeg(t, target, f, resp, err)]++
		}
	}
	undo()
	begun = time.Now()
	m.eventually("all is well after "+f.name+" of "+target, m.whole)
	well := time.Since(begun)
	if well > recovery {
		t.Errorf("well again after %v, want %v at most", well, recovery)
	}

	slices.Sort(took)
	p99 := took[(len(took)*99+99)/100-1]
	if p99 > matrixBudget+over {
		t.Errorf("99 of 100 recalls were back within %v; the budget is %v", p99, matrixBudget)
	}
	fmt.Fprintf(&m.table, "| %s | %s | %d | %s | %.1f | %.1f | %.2f s |\n",
		target, f.name, n, counts(seen), milliseconds(took[(len(took)-1)/2]), milliseconds(p99), well.Seconds())
}

// busy says whether something was late that the fault does not slow down, as happens on a machine that has other work.
func busy(target string, f fault, resp *triskelev1.RecallResponse, err error) bool {
	if err != nil {
		return target != "postgres" && (status.Code(err) == codes.DeadlineExceeded || strings.Contains(err.Error(), "TIMED_OUT"))
	}
	late := func(part string, state triskelev1.LegState) bool {
		// Whoever was late often enough is left alone for a while.
		return (state == timedOut || state == skipped) && part != target && target != "postgres" || state == timedOut && part == target && !slices.Contains(f.states, timedOut)
	}
	return late("memory", resp.GetContents().GetState()) ||
		slices.ContainsFunc(resp.GetLegs(), func(r *triskelev1.LegReport) bool { return late(r.GetLeg(), r.GetState()) })
}

// withoutLeg checks a recall while something is wrong with a leg, and names the leg's state.
func withoutLeg(t *testing.T, leg string, f fault, resp *triskelev1.RecallResponse, err error) string {
	if err != nil {
		t.Errorf("recall: %v", err)
		return status.Code(err).String()
	}
	if len(resp.GetHits()) == 0 || resp.GetHits()[0].GetMemory().GetContent() == "" {
		t.Error("no hits, or without contents")
	}
	for _, other := range legs {
		if state := report(resp, other).GetState(); other != leg && state != ok {
			t.Errorf("%s is %v", other, state)
		}
	}
	r := report(resp, leg)
	if !slices.Contains(f.states, r.GetState()) {
		t.Errorf("%s is %v: %s", leg, r.GetState(), r.GetReason())
	}
	if r.GetState() == timedOut && r.GetSpent().AsDuration() < r.GetBudget().AsDuration() {
		t.Errorf("%s was given up after %v of %v", leg, r.GetSpent().AsDuration(), r.GetBudget().AsDuration())
	}
	if lost := r.GetState() != ok; lost != resp.GetDegraded() || lost != strings.Contains(resp.GetDegradedReason(), leg) {
		t.Errorf("%s is %v, yet degraded is %v: %s", leg, r.GetState(), resp.GetDegraded(), resp.GetDegradedReason())
	}
	return short(r.GetState())
}

// withoutMemory checks a recall while something is wrong with the memory service: it gives ids at least.
func withoutMemory(t *testing.T, f fault, resp *triskelev1.RecallResponse, err error) string {
	if err != nil || len(resp.GetHits()) == 0 {
		t.Errorf("recall: %v, %v", resp, err)
		return status.Code(err).String()
	}
	for _, leg := range legs {
		if state := report(resp, leg).GetState(); state != ok {
			t.Errorf("%s is %v", leg, state)
		}
	}
	state := resp.GetContents().GetState()
	if contents := resp.GetHits()[0].GetMemory() != nil; contents == resp.GetDegraded() || contents != (state == ok) {
		t.Errorf("contents %v, %v, degraded %v: %s", contents, resp.GetContents(), resp.GetDegraded(), resp.GetDegradedReason())
	}
	if !slices.Contains(f.states, state) {
		t.Errorf("contents: %v", resp.GetContents())
	}
	if state != ok {
		return "ids only, " + short(state)
	}
	return "OK"
}

// withoutDatabase checks a recall while something is wrong with PostgreSQL: the legs search what they have in memory, so it gives
// ids at least.
func withoutDatabase(t *testing.T, resp *triskelev1.RecallResponse, err error) string {
	if err != nil || len(resp.GetHits()) == 0 {
		t.Errorf("recall: %v, %v", resp, err)
		return status.Code(err).String()
	}
	contents := resp.GetHits()[0].GetMemory() != nil
	lost := slices.ContainsFunc(resp.GetLegs(), func(r *triskelev1.LegReport) bool { return r.GetState() != ok })
	if (lost || !contents) && !resp.GetDegraded() {
		t.Errorf("not degraded: %v", resp)
	}
	switch {
	case !contents:
		return "ids only, degraded"
	case resp.GetDegraded():
		return "degraded"
	}
	return "OK"
}

func short(s triskelev1.LegState) string { return strings.TrimPrefix(s.String(), "LEG_STATE_") }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(ms) }

// counts writes what was seen, the most frequent first.
func counts(seen map[string]int) string {
	var parts []string
	for what := range seen {
		parts = append(parts, what)
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(seen[b]-seen[a], strings.Compare(a, b)) })
	for i, what := range parts {
		parts[i] = fmt.Sprintf("%s %d", what, seen[what])
	}
	return strings.Join(parts, ", ")
}

// pause stops a part in its tracks: connected, but silent.
func (m *matrix) pause(target string) func() {
	pids := m.pids(target)
	signalAll(m.t, pids, syscall.SIGSTOP)
	m.eventually(target+" has stopped", func() bool { return !slices.ContainsFunc(pids, running) }) // on a busy machine a thread stops late
	return func() { signalAll(m.t, pids, syscall.SIGCONT) }
}

// running reports whether a thread of a process is not stopped.
func running(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(threads, func(thread string) bool {
		stat, err := os.ReadFile(thread)
		return err == nil && !strings.Contains(string(stat), ") T ")
	})
}

// kill ends a process and starts it again to undo that. PostgreSQL starts again by itself when one of its processes is
// killed.
func (m *matrix) kill(target string) func() {
	if target == "postgres" {
		killed := m.pids(target)[1:2]
		signalAll(m.t, killed, syscall.SIGKILL)
		m.eventually("PostgreSQL has noticed", func() bool { return !slices.Contains(m.pids(target), killed[0]) }) // or nothing has happened yet
		return func() {}
	}
	m.signal(target, syscall.SIGKILL)
	return func() { m.run(target) }
}

// pids are a part's processes, PostgreSQL's first one first.
func (m *matrix) pids(target string) []int {
	if target != "postgres" {
		return []int{m.processes[target].cmd.Process.Pid}
	}
	return serverPIDs(m.t, m.data)
}

func signalAll(t *testing.T, pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Fatalf("signal %v to %d: %v", sig, pid, err)
		}
	}
}

// open counts the files, and so the connections, that the gateway has open.
func (m *matrix) open() int {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.processes["fuser"].cmd.Process.Pid))
	if err != nil {
		m.t.Fatal(err)
	}
	return len(files)
}

var (
	goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*\[`)
	// working are the packages in which a recall, and no goroutine between recalls, is at work.
	working = regexp.MustCompile(`/fuser/(gateway|isolation)\.`)
)

// checkLeaks ends the gateway, which is to have no more connections than at first and no goroutine that still works at a recall.
func (m *matrix) checkLeaks() {
	m.t.Helper()
	m.eventually("the gateway closes the connections of lost peers", func() bool { return m.open() <= m.files })
	fuser := m.processes["fuser"]
	if err := fuser.cmd.Process.Signal(syscall.SIGQUIT); err != nil { // Go's runtime then writes down what every goroutine does
		m.t.Fatal(err)
	}
	_ = fuser.cmd.Wait()
	_, dump, found := strings.Cut(fuser.log.String(), "SIGQUIT: quit")
	if !found {
		m.t.Fatal("the gateway wrote no stacks")
	}
	stacks := goroutine.Split(dump, -1)
	for _, stack := range stacks {
		if working.MatchString(stack) {
			m.t.Errorf("a goroutine is still there long after the last recall:\n%s", stack)
		}
	}
	fmt.Fprintf(&m.table, "\nAfterwards the gateway has %d files open, as at first, and %d goroutines, none of them working at a recall.\n", m.files, len(stacks)-1)
}

func (m *matrix) report() string {
	return fmt.Sprintf(`# What happens when a part fails

    make test-faults FAULT_RECALLS=%d

- Date: %s
- Machine: %d cores, %s/%s, %s, shared with other work
- Five processes on loopback, a proxy before each service as the gateway calls it and before PostgreSQL as every service calls it
- Each recall has a budget of %v; it must be back %v after that at p99, measured by its caller. One recall at a time.
- A breaker opens after five failures and lets one call through each second, hence the fast recalls of a leg that is SKIPPED.
- A leg whose last answers were slow is not thought ill for missing a short budget until it has not answered for ten seconds: so after
  the jitter, its breaker opens late.

%s`, *faultRecalls, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), matrixBudget, slack, m.table.String())
}

// bridge gives a unix socket an address that a TCP proxy can call.
func bridge(t *testing.T, socket string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}

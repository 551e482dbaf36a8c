// Package e2e tests the system as it is deployed: five processes on loopback TCP, a real PostgreSQL, real signals.
package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
)

// programs is the folder with the built programs.
var programs string

func TestMain(m *testing.M) {
	_ = os.Setenv("TRISKELE_ADMIN", "off")                               // many processes run at a time, and some are to take their ports again
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // most of a test is waiting for processes
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "triskele-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, // symbols take a third of the linking
		"github.com/triskele/triskele/fuser/cmd/fuserd", "github.com/triskele/triskele/services/cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	programs = dir
	return m.Run(), nil
}

// log collects what a process writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer // not embedded: its ReadFrom would pass the lock by
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// process is one service's program.
type process struct {
	name    string
	program string // if it is not called after the service
	args    []string
	address string
	cmd     *exec.Cmd
	log     log
}

// legs are the programs that may be lost.
var legs = []string{"lexical", "dense", "graph"}

// system is the five processes over one database.
type system struct {
	t         *testing.T
	programs  string // the folder they are started from, if not the usual one
	url       string // of the database, for its owner; each process logs in with the role of its service
	env       []string
	processes map[string]*process
	conn      *grpc.ClientConn
	recall    triskelev1.RecallServiceClient
	memory    triskelev1.MemoryServiceClient
	tel       *telemetry.Service
	options   func(name string) []grpc.DialOption // nil for plain text
	crashing  sync.Mutex                          // held while a process is killed and started again
}

// setup is what a test's processes get besides what all have.
type setup struct {
	env  []string            // environment variables
	args map[string][]string // flags, by the process's name
	// via gives the address at which the gateway is to call a service; nil for the service's own.
	via func(name, address string) string
	// dial is how the test calls a service, if it cannot be called in plain text.
	dial func(name string) []grpc.DialOption
}

// start runs everything on a fresh database and returns when all serve.
func start(t *testing.T) *system {
	t.Helper()
	return startWith(t, setup{})
}

func startWith(t *testing.T, more setup) *system {
	t.Helper()
	s := &system{t: t, url: pgtest.New(t)}
	s.start(more, func(name string) string { return pgtest.Login(t, s.url, name) })
	return s
}

// start runs everything and returns when all serve. login gives the URL with which a service opens the database.
func (s *system) start(more setup, login func(name string) string) {
	t := s.t
	t.Helper()
	tel, err := telemetry.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.env, s.processes, s.tel, s.options = more.env, map[string]*process{}, tel.Service("client"), more.dial
	gateway := freeAddress(t)
	for _, name := range append([]string{"memory"}, legs...) {
		address := freeAddress(t)
		s.processes[name] = &process{name: name, address: address, args: []string{"--listen", address, "--postgres", login(name), "--log-level", "debug"}}
	}
	if s.programs == "" { // those of the release before know no curator
		s.processes["memory"].args = append(s.processes["memory"].args, "--curator-gateway", gateway)
	}
	via := func(name string) string {
		if more.via == nil {
			return s.processes[name].address
		}
		return more.via(name, s.processes[name].address)
	}
	args := []string{"--listen", gateway, "--memory", via("memory"), "--log-level", "debug"}
	for _, name := range legs {
		args = append(args, "--leg", name+"="+via(name))
	}
	s.processes["fuser"] = &process{name: "fuser", address: gateway, args: args}
	for name, p := range s.processes {
		p.args = append(p.args, more.args[name]...)
		s.run(name)
	}
	for name := range s.processes {
		s.awaitServing(name)
	}
	s.conn, err = s.dial("fuser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	s.recall, s.memory = triskelev1.NewRecallServiceClient(s.conn), triskelev1.NewMemoryServiceClient(s.conn)
}

// freeAddress returns a loopback address nobody listens on, which a restarted process can take again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		// Below the ports that the kernel gives to connections, and never the same twice: the process listens some time later.
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if _, taken := givenAddresses.LoadOrStore(address, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

var givenAddresses sync.Map

// run starts a process, or starts it again.
func (s *system) run(name string) {
	s.t.Helper()
	p := s.processes[name]
	p.cmd = exec.Command(filepath.Join(cmp.Or(s.programs, programs), cmp.Or(p.program, name+"d")), p.args...)
	p.cmd.Env = append(os.Environ(), s.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	// A test that is killed must not leave its processes behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd := p.cmd
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", name, last(p.log.String(), 4000))
		}
	})
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// dial connects to a service.
func (s *system) dial(name string) (*grpc.ClientConn, error) {
	var options []grpc.DialOption
	if s.options != nil {
		options = s.options(name)
	}
	return rpc.Dial(s.processes[name].address, s.tel, options...)
}

// awaitServing returns when a process's health says so.
func (s *system) awaitServing(name string) {
	s.t.Helper()
	conn, err := s.dial(name)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	awaitHealth(s.t, conn, name, &s.processes[name].log)
}

// awaitHealth returns when a server says that it serves.
func awaitHealth(t *testing.T, conn *grpc.ClientConn, name string, output *log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil {
			for {
				resp, err := watch.Recv()
				if err != nil {
					break
				}
				if resp.GetStatus() == healthpb.HealthCheckResponse_SERVING {
					return
				}
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not serve:\n%s", name, output.String())
		}
	}
}

// signal sends a signal to a process; after SIGKILL it is gone when signal returns.
func (s *system) signal(name string, sig syscall.Signal) {
	s.t.Helper()
	p := s.processes[name]
	if err := p.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	if sig == syscall.SIGKILL {
		_ = p.cmd.Wait()
	}
}

// remember stores a memory.
func (s *system) remember(m *triskelev1.Memory) *triskelev1.Memory {
	s.t.Helper()
	resp, err := s.memory.Remember(s.t.Context(), &triskelev1.RememberRequest{Memory: m})
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetMemory()
}

// awaitIndexes returns when no index has anything pending in the namespace.
func (s *system) awaitIndexes(namespace string) {
	s.t.Helper()
	s.eventually("indexes catch up", func() bool {
		resp, err := s.recall.GetIndexStatus(s.t.Context(), &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: namespace})
		if err != nil {
			return false
		}
		for _, leg := range resp.GetLegs() {
			if leg.GetStatus() == nil || leg.GetStatus().GetPending() > 0 || leg.GetStatus().GetDead() > 0 {
				return false
			}
		}
		return true
	})
}

// eventually polls a condition of another process, which no channel here can signal.
func (s *system) eventually(what string, condition func() bool) {
	s.t.Helper()
	const patience = 2 * time.Minute // programs of the release before keep what they were indexing for a minute
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %v: %s", patience, what)
		}
		<-ticker.C
	}
}

// seed stores a small corpus about kestrels in a namespace and waits for its indexes.
func (s *system) seed(namespace string) {
	s.t.Helper()
	for i := range 20 {
		s.remember(&triskelev1.Memory{
			Namespace: namespace, Title: fmt.Sprintf("Kestrel %d", i), Tags: []string{"Kestrel"},
			Content: fmt.Sprintf("The Kestrel project keeps its backup number %d on the host heron-db-%d.", i, i%3),
		})
	}
	s.awaitIndexes(namespace)
}

// ask recalls with a budget, in its own trace.
func (s *system) ask(namespace string, budget time.Duration) (*triskelev1.RecallResponse, error) {
	return s.recall.Recall(s.t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{namespace}, Query: "Where is the backup of Kestrel 3 kept?", Budget: durationpb.New(budget),
	})
}

// report returns what the answer says of a leg.
func report(resp *triskelev1.RecallResponse, leg string) *triskelev1.LegReport {
	for _, r := range resp.GetLegs() {
		if r.GetLeg() == leg {
			return r
		}
	}
	return nil
}

// sql opens a connection to the system's database.
func (s *system) sql() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// logs returns what all processes have written.
func (s *system) logs() string {
	var all strings.Builder
	for _, p := range s.processes {
		all.WriteString(p.log.String())
	}
	return all.String()
}

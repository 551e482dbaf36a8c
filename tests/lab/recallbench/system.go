package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// namespace holds the memories.
const namespace = "bench"

// firstPort and lastPort are what the programs listen on.
const firstPort, lastPort = 21_000, 29_000

// bench is a database and the gateways on it.
type bench struct {
	begun     time.Time
	tel       *telemetry.Service
	programs  string    // folder
	admin     *pgx.Conn // of the server
	name, url string    // of the database
	processes []*exec.Cmd
	port      int // that was given out last
	conns     []*grpc.ClientConn
	sink      sink
	one       *grpc.ClientConn // to a gateway that has the legs in its process, on PostgreSQL
	folders   []string         // of SQLite files
	stores    []*store
	ways      []way     // that are compared
	peer      *weaviate // that is compared, too, or nil
}

// start makes a database with nothing in it.
func (s *settings) start(ctx context.Context) (_ *bench, err error) {
	b := &bench{begun: time.Now(), programs: s.programs, name: fmt.Sprintf("recallbench_%d", os.Getpid())}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.admin, err = pgx.Connect(ctx, s.url); err != nil {
		return nil, err
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	u.Path = "/" + b.name
	b.url = u.String()
	if _, err = b.admin.Exec(ctx, "CREATE DATABASE "+b.name); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(b.programs, "triskele"), "migrate", "up", "--postgres", b.url).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("migrate: %w: %s", err, out)
	}
	process, err := telemetry.Start(ctx)
	if err != nil {
		return nil, err
	}
	b.tel = process.Service("bench")
	b.one, err = b.gateway(ctx, nil, "triskele", "up", "--postgres", b.url)
	return b, err
}

// startOthers starts the gateways that nothing is loaded through: their index workers would only compete for two cores.
func (b *bench) startOthers(ctx context.Context) error {
	fanOut, err := b.five(ctx)
	if err != nil {
		return err
	}
	floor, err := b.newFloor()
	if err != nil {
		return err
	}
	lite := b.stores[1].conn
	b.ways = []way{
		{name: yardstickWay, ask: floor.ask},
		{name: "SQLite, one process", conn: lite},
		{name: "SQLite, one process, no threads", conn: b.stores[2].conn},
		{name: "PostgreSQL, one process", conn: b.one},
		{name: "PostgreSQL, five processes", conn: fanOut},
	}
	if b.peer != nil {
		b.ways = append(b.ways, way{name: "Weaviate", ask: b.peer.ask("")})
	}
	for _, s := range shares {
		b.ways = append(b.ways, way{name: "SQLite, one process, " + s.tag + " pass", conn: lite, tag: s.tag},
			way{name: "PostgreSQL, one process, " + s.tag + " pass", conn: b.one, tag: s.tag})
		if b.peer != nil {
			b.ways = append(b.ways, way{name: "Weaviate, " + s.tag + " pass", ask: b.peer.ask(s.tag)})
		}
	}
	return nil
}

// settling is time for Weaviate to write its memtables, which it does after a minute without writes. Until then it searches words slowly.
const settling = 90 * time.Second

// startWeaviate loads the memories into a class of a server.
func (b *bench) startWeaviate(ctx context.Context, addresses string, texts []note) (err error) {
	if b.peer, err = newWeaviate(ctx, addresses); err != nil {
		return err
	}
	start := time.Now()
	err = b.peer.load(ctx, texts)
	b.peer.stored = time.Since(start)
	b.progress("Weaviate: %d memories are stored; its words are written to disk within %v", len(texts), settling)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settling):
		return err
	}
}

// startSQLite starts a gateway on a SQLite file.
func (b *bench) startSQLite(ctx context.Context, st *store) (err error) {
	if st.folder, err = os.MkdirTemp("", "recallbench"); err != nil {
		return err
	}
	b.folders = append(b.folders, st.folder)
	st.conn, err = b.gateway(ctx, nil, "triskele", "up", "--sqlite", filepath.Join(st.folder, "bench.db"))
	st.process = b.processes[len(b.processes)-1]
	return err
}

// five starts a gateway whose legs are processes.
func (b *bench) five(ctx context.Context, env ...string) (_ *grpc.ClientConn, err error) {
	addresses := map[string]string{}
	for _, name := range []string{"memory", "lexical", "dense", "graph"} {
		if addresses[name], err = b.launch(env, name+"d", "--postgres", b.url); err != nil {
			return nil, err
		}
	}
	return b.gateway(ctx, env, "fuserd", "--memory", addresses["memory"], "--leg", "lexical="+addresses["lexical"],
		"--leg", "dense="+addresses["dense"], "--leg", "graph="+addresses["graph"])
}

// gateway starts one and returns a connection to it when it serves.
func (b *bench) gateway(ctx context.Context, env []string, program string, args ...string) (*grpc.ClientConn, error) {
	address, err := b.launch(env, program, args...)
	if err != nil {
		return nil, err
	}
	conn, err := rpc.Dial(address, b.tel)
	if err != nil {
		return nil, err
	}
	b.conns = append(b.conns, conn)
	if err := awaitServing(ctx, conn); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	return conn, nil
}

// launch starts a program on a free port of the loopback, with variables besides.
func (b *bench) launch(env []string, program string, args ...string) (address string, err error) {
	// Below the ports that the system gives out by itself, to a program that is still starting for instance.
	for free := false; !free; {
		b.port = max(b.port+1, firstPort)
		address = fmt.Sprintf("127.0.0.1:%d", b.port)
		l, err := net.Listen("tcp", address)
		if free = err == nil; free {
			_ = l.Close()
		} else if b.port == lastPort {
			return "", err
		}
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(b.programs, program)
	}
	cmd := exec.Command(program, append(args, "--listen", address)...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(append(os.Environ(), "TRISKELE_LOG_LEVEL=error", "TRISKELE_ADMIN=off"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	b.processes = append(b.processes, cmd)
	return address, nil
}

// awaitServing waits until the memory service answers through a gateway.
func awaitServing(ctx context.Context, conn *grpc.ClientConn) error {
	memory := triskelev1.NewMemoryServiceClient(conn)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := memory.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace})
		if err == nil || status.Code(err) == codes.NotFound {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.Join(errors.New("it does not serve"), err)
		}
	}
}

// stopProcesses ends the programs.
func (b *bench) stopProcesses() {
	for _, conn := range b.conns {
		_ = conn.Close()
	}
	for _, p := range b.processes {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range b.processes {
		_ = p.Wait()
	}
	b.conns, b.processes = nil, nil
}

// stop ends everything and drops the database.
func (b *bench) stop() {
	b.stopProcesses()
	if b.peer != nil {
		b.peer.stop()
	}
	for _, folder := range b.folders {
		_ = os.RemoveAll(folder)
	}
	if b.admin != nil {
		ctx := context.Background() // also after an interrupt
		_, _ = b.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+b.name+" WITH (FORCE)")
		_ = b.admin.Close(ctx)
	}
}

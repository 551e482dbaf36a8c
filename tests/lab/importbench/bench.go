package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const namespace = "bench"

// measurement is an import from its start to its end.
type measurement struct {
	engine            string
	records           int
	took, floor       time.Duration
	client, up, upOwn int64         // peaks in KiB
	postgres          int64         // of what its processes have of their own, all together; 0 if unknown or none
	pending           int64         // records that are yet to be indexed when all are stored
	searchable        time.Duration // until every leg has them
	resident          int64         // KiB of up, then
}

// interruption is an import that lost its client, and then its server, before it came to its end.
type interruption struct {
	engine                     string
	records                    int
	afterClient, afterServer   int64 // records that were stored when it was run again
	unchanged, distinct, total int64 // sent twice, and what is stored in the end
}

// service is triskele up on a database of its own.
type service struct {
	*process
	program, address string
	database         []string // flags
	memories         triskelev1.MemoryServiceClient
	conn             *grpc.ClientConn
}

func (s settings) serve(ctx context.Context, database []string) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	up := &service{program: s.program, address: listener.Addr().String(), database: database}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	if up.conn, err = grpc.NewClient(up.address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	up.memories = triskelev1.NewMemoryServiceClient(up.conn)
	return up, up.start(ctx)
}

// start starts the service and waits until it answers.
func (u *service) start(ctx context.Context) (err error) {
	if u.process, err = launch(u.program, append([]string{"up", "--listen", u.address}, u.database...)...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := u.memories.ListNamespaces(ctx, &triskelev1.ListNamespacesRequest{}, grpc.WaitForReady(true)); err != nil {
		u.end(syscall.SIGKILL)
		return fmt.Errorf("triskele up: %w\n%s", err, u.errs.String())
	}
	return nil
}

func (u *service) close() {
	u.end(syscall.SIGTERM)
	_ = u.conn.Close()
}

// load starts an import.
func (u *service) load(file string) (*process, error) {
	return launch(u.program, "import", file, "--json", "--namespace", namespace, "--address", u.address, "--timeout", "2m")
}

// outcome is what an import printed.
type outcome struct{ Stored, Unchanged, Skipped int64 }

// finish waits for the end of an import.
func finish(p *process) (o outcome, err error) {
	<-p.ended
	if p.err != nil {
		return o, fmt.Errorf("import: %w\n%s", p.err, p.errs.String())
	}
	return o, json.Unmarshal(p.out.Bytes(), &o)
}

func (s settings) measure(ctx context.Context, engine, file string, n int) (m measurement, err error) {
	m = measurement{engine: engine, records: n}
	d, err := s.open(ctx, engine)
	if err != nil {
		return m, err
	}
	defer d.drop()
	if m.floor, err = d.floor(ctx, n); err != nil {
		return m, err
	}
	up, err := s.serve(ctx, d.flags())
	if err != nil {
		return m, err
	}
	defer up.close()
	own := watch(ctx, d.postmaster)
	begun := time.Now()
	client, err := up.load(file)
	if err != nil {
		return m, err
	}
	got, err := finish(client)
	m.took = time.Since(begun)
	m.postgres = own()
	if err != nil {
		return m, err
	}
	if got.Stored != int64(n) || got.Unchanged+got.Skipped != 0 {
		return m, fmt.Errorf("of %d records: %+v", n, got)
	}
	m.client, m.up, m.upOwn = client.all.Load(), up.all.Load(), up.own.Load()
	if m.pending, err = up.pending(ctx); err != nil {
		return m, err
	}
	for left := m.pending; left > 0; time.Sleep(100 * time.Millisecond) {
		if left, err = up.pending(ctx); err != nil {
			return m, err
		}
	}
	m.searchable, m.resident = time.Since(begun), statusKB(up.cmd.Process.Pid, "VmRSS")
	return m, nil
}

// pending is how many records the slowest index lacks.
func (u *service) pending(ctx context.Context) (n int64, err error) {
	stats, err := u.memories.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace, Statistics: true})
	for _, index := range stats.GetStatistics().GetIndexes() {
		n = max(n, index.GetPending())
	}
	return n, err
}

// interrupt kills the client after a third of the records, and the service after two thirds.
func (s settings) interrupt(ctx context.Context, engine, file string, n int) (broken interruption, err error) {
	broken = interruption{engine: engine, records: n}
	d, err := s.open(ctx, engine)
	if err != nil {
		return broken, err
	}
	defer d.drop()
	up, err := s.serve(ctx, d.flags())
	if err != nil {
		return broken, err
	}
	defer up.close()
	client, err := up.load(file)
	if err != nil {
		return broken, err
	}
	if broken.afterClient, err = up.await(ctx, int64(n/3), client); err != nil {
		return broken, err
	}
	client.end(syscall.SIGKILL)

	if client, err = up.load(file); err != nil {
		return broken, err
	}
	if broken.afterServer, err = up.await(ctx, int64(2*n/3), client); err != nil {
		return broken, err
	}
	up.end(syscall.SIGKILL)
	if _, err := finish(client); err == nil {
		return broken, errors.New("an import ended well although its server was killed")
	}
	if err := up.start(ctx); err != nil {
		return broken, err
	}
	if client, err = up.load(file); err != nil {
		return broken, err
	}
	got, err := finish(client)
	if err != nil {
		return broken, err
	}
	broken.unchanged = got.Unchanged
	broken.total, broken.distinct, err = up.count(ctx, n)
	return broken, err
}

// await returns how many records are stored, once there are so many.
func (u *service) await(ctx context.Context, least int64, client *process) (int64, error) {
	for {
		stored, err := u.memories.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace})
		if err != nil && status.Code(err) != codes.NotFound {
			return 0, err
		}
		if n := stored.GetMemories(); n >= least {
			return n, nil
		}
		select {
		case <-client.ended:
			return 0, fmt.Errorf("the import ended before it could be interrupted\n%s", client.errs.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// count exports everything and returns how many memories there are, and from how many different records.
func (u *service) count(ctx context.Context, n int) (total, distinct int64, err error) {
	stream, err := u.memories.Export(ctx, &triskelev1.ExportRequest{Namespace: namespace})
	if err != nil {
		return 0, 0, err
	}
	seen := make([]bool, n)
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return total, distinct, nil
		}
		if err != nil {
			return total, distinct, err
		}
		for _, m := range resp.GetMemories() {
			total++
			if i := int(m.GetMetadata().GetFields()["n"].GetNumberValue()); !seen[i] {
				seen[i] = true
				distinct++
			}
		}
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// progress says what is being done, and since when.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(b.begun).Seconds(), fmt.Sprintf(format, args...))
}

// store is one that memories are loaded into, through one process.
type store struct {
	name               string
	conn               *grpc.ClientConn
	process            *exec.Cmd
	folder             string        // of the SQLite file; "" for PostgreSQL
	threads            bool          // memories are in threads
	stored, searchable time.Duration // since the first memory was sent
	disk               int64         // bytes
	cold               time.Duration // of the first recall after a restart
	resident           int64         // bytes of the process, afterwards
}

// inThread memories are in a thread.
const inThread = 20

// load stores the memories and waits until every index has them.
func (b *bench) load(ctx context.Context, st *store, texts []note) error {
	start := time.Now()
	stream, err := triskelev1.NewMemoryServiceClient(st.conn).Import(ctx)
	if err != nil {
		return err
	}
	const batch = 500
	for from := 0; from < len(texts); from += batch {
		req := &triskelev1.ImportRequest{}
		for i, t := range texts[from:min(from+batch, len(texts))] {
			position := int64(from + i)
			m := &triskelev1.Memory{Namespace: namespace, Title: t.title, Content: t.content, Tags: t.tags}
			if st.threads {
				m.Thread, m.Position = fmt.Sprint("thread ", position/inThread), &position
			}
			req.Memories = append(req.Memories, m)
		}
		if err := stream.Send(req); err != nil {
			break // CloseAndRecv says why
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		return err
	}
	st.stored = time.Since(start)
	b.progress("%s: %d memories are stored", st.name, len(texts))
	if err := b.awaitIndexes(ctx, st.conn); err != nil {
		return err
	}
	st.searchable = time.Since(start)
	b.progress("%s: and searchable", st.name)
	if st.disk, err = b.disk(ctx, st.folder); err != nil {
		return err
	}
	start = time.Now()
	for ; ; time.Sleep(100 * time.Millisecond) { // no leg of a large namespace may answer while it is loaded
		_, err = triskelev1.NewRecallServiceClient(st.conn).Recall(ctx, &triskelev1.RecallRequest{
			Namespaces: []string{namespace}, Query: texts[0].content, Budget: durationpb.New(budget),
		})
		if status.Code(err) != codes.Unavailable || time.Since(start) > 2*time.Minute {
			break
		}
	}
	st.cold = time.Since(start)
	st.resident = resident(st.process.Process.Pid)
	return err
}

// disk is what the store takes.
func (b *bench) disk(ctx context.Context, folder string) (size int64, err error) {
	if folder == "" {
		err = b.query(ctx, func(conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, "VACUUM ANALYZE"); err != nil {
				return err
			}
			return conn.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&size)
		})
		return size, err
	}
	files, err := os.ReadDir(folder)
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			size += info.Size()
		}
	}
	return size, err
}

// resident is the memory of a process in RAM.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return 0
}

// awaitIndexes waits until every index has what is stored.
func (b *bench) awaitIndexes(ctx context.Context, conn *grpc.ClientConn) error {
	recalls := triskelev1.NewRecallServiceClient(conn)
	for said := time.Now(); ; {
		resp, err := recalls.GetIndexStatus(ctx, &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: namespace})
		if err != nil {
			return err
		}
		pending := int64(0)
		for _, leg := range resp.GetLegs() {
			if leg.GetStatus() == nil || leg.GetStatus().GetDead() > 0 {
				return fmt.Errorf("the %s index: %s, %d memories given up", leg.GetLeg(), leg.GetError(), leg.GetStatus().GetDead())
			}
			pending += leg.GetStatus().GetPending()
		}
		if pending == 0 {
			return nil
		}
		if time.Since(said) > 5*time.Second {
			b.progress("%d to be indexed", pending)
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

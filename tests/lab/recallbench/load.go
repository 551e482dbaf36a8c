package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// progress says what is being done, and since when.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(b.begun).Seconds(), fmt.Sprintf(format, args...))
}

// load stores the memories and waits until every index has them. The vectors' index is built afterwards, as after a restore:
// adding to it one by one would take most of the time.
func (b *bench) load(ctx context.Context, seed uint64, n int) (_ []note, err error) {
	texts := notes(seed, n)
	db, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close(ctx) }()
	var index, definition string
	if err := db.QueryRow(ctx, `SELECT indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
		WHERE indrelid = 'dense.vectors'::regclass AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'hnsw')`).Scan(&index, &definition); err != nil {
		return nil, err
	}
	if _, err := db.Exec(ctx, "DROP INDEX "+index); err != nil {
		return nil, err
	}
	memory := triskelev1.NewMemoryServiceClient(b.one)
	stream, err := memory.Import(ctx)
	if err != nil {
		return nil, err
	}
	const batch = 500
	for from := 0; from < n; from += batch {
		req := &triskelev1.ImportRequest{}
		for _, t := range texts[from:min(from+batch, n)] {
			req.Memories = append(req.Memories, &triskelev1.Memory{Namespace: namespace, Title: t.title, Content: t.content})
		}
		if err := stream.Send(req); err != nil {
			break // CloseAndRecv says why
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		return nil, err
	}
	b.progress("%d memories are stored", n)
	if err := b.awaitIndexes(ctx); err != nil {
		return nil, err
	}
	b.progress("and indexed")
	for _, statement := range []string{
		"SET maintenance_work_mem = '1GB'", strings.Replace(definition, " ON ONLY ", " ON ", 1), "VACUUM ANALYZE",
	} {
		if _, err := db.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	b.progress("and its vectors' index is built")
	return texts, nil
}

// awaitIndexes waits until every index has what is stored.
func (b *bench) awaitIndexes(ctx context.Context) error {
	recalls := triskelev1.NewRecallServiceClient(b.one)
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

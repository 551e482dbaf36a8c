package backend_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/triskele/triskele/services/backend"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/postgres/pgtest"
	"github.com/triskele/triskele/services/record"
	"github.com/triskele/triskele/services/storetest"
)

var memories = flag.Int("memories", 10_000, "how many memories the namespace of BenchmarkNamespace has")

// BenchmarkNamespace fills a namespace, indexes it for every leg, asks for its statistics, renames it and deletes it, once
// each. The time of storing and indexing is there to compare with.
func BenchmarkNamespace(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			url, path := "", filepath.Join(b.TempDir(), "bench.db")
			if engine == "postgres" {
				url, path = pgtest.New(b), ""
			}
			for b.Loop() {
				lifeOfANamespace(b, url, path)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func lifeOfANamespace(b *testing.B, url, path string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opened, err := backend.Open(ctx, url, path, storetest.Telemetry(b))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	if _, err := opened.Migrate(ctx); err != nil {
		b.Fatal(err)
	}
	took := func(what string, fn func() error) {
		start := time.Now()
		if err := fn(); err != nil {
			b.Fatalf("%s: %v", what, err)
		}
		b.ReportMetric(time.Since(start).Seconds(), what+"-s")
	}
	store := opened.Memory()
	took("store", func() error {
		zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 19999)
		for stored := 0; stored < *memories; stored += 500 {
			records := make([]record.Record, min(500, *memories-stored))
			for i := range records {
				records[i] = storetest.Record("from", text(zipf, 40), nil)
			}
			if _, err := store.Insert(ctx, records); err != nil {
				return err
			}
		}
		return nil
	})
	took("index", func() error {
		dense, err := opened.Dense(ctx, embed.NewHashed(), dense.Config{})
		if err != nil {
			return err
		}
		working, stop := context.WithCancel(ctx)
		defer stop()
		go opened.Worker("dense", dense, storetest.Log()).Run(working)
		go opened.Worker("graph", opened.Graph(graph.DefaultConfig()), storetest.Log()).Run(working)
		for _, index := range []leg.Searcher{dense, opened.Graph(graph.DefaultConfig())} {
			for {
				status, err := index.Status(ctx, "from")
				if err != nil {
					return err
				}
				if status.Pending == 0 {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		return nil
	})
	took("statistics", func() error { _, err := store.Statistics(ctx, "from"); return err })
	took("rename", func() error { _, err := store.RenameNamespace(ctx, "from", "to"); return err })
	took("delete", func() error { _, err := store.DeleteNamespace(ctx, "to"); return err })
}

package backend_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var memories = flag.Int("memories", 10_000, "how many memories the namespace of BenchmarkNamespace has")

// BenchmarkNamespace fills a namespace, indexes it for every leg, asks for its statistics, renames it and deletes it, once
// each. The time of storing and indexing is there to compare with, and how long those have to wait at most who meanwhile read
// and write another namespace, and read this one.
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
		images := opened.Images(ctx, storetest.Strict(), storetest.Log())
		dense, err := opened.Dense(ctx, images, embed.NewHashed())
		if err != nil {
			return err
		}
		working, stop := context.WithCancel(ctx)
		defer stop()
		go opened.Worker("dense", dense, storetest.Log()).Run(working)
		linked := opened.Graph(images, graph.Config{})
		go opened.Worker("graph", linked, storetest.Log()).Run(working)
		for _, index := range []leg.Searcher{dense, linked} {
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
	known := storetest.Record("from", "known", nil)
	other := storetest.Record("other", "another", nil)
	if _, err := store.Insert(ctx, []record.Record{known, other}); err != nil {
		b.Fatal(err)
	}
	read := func(r record.Record) func() error {
		return func() error { _, err := store.Get(ctx, r.Namespace, []uuid.UUID{r.ID}); return err }
	}
	others := map[string]func() error{
		"read": read(other), "write": func() error {
			_, err := store.Insert(ctx, []record.Record{storetest.Record("other", "x", nil)})
			return err
		},
	}
	beside := func(what string, fn func() error) {
		ended := make(chan struct{})
		var wg sync.WaitGroup
		for name, other := range others {
			wg.Go(func() {
				var slowest time.Duration
				for done := false; !done; {
					select {
					case <-ended:
						done = true
					case <-time.After(10 * time.Millisecond): // without taking the machine for themselves
					}
					start := time.Now()
					if err := other(); err != nil {
						b.Errorf("%s while %s: %v", name, what, err)
						break
					}
					slowest = max(slowest, time.Since(start))
				}
				b.ReportMetric(slowest.Seconds(), what+"-"+name+"-s")
			})
		}
		took(what, fn)
		close(ended)
		wg.Wait()
	}
	beside("idle", func() error { time.Sleep(10 * time.Second); return nil })
	others["own-read"] = read(known)
	beside("rename", func() error { _, err := store.RenameNamespace(ctx, "from", "to"); return err })
	delete(others, "own-read")
	beside("delete", func() error { _, err := store.DeleteNamespace(ctx, "to"); return err })
}

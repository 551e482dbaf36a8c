package backend_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// text returns words of a Zipfian vocabulary, some of them names.
func text(zipf *rand.Zipf, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%do", zipf.Uint64())
		if i%8 == 0 {
			words[i] = fmt.Sprintf("Name%d", zipf.Uint64())
		}
	}
	return strings.Join(words, " ")
}

// BenchmarkRowSecurity compares each leg's search as the owner of the tables, whom policies do not concern, with the
// same under the role of its service, among 10,000 memories in one namespace and 1,000 each in five.
func BenchmarkRowSecurity(b *testing.B) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	url, tel := pgtest.New(b), storetest.Telemetry(b)
	open := func(url string) *backend.Backend {
		opened, err := backend.OpenPostgres(ctx, url, tel)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = opened.Close() })
		return opened
	}
	owner := open(url)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 19999)
	for i := range 30 {
		namespace, records := "big", make([]record.Record, 500)
		if i >= 20 {
			namespace = fmt.Sprintf("small-%d", (i-20)/2)
		}
		for j := range records {
			records[j] = storetest.Record(namespace, text(zipf, 40), nil)
		}
		if _, err := owner.Memory().Insert(ctx, records); err != nil {
			b.Fatal(err)
		}
	}
	images := owner.Images(ctx, storetest.Strict(), storetest.Log())
	vectors, err := owner.Dense(ctx, images, embed.NewHashed())
	if err != nil {
		b.Fatal(err)
	}
	go owner.Worker("dense", vectors, storetest.Log()).Run(ctx)
	linked := owner.Graph(images, graph.Config{})
	go owner.Worker("graph", linked, storetest.Log()).Run(ctx)
	for _, index := range []leg.Searcher{vectors, linked} {
		for {
			status, err := index.Status(ctx, "big")
			if err != nil {
				b.Fatal(err)
			}
			if status.Pending == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	stop()
	ctx = context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}

	for _, name := range []string{"lexical", "dense", "graph"} {
		for _, who := range []string{"owner", "role"} {
			login := url
			if who == "role" {
				login = pgtest.Login(b, url, name)
			}
			own := open(login)
			images := own.Images(ctx, storetest.Strict(), storetest.Log())
			var searcher leg.Searcher = own.Lexical(images, lexical.DefaultConfig())
			switch name {
			case "dense":
				if searcher, err = own.Dense(ctx, images, embed.NewHashed()); err != nil {
					b.Fatal(err)
				}
			case "graph":
				searcher = own.Graph(images, graph.Config{})
			}
			b.Run(name+"/"+who, func(b *testing.B) {
				zipf := rand.NewZipf(rand.New(rand.NewPCG(3, 4)), 1.1, 10, 19999)
				for b.Loop() {
					if _, err := searcher.Search(ctx, leg.Query{Namespace: "big", Text: text(zipf, 9), Depth: 50}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	for _, who := range []string{"owner", "role"} {
		login := url
		if who == "role" {
			login = pgtest.Login(b, url, "memory")
		}
		store := open(login).Memory()
		list, err := store.List(ctx, "big", record.Filter{}, memory.Cursor{}, 10)
		if err != nil {
			b.Fatal(err)
		}
		ids := make([]uuid.UUID, len(list))
		for i, r := range list {
			ids[i] = r.ID
		}
		b.Run("get/"+who, func(b *testing.B) {
			for b.Loop() {
				if _, err := store.Get(ctx, "big", ids); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("remember/"+who, func(b *testing.B) {
			zipf := rand.NewZipf(rand.New(rand.NewPCG(5, 6)), 1.1, 10, 19999)
			for b.Loop() {
				if _, err := store.Insert(ctx, []record.Record{storetest.Record("small-0", text(zipf, 40), nil)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

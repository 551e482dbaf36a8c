// Command recallbench times recalls of the same memories in several ways, in one run: on both stores in one process, through
// five processes joined by sockets, with filters, and beside the bare fan-out to three servers. It writes docs/bench/recall.md. Told so, it
// measures what telemetry costs instead, or what each service needs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/triskele/triskele/tests/lab/measure"
)

type settings struct {
	programs string // folder
	url      string // of a PostgreSQL server
	out      string // folder
	memories int
	queries  int // of each way, with each number of clients
	clients  []int
	seed     uint64

	weaviate  string // addresses of a Weaviate server to compare with, HTTP and gRPC; "" for none
	telemetry bool   // compare what telemetry costs, instead of architectures
	capacity  string // sizes of namespaces to measure what each service needs, instead
}

// fewMemories is the size that recall.md reports. Others have their number in their report's name.
const fewMemories = 20_000

func main() {
	s := settings{}
	var clients string
	flag.StringVar(&s.programs, "programs", "bin", "`FOLDER` of the programs")
	flag.StringVar(&s.url, "postgres", os.Getenv("TRISKELE_TEST_POSTGRES"), "PostgreSQL `URL`; a database is made on it and dropped")
	flag.StringVar(&s.out, "out", "docs/bench", "`FOLDER` for the report")
	flag.IntVar(&s.memories, "memories", fewMemories, "how many there are")
	flag.IntVar(&s.queries, "queries", 500, "how many are asked in each way, with each number of clients")
	flag.StringVar(&clients, "clients", "1,8", "how many ask at a time, in turn")
	flag.Uint64Var(&s.seed, "seed", 1, "of the memories and queries")
	flag.StringVar(&s.weaviate, "weaviate", "", "compare with a Weaviate server at `HTTP,GRPC`, two addresses HOST:PORT; a class is made there and deleted")
	flag.BoolVar(&s.telemetry, "telemetry", false, "compare what telemetry costs instead, and write telemetry.md")
	flag.StringVar(&s.capacity, "capacity", "", "measure what each service needs for a query and for a memory instead, with so many `MEMORIES`, in turn, and write capacity.md")
	serve := flag.Bool("ready", false, "serve answers that are ready at the address of -listen: the bare fan-out starts this program so")
	listen := flag.String("listen", "", "`ADDRESS` for -ready")
	flag.Parse()
	if *serve {
		if err := serveReady(*listen); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	measure.Main(func(ctx context.Context) error { return s.run(ctx, clients) })
}

func (s *settings) run(ctx context.Context, clients string) (err error) {
	if s.capacity != "" {
		return s.capacities(ctx)
	}
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-clients: %q is not a number above 0", text)
		}
		s.clients = append(s.clients, n)
	}
	before := loadAverage()
	b, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer b.stop()
	texts := notes(s.seed, s.memories)
	stores := []*store{{name: "PostgreSQL", conn: b.one, process: b.processes[0], threads: true}}
	if !s.telemetry {
		for _, lite := range []*store{{name: "SQLite", threads: true}, {name: "SQLite, no threads"}} {
			if err := b.startSQLite(ctx, lite); err != nil {
				return err
			}
			stores = append(stores, lite)
		}
	}
	for _, st := range stores {
		if err := b.load(ctx, st, texts); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	b.stores = stores
	if s.weaviate != "" {
		if err := b.startWeaviate(ctx, s.weaviate, texts); err != nil {
			return err
		}
	}
	start, report, file := b.startOthers, b.report, "recall.md"
	if s.memories != fewMemories {
		file = fmt.Sprintf("recall-%d.md", s.memories)
	}
	if s.telemetry {
		start, report, file = b.startTelemetries, b.reportTelemetry, "telemetry.md"
	}
	if err := start(ctx); err != nil {
		return err
	}
	queries := questions(s.seed, texts, s.queries)
	var measured []measurement
	for _, n := range s.clients {
		b.progress("%d queries in each way, %d at a time", len(queries), n)
		m, err := b.measure(ctx, queries, n)
		if err != nil {
			return err
		}
		measured = append(measured, m...)
	}
	b.progress("done")
	text, err := report(ctx, *s, clients, before, measured)
	if err != nil {
		return err
	}
	return s.write(file, text)
}

func (s *settings) write(file, text string) error {
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, file), []byte(text), 0o644)
}

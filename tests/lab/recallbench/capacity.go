package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// contents is how many memories a recall fetches.
const contents = 10

// service is one whose needs are measured alone, and what they are.
type service struct {
	name    string
	process *exec.Cmd
	ask     func(ctx context.Context, q question) error

	times    []time.Duration
	own      time.Duration // processor time of the process, for all queries
	database time.Duration // of the connections that it has to PostgreSQL
	bytes    int64         // that its schema takes on disk
}

// perQuery is the processor time of one query, everywhere.
func (s service) perQuery() time.Duration { return (s.own + s.database) / time.Duration(len(s.times)) }

// capacity measures what each service needs for a query, and for a memory.
func (b *bench) capacity(ctx context.Context, s settings, texts []note, before string) (string, error) {
	if err := b.query(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `VACUUM ANALYZE`)
		return err
	}); err != nil {
		return "", err
	}
	services, err := b.startServices(ctx)
	if err != nil {
		return "", err
	}
	queries := questions(s.seed, texts, s.queries)
	for i := range services {
		b.progress("%d queries to %s", len(queries), services[i].name)
		if err := b.askAlone(ctx, &services[i], queries); err != nil {
			return "", fmt.Errorf("%s: %w", services[i].name, err)
		}
	}
	return b.reportCapacity(ctx, s, services, before)
}

// startServices starts the services as processes of their own.
func (b *bench) startServices(ctx context.Context) ([]service, error) {
	var out []service
	var found []string // by the lexical leg, for the memory service to fetch
	for _, name := range []string{"lexical", "dense", "graph", "memory"} {
		address, err := b.launch(nil, name+"d", "--postgres", b.url)
		if err != nil {
			return nil, err
		}
		conn, err := rpc.Dial(address, b.tel)
		if err != nil {
			return nil, err
		}
		b.conns = append(b.conns, conn)
		own := service{name: name, process: b.processes[len(b.processes)-1]}
		leg, memory := triskelev1.NewLegServiceClient(conn), triskelev1.NewMemoryServiceClient(conn)
		own.ask = func(ctx context.Context, q question) error {
			resp, err := leg.Search(ctx, &triskelev1.SearchRequest{Namespace: namespace, Query: q.text, Depth: 50})
			for _, hit := range resp.GetHits()[:min(contents, len(resp.GetHits()))] {
				if name == "lexical" {
					found = append(found, hit.GetId())
				}
			}
			return err
		}
		if name == "memory" {
			own.ask = func(ctx context.Context, _ question) error {
				n := min(contents, len(found))
				found = append(found[n:], found[:n]...)
				_, err := memory.Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: slices.Clone(found[:n])})
				return err
			}
		}
		out = append(out, own)
	}
	return out, nil
}

// askAlone asks a service one query after the other, first some that do not count, for caches and plans.
func (b *bench) askAlone(ctx context.Context, s *service, queries []question) error {
	ask := func(q question) error {
		ctx, cancel := context.WithTimeout(ctx, budget)
		defer cancel()
		return s.ask(ctx, q)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // it is starting
		err := ask(queries[0])
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return err
		}
	}
	for _, q := range queries[:min(warmUp, len(queries))] {
		if err := ask(q); err != nil {
			return err
		}
	}
	backends, err := b.backends(ctx, s.name)
	if err != nil {
		return err
	}
	process := []*exec.Cmd{s.process}
	own, database := busy(process), onCPU(backends)
	for _, q := range queries {
		start := time.Now()
		if err := ask(q); err != nil {
			return err
		}
		s.times = append(s.times, time.Since(start))
	}
	s.own, s.database = busy(process)-own, onCPU(backends)-database
	slices.Sort(s.times)
	// The partitions, which are ordinary tables, with their indexes and what is stored beside them.
	return b.query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace($1)`, s.name).Scan(&s.bytes)
	})
}

func (b *bench) query(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return fn(conn)
}

// backends are the server's processes for the connections of a service, which has all that it needs by now.
func (b *bench) backends(ctx context.Context, name string) (pids []int32, err error) {
	err = b.query(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'triskele-' || $1`, name)
		if err == nil {
			pids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		}
		return err
	})
	return pids, err
}

// onCPU is how long processes of one thread have been on a processor.
func onCPU(pids []int32) (total time.Duration) {
	for _, pid := range pids {
		var ran time.Duration
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)); err == nil {
			_, _ = fmt.Sscan(string(text), &ran)
		}
		total += ran
	}
	return total
}

// reportCapacity is what docs/bench/capacity.md says.
func (b *bench) reportCapacity(ctx context.Context, s settings, services []service, before string) (string, error) {
	var server string
	if err := b.admin.QueryRow(ctx, "SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync')").Scan(&server); err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, `# What a service needs for a query and for a memory

    make bench-capacity CAPACITY_MEMORIES=%d QUERIES=%d

- Date: %s
- Machine: %d cores, %s/%s, %s; %s; one-minute load average before %s, afterwards %s
- Memories: %d of 20 to 80 words, seed %d, in one namespace; vectors of the built-in model
- Queries: 3 to 10 words of a memory, one in three with its title. One query at a time goes to a process on a loopback
  socket. A leg returns 50 hits; the memory service returns the contents of %d. CPU is the processor time of the process
  and of its connections' server processes. It hardly depends on other load. Queries per second and core are one second
  divided by it
- Disk is the service's tables with their indexes after loading, including the free space that vacuuming left

| service | p50 ms | p95 ms | CPU ms | in PostgreSQL | queries/s a core | bytes a memory | GB for a million |
|---|---|---|---|---|---|---|---|
`, s.memories, s.queries, time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), server, before, loadAverage(),
		s.memories, s.seed, contents)
	var cpu time.Duration
	var bytes float64
	for _, v := range services {
		each := float64(v.bytes) / float64(s.memories)
		n := time.Duration(len(v.times))
		at := func(percent int) string { return ms(v.times[len(v.times)*percent/100]) }
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %.0f | %.0f | %.1f |\n", v.name, at(50), at(95), ms(v.own/n), ms(v.database/n),
			float64(time.Second)/float64(v.perQuery()), each, each/1000)
		cpu, bytes = cpu+v.perQuery(), bytes+each
	}
	fmt.Fprintf(&out, "| together | | | %s | | %.0f | %.0f | %.1f |\n", ms(cpu), float64(time.Second)/float64(cpu), bytes, bytes/1000)
	fmt.Fprintf(&out, `
## From here to 10⁹ memories
A query reads one namespace. Its cost depends on the size of that namespace, not on the number of namespaces. These are
the needs with namespaces of %d memories, and with cores and disks as here:

| memories | namespaces | disk | clusters of 1 TB | cores for 100 recalls/s | for 1,000 |
|---|---|---|---|---|---|
`, s.memories)
	for _, memories := range []float64{1e6, 1e7, 1e8, 1e9} {
		disk := memories * bytes
		clusters := max(1, int((disk+1e12-1)/1e12))
		fmt.Fprintf(&out, "| %.0f million | %.0f | %.0f GB | %d | %.1f | %.0f |\n", memories/1e6, max(1, memories/float64(s.memories)), disk/1e9, clusters, 100*cpu.Seconds(), 1000*cpu.Seconds())
	}
	return out.String(), nil
}

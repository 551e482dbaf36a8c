package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// contents is how many memories a recall fetches.
const contents = 10

// service is one whose needs are measured alone, and what they are.
type service struct {
	name    string
	process *exec.Cmd
	ask     func(ctx context.Context, namespace string, q question) error

	times    []time.Duration
	own      time.Duration // processor time of the process, for all queries
	database time.Duration // of the connections that it has to PostgreSQL
	bytes    int64         // that its schema takes on disk
	loading  time.Duration // until it searched in memory
	idle     int64         // bytes of the process in memory, before
	resident int64         // and afterwards
}

// ramPerMemory is what the process took for each memory.
func (s service) ramPerMemory(memories int) float64 {
	return float64(s.resident-s.idle) / float64(memories)
}

// sized are the services with a namespace of a size.
type sized struct {
	memories int
	services []service
	recalls  []filtered // by one process with all legs
	loading  time.Duration
	resident int64 // bytes of that process
}

// filtered are the times of recalls with a filter.
type filtered struct {
	pass  string // the share that passes
	times []time.Duration
}

// perRecall is the processor time of one query to each service.
func (s sized) perRecall() (cpu time.Duration) {
	for _, v := range s.services {
		cpu += v.perQuery()
	}
	return cpu
}

// perMemory is what a memory takes in all services, on disk and in memory.
func (s sized) perMemory() (disk, ram float64) {
	for _, v := range s.services {
		disk += float64(v.bytes) / float64(s.memories)
		if v.name != "memory" {
			ram += v.ramPerMemory(s.memories)
		}
	}
	return disk, ram
}

// perQuery is the processor time of one query, everywhere.
func (s service) perQuery() time.Duration { return (s.own + s.database) / time.Duration(len(s.times)) }

// capacities writes what each service needs for a query and for a memory, in namespaces of several sizes.
func (s *settings) capacities(ctx context.Context) error {
	before := loadAverage()
	var found []sized
	var server string
	for size := range strings.SplitSeq(s.capacity, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return fmt.Errorf("-capacity: %q is not a number above 0", size)
		}
		size := sized{memories: n}
		if server, err = s.capacityOf(ctx, &size); err != nil {
			return fmt.Errorf("%d memories: %w", n, err)
		}
		found = append(found, size)
	}
	return s.write("capacity.md", s.reportCapacity(found, server, before))
}

// capacityOf measures what each service needs with so many memories.
func (s *settings) capacityOf(ctx context.Context, size *sized) (server string, err error) {
	b, err := s.start(ctx)
	if err != nil {
		return "", err
	}
	defer b.stop()
	texts := notes(s.seed, size.memories)
	if err := b.load(ctx, &store{name: "PostgreSQL", conn: b.one, process: b.processes[0], threads: true}, texts); err != nil {
		return "", fmt.Errorf("load: %w", err)
	}
	b.stopProcesses() // its memory is for the services
	if size.services, err = b.startServices(ctx); err != nil {
		return "", err
	}
	queries := questions(s.seed, texts, s.queries)
	for i := range size.services {
		b.progress("%d queries to %s", len(queries), size.services[i].name)
		if err := b.askAlone(ctx, &size.services[i], queries); err != nil {
			return "", fmt.Errorf("%s: %w", size.services[i].name, err)
		}
	}
	b.stopProcesses()
	if err := b.askTogether(ctx, size, queries); err != nil {
		return "", err
	}
	err = b.admin.QueryRow(ctx, "SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync')").Scan(&server)
	return server, err
}

// askTogether asks one process with all legs, under each filter.
func (b *bench) askTogether(ctx context.Context, size *sized, queries []question) error {
	conn, err := b.gateway(ctx, nil, "triskele", "up", "--postgres", b.url, "--search-memory", fmt.Sprint(8<<30))
	if err != nil {
		return err
	}
	ask := func(q question, tags ...string) (*triskelev1.RecallResponse, error) {
		return triskelev1.NewRecallServiceClient(conn).Recall(ctx, &triskelev1.RecallRequest{
			Namespaces: []string{namespace}, Query: q.text, Filter: &triskelev1.Filter{TagsAny: tags}, Budget: durationpb.New(budget),
		})
	}
	begun := time.Now()
	inMemory := func(report *triskelev1.LegReport) bool { return report.GetState() == triskelev1.LegState_LEG_STATE_OK }
	for loaded := false; !loaded; {
		resp, err := ask(queries[0])
		if err != nil {
			return err
		}
		loaded = !slices.ContainsFunc(resp.GetLegs(), func(l *triskelev1.LegReport) bool {
			return !inMemory(l) && l.GetState() != triskelev1.LegState_LEG_STATE_ABSTAINED
		})
		if time.Since(begun) > 5*time.Minute {
			return errors.New("the namespace is not in memory")
		}
	}
	size.loading = time.Since(begun)
	for _, pass := range append([]share{{tag: "all"}}, shares...) {
		var tags []string
		if pass.part > 0 {
			tags = []string{pass.tag}
		}
		b.progress("%d recalls, %s pass", len(queries), pass.tag)
		f := filtered{pass: pass.tag}
		for i, q := range append(queries[:min(warmUp, len(queries)):min(warmUp, len(queries))], queries...) {
			start := time.Now()
			if _, err := ask(q, tags...); err != nil {
				return err
			}
			if i >= warmUp {
				f.times = append(f.times, time.Since(start))
			}
		}
		slices.Sort(f.times)
		size.recalls = append(size.recalls, f)
	}
	size.resident = resident(b.processes[len(b.processes)-1].Process.Pid)
	return nil
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
		own.ask = func(ctx context.Context, namespace string, q question) error {
			resp, err := leg.Search(ctx, &triskelev1.SearchRequest{Namespace: namespace, Query: q.text, Depth: 50})
			if resp.GetState() == triskelev1.LegState_LEG_STATE_FALLBACK {
				return errors.New(resp.GetReason())
			}
			for _, hit := range resp.GetHits()[:min(contents, len(resp.GetHits()))] {
				if name == "lexical" {
					found = append(found, hit.GetId())
				}
			}
			return err
		}
		if name == "memory" {
			own.ask = func(ctx context.Context, namespace string, _ question) error {
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
		return s.ask(ctx, namespace, q)
	}
	for err := status.Error(codes.Unavailable, ""); status.Code(err) == codes.Unavailable; time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = s.ask(ctx, "empty", queries[0])
	}
	s.idle = resident(s.process.Process.Pid)
	begun := time.Now()
	for deadline := begun.Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // it reads the namespace
		err := ask(queries[0])
		if err == nil {
			s.loading = time.Since(begun)
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
	s.resident = resident(s.process.Process.Pid)
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

// Prices of a month, about what clouds ask for machines of general purpose by the hour, in US dollars.
const (
	corePrice = 23.0
	ramPrice  = 3.0  // for a GB
	diskPrice = 0.10 // for a GB
)

// reportCapacity is what docs/bench/capacity.md says.
func (s *settings) reportCapacity(found []sized, server, before string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `# What a service needs for a query and for a memory

    make bench-capacity CAPACITY_MEMORIES=%s QUERIES=%d

- Date: %s
- Machine: %d cores, %s/%s, %s; %s; one-minute load average before %s, afterwards %s
- Memories of 20 to 80 words in threads of %d, seed %d, in one namespace; vectors of the built-in model
- Queries: 3 to 10 words of a memory, one in three with its title. One query at a time goes to a process on a loopback
  socket. A leg searches in memory and returns 50 hits; the memory service returns the contents of %d. CPU is the processor
  time of the process and of its connections' server processes. Queries per second and core are one second divided by it
- Disk is the service's tables with their indexes. Resident is the process's memory after the queries, with what reading
  left to be reused; RAM bytes a memory are what it grew by. Loading is the time from the first query until the leg searched in memory

| memories | service | p50 ms | p95 ms | CPU ms | in PostgreSQL | queries/s a core | disk bytes a memory | loading s | resident MB | RAM bytes a memory |
|---|---|---|---|---|---|---|---|---|---|---|
`, s.capacity, s.queries, time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), server, before, loadAverage(),
		inThread, s.seed, contents)
	for _, size := range found {
		for _, v := range size.services {
			n := time.Duration(len(v.times))
			at := func(percent int) string { return ms(v.times[len(v.times)*percent/100]) }
			loading, ram := "", ""
			if v.name != "memory" {
				loading, ram = fmt.Sprintf("%.1f", v.loading.Seconds()), fmt.Sprintf("%.0f", v.ramPerMemory(size.memories))
			}
			fmt.Fprintf(&out, "| %d | %s | %s | %s | %s | %s | %.0f | %.0f | %s | %d | %s |\n", size.memories, v.name, at(50), at(95), ms(v.own/n), ms(v.database/n),
				float64(time.Second)/float64(v.perQuery()), float64(v.bytes)/float64(size.memories), loading, v.resident>>20, ram)
		}
		disk, ram := size.perMemory()
		fmt.Fprintf(&out, "| %d | together | | | %s | | %.0f | %.0f | | | %.0f |\n", size.memories, ms(size.perRecall()), float64(time.Second)/float64(size.perRecall()), disk, ram)
	}
	fmt.Fprintf(&out, `
## Recalls by one process with all legs
With contents, over a socket, one at a time. "Pass" is the share of the memories that a filter of a tag lets pass.

| memories | pass | p50 ms | p95 ms | loading s | resident MB |
|---|---|---|---|---|---|
`)
	for _, size := range found {
		for _, f := range size.recalls {
			fmt.Fprintf(&out, "| %d | %s | %s | %s | %.1f | %d |\n", size.memories, f.pass, ms(f.times[len(f.times)/2]), ms(f.times[len(f.times)*95/100]), size.loading.Seconds(), size.resident>>20)
		}
	}
	fmt.Fprintf(&out, `
## From here to 10⁹ memories
A query reads one namespace, so its cost depends on the size of that namespace, not on the number of namespaces. RAM is for
the legs, if a tenth of the namespaces is in use; the others cost disk alone. A month's price is

    cores for 100 recalls a second × %.0f + GB of RAM × %.0f + GB of disk × %.2f US dollars,

twice, for standbys and peaks. Prices are about what clouds ask for machines of general purpose, by the hour.

| memories | in namespaces of | namespaces | disk GB | RAM GB | cores for 100 recalls/s | for 1,000 | dollars a month, 100 recalls/s |
|---|---|---|---|---|---|---|---|
`, corePrice, ramPrice, diskPrice)
	for _, memories := range []float64{1e6, 1e7, 1e8, 1e9} {
		for _, size := range found {
			disk, ram := size.perMemory()
			disk, ram = disk*memories/1e9, ram*memories/1e9/10
			cores := 100 * size.perRecall().Seconds()
			fmt.Fprintf(&out, "| %.0f million | %d | %.0f | %.0f | %.1f | %.2f | %.1f | %.0f |\n", memories/1e6, size.memories, max(1, memories/float64(size.memories)),
				disk, ram, cores, 10*cores, 2*(cores*corePrice+ram*ramPrice+disk*diskPrice))
		}
	}
	return out.String()
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	warmUp = 50               // queries of each way
	rounds = 10               // in which the ways take turns
	budget = 10 * time.Second // so that nothing is left out
)

// yardstickWay is what the others are compared with.
const yardstickWay = "the bare fan-out"

// way is a way to recall.
type way struct {
	name string
	conn *grpc.ClientConn
	tag  string                                                        // filter; "" for none
	ask  func(ctx context.Context, q question) (found bool, err error) // instead of a recall, if not nil

	processes []*exec.Cmd // that answer, if their processor time is of interest
}

// measurement is what one way gave with a number of clients.
type measurement struct {
	way      string
	clients  int
	times    []time.Duration // in order
	took     time.Duration   // all of them, as many at a time as there are clients
	found    int             // answers with the query's source among the hits
	degraded int
	busy     time.Duration // processor time of the way's processes
}

func (m measurement) at(percent int) time.Duration {
	return m.times[min(len(m.times)*percent/100, len(m.times)-1)]
}

func (m measurement) perSecond() float64 { return float64(len(m.times)) / m.took.Seconds() }

// measure asks every query in every way, so many at a time; the ways take turns.
func (b *bench) measure(ctx context.Context, queries []question, clients int) ([]measurement, error) {
	ways := b.ways
	out := make([]measurement, len(ways))
	for round := -1; round < rounds; round++ {
		part := queries[max(round, 0)*len(queries)/rounds : (max(round, 0)+1)*len(queries)/rounds]
		if round < 0 {
			part = queries[:min(warmUp, len(queries))]
		}
		for i := range ways {
			at := (i + max(round, 0)) % len(ways)
			before := busy(ways[at].processes)
			m, err := ways[at].run(ctx, part, clients)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ways[at].name, err)
			}
			m.busy = busy(ways[at].processes) - before
			if round < 0 {
				continue
			}
			o := &out[at]
			o.way, o.clients = ways[at].name, clients
			o.times, o.took = append(o.times, m.times...), o.took+m.took
			o.found, o.degraded, o.busy = o.found+m.found, o.degraded+m.degraded, o.busy+m.busy
		}
	}
	for i := range out {
		slices.Sort(out[i].times)
	}
	return out, nil
}

// busy is how long processes have been on a processor, in steps of 10 ms each.
func busy(processes []*exec.Cmd) (total time.Duration) {
	const tick = 10 * time.Millisecond // Linux shows no other to programs
	for _, p := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err != nil {
			continue
		}
		// The program's name is in parentheses and may hold blanks; utime and stime are the 12th and 13th after it.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range fields[11:13] {
			ticks, _ := strconv.Atoi(field)
			total += time.Duration(ticks) * tick
		}
	}
	return total
}

func (w way) run(ctx context.Context, queries []question, clients int) (measurement, error) {
	m := measurement{times: make([]time.Duration, len(queries))}
	recall := func(q question) (found, degraded bool, err error) {
		if w.ask != nil {
			found, err = w.ask(ctx, q)
			return found, false, err
		}
		req := &triskelev1.RecallRequest{Namespaces: []string{namespace}, Query: q.text, Budget: durationpb.New(budget)}
		if w.tag != "" {
			req.Filter = &triskelev1.Filter{TagsAll: []string{w.tag}}
		}
		resp, err := triskelev1.NewRecallServiceClient(w.conn).Recall(ctx, req)
		found = slices.ContainsFunc(resp.GetHits(), func(h *triskelev1.Hit) bool { return h.GetMemory().GetContent() == q.source })
		return found, resp.GetDegraded(), err
	}
	var next, found, degraded atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	begun := time.Now()
	for range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(queries)); i = next.Add(1) - 1 {
				start := time.Now()
				has, less, err := recall(queries[i])
				m.times[i] = time.Since(start)
				if err != nil {
					errs <- err
					return
				}
				if has {
					found.Add(1)
				}
				if less {
					degraded.Add(1)
				}
			}
		})
	}
	wg.Wait()
	m.took, m.found, m.degraded = time.Since(begun), int(found.Load()), int(degraded.Load())
	select {
	case err := <-errs:
		return m, err
	default:
		return m, nil
	}
}

// report is what docs/bench/recall.md says.
func (b *bench) report(ctx context.Context, s settings, clients, loadBefore string, measured []measurement) (string, error) {
	var server string
	if err := b.admin.QueryRow(ctx, "SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync')").Scan(&server); err != nil {
		return "", err
	}
	compared := ""
	if b.peer != nil {
		compared = " WEAVIATE=HTTP,GRPC"
	}
	var out strings.Builder
	fmt.Fprintf(&out, `# A recall on both stores, with filters, and through sockets

    make bench-recall RECALL_MEMORIES=%d CLIENTS=%s%s

- Date: %s
- Machine: %d cores, %s/%s, %s; %s; one-minute load average %s before, %s afterwards
- Memories: %d of 20 to 80 words from a vocabulary of %d, Zipfian with exponent %v and offset %d, %d titles, seed %d, in one namespace and threads of %d
- Queries: %d, 3 to 10 words of a memory, one in three with its title; 10 hits with contents, a budget of %v, so nothing is left out
- Every way answers every query, in %d rounds in which the ways take turns, all on one database. A client waits for its
  answer before it asks again. Milliseconds as the client sees them, on a loopback socket
%s
The bare fan-out is three calls at once to servers on sockets, each a process, which return 50 hits that are ready. The ratios are to
it with as many clients. "10 %% pass" is a filter of a tag that so many memories have. Without threads no memory has neighbours that lend: the
difference is what surroundings take. Searchable means that every leg finds all memories. The queries of one way come again in the
next, so the contents of their hits are mostly in the memory service's cache.

| clients | way | p50 | p95 | p99 | recalls/s | p50 ratio | p95 ratio | source@10 | degraded |
|---|---|---|---|---|---|---|---|---|---|
`, s.memories, clients, compared, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), server, loadBefore, loadAverage(),
		s.memories, vocabulary, exponent, offset, subjects, s.seed, inThread, s.queries, budget, rounds, b.besides(s.memories))
	for _, m := range measured {
		yardstick := measured[slices.IndexFunc(measured, func(o measurement) bool { return o.way == yardstickWay && o.clients == m.clients })]
		fmt.Fprintf(&out, "| %d | %s | %s | %s | %s | %.0f | %.2f | %.2f | %.3f | %d |\n", m.clients, m.way, ms(m.at(50)), ms(m.at(95)), ms(m.at(99)), m.perSecond(),
			float64(m.at(50))/float64(yardstick.at(50)), float64(m.at(95))/float64(yardstick.at(95)), float64(m.found)/float64(len(m.times)), m.degraded)
	}
	fmt.Fprint(&out, "\n| store | stored | searchable | memories/s until searchable | disk a memory | loading the image | resident, one process |\n|---|---|---|---|---|---|---|\n")
	for _, st := range b.stores {
		fmt.Fprintf(&out, "| %s | %.1f s | %.1f s | %.0f | %.2f KB | %.2f s | %d MB |\n", st.name, st.stored.Seconds(), st.searchable.Seconds(),
			float64(s.memories)/st.searchable.Seconds(), float64(st.disk)/float64(s.memories)/1000, st.cold.Seconds(), st.resident>>20)
	}
	return out.String(), nil
}

// besides says how the peer was asked, as a list's next item.
func (b *bench) besides(memories int) string {
	if b.peer == nil {
		return ""
	}
	return fmt.Sprintf(`- Weaviate %s, one node with its defaults and vectors of the built-in model: hybrid search by gRPC, relative scores, words and vectors
  of equal weight, 10 objects with their properties. It stored and indexed %.0f memories/s, and was asked %v later
`, b.peer.version, float64(memories)/b.peer.stored.Seconds(), settling)
}

// loadAverage is that of the last minute, as the kernel writes it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }

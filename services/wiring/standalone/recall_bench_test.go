package standalone_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed/static"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// notes returns n memories in threads of 50 and a query of 3 to 10 words for each of 500 of them. Words have the frequencies
// of a natural language.
func notes(n int) (memories []*triskelev1.Memory, queries []string) {
	random := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(random, 1.1, 50, 200_000-1)
	word := func(k uint64) string {
		var b strings.Builder
		for k += 52; k > 0; k /= 52 {
			b.WriteByte("bdfgklmnprtvz"[k%52/4])
			b.WriteByte("aiou"[k%4])
		}
		return b.String()
	}
	for i := range n {
		words, position := make([]string, 20+random.IntN(61)), int64(i)
		for j := range words {
			words[j] = word(zipf.Uint64())
		}
		title := "Project " + strings.ToUpper(word(uint64(1e6+random.IntN(500))))
		memories = append(memories, &triskelev1.Memory{Namespace: "n", Title: title, Content: strings.Join(words, " "), Thread: fmt.Sprint(i / 50), Position: &position})
		if i%max(n/500, 1) == 0 {
			random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			words = words[:3+random.IntN(8)]
			if i%3 == 0 {
				words = append(words, title)
			}
			queries = append(queries, strings.Join(words, " "))
		}
	}
	return memories, queries
}

// cpuTime is the time that the process has computed. Unlike the time of a clock it does not depend on other processes.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkRecall imports 20,000 memories into each store, and recalls by 1 and 8 clients. It reports the time until the memories
// are searchable, and the percentiles and processor time of a recall.
func BenchmarkRecall(b *testing.B) {
	memories, queries := notes(20_000)
	for _, engine := range []struct {
		name   string
		config func() standalone.Config
	}{
		{"sqlite", func() standalone.Config { return standalone.Config{SQLite: filepath.Join(b.TempDir(), "bench.db")} }},
		{"postgres", func() standalone.Config { return standalone.Config{Postgres: pgtest.New(b)} }},
	} {
		b.Run(engine.name, func(b *testing.B) {
			embedder, err := static.Builtin()
			if err != nil {
				b.Fatal(err)
			}
			recalls, memory := start(b, engine.config(), embedder)
			importAll(b, recalls, memory, memories)
			for _, clients := range []int{1, 8} {
				b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { recallAll(b, recalls, queries, clients) })
			}
		})
	}
}

// BenchmarkImport imports 20,000 memories into each store until every leg finds them. It reports the time on the clock, and the
// processor time of the process and of PostgreSQL's server.
func BenchmarkImport(b *testing.B) {
	memories, _ := notes(20_000)
	for _, engine := range []struct {
		name   string
		config func() standalone.Config
	}{
		{"sqlite", func() standalone.Config { return standalone.Config{SQLite: filepath.Join(b.TempDir(), "bench.db")} }},
		{"postgres", func() standalone.Config { return standalone.Config{Postgres: pgtest.New(b)} }},
	} {
		b.Run(engine.name, func(b *testing.B) {
			embedder, err := static.Builtin()
			if err != nil {
				b.Fatal(err)
			}
			server := postmaster(b)
			var own, servers, took time.Duration
			for range b.N {
				b.StopTimer()
				recalls, memory := start(b, engine.config(), embedder)
				begun, computed, served := time.Now(), cpuTime(), childrenTime(server)
				b.StartTimer()
				importAll(b, recalls, memory, memories)
				own, servers, took = own+cpuTime()-computed, servers+childrenTime(server)-served, took+time.Since(begun)
			}
			n := float64(b.N * len(memories))
			b.ReportMetric(float64(own.Microseconds())/n, "cpu-µs/memory")
			b.ReportMetric(float64(servers.Microseconds())/n, "server-µs/memory")
			b.ReportMetric(n/took.Seconds(), "memories/s")
		})
	}
}

// postmaster is the process of PostgreSQL's server, 0 if it is none of this machine.
func postmaster(b *testing.B) (pid int) {
	conn, err := pgx.Connect(b.Context(), os.Getenv("TRISKELE_TEST_POSTGRES"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(b.Context())) }()
	if err := conn.QueryRow(b.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		b.Fatal(err)
	}
	return int(stat(pid, 4))
}

// childrenTime is the processor time of a process's children, those that have ended included.
func childrenTime(parent int) time.Duration {
	ticks := stat(parent, 16) + stat(parent, 17)
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
	for _, child := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(child); err == nil {
			ticks += stat(pid, 14) + stat(pid, 15)
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// stat reads a field of /proc/PID/stat, by the number that proc(5) gives it; 0 if there is none.
func stat(pid, field int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > field-3 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}
	return 0
}

// importAll stores memories and waits until every leg finds them.
func importAll(b *testing.B, recalls triskelev1.RecallServiceClient, memory triskelev1.MemoryServiceClient, memories []*triskelev1.Memory) {
	begun, computed := time.Now(), cpuTime()
	stream, err := memory.Import(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for batch := range slices.Chunk(memories, 500) {
		if stream.Send(&triskelev1.ImportRequest{Memories: batch}) != nil {
			break // CloseAndRecv says why
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		b.Fatal(err)
	}
	stored := time.Since(begun)
	for pending := int64(1); pending > 0; time.Sleep(200 * time.Millisecond) {
		resp, err := recalls.GetIndexStatus(b.Context(), &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: "n"})
		if err != nil {
			b.Fatal(err)
		}
		pending = 0
		for _, leg := range resp.GetLegs() {
			pending += leg.GetStatus().GetPending()
		}
	}
	b.Logf("stored after %v, searchable after %v: %.0f memories/s, %v of processor time", stored, time.Since(begun),
		float64(len(memories))/time.Since(begun).Seconds(), cpuTime()-computed)
}

// recallAll asks queries, so many at a time.
func recallAll(b *testing.B, recalls triskelev1.RecallServiceClient, queries []string, clients int) {
	var next atomic.Int64
	var mu sync.Mutex
	var times []time.Duration
	ask := func() error {
		begun := time.Now()
		_, err := recalls.Recall(b.Context(), &triskelev1.RecallRequest{
			Namespaces: []string{"n"}, Query: queries[int(next.Add(1))%len(queries)], Budget: durationpb.New(10 * time.Second),
		})
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Since(begun))
		return err
	}
	for range 50 {
		if err := ask(); err != nil {
			b.Fatal(err)
		}
	}
	times = times[:0]
	b.ReportAllocs()
	b.ResetTimer()
	computed := cpuTime()
	var asking sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for range clients {
		asking.Go(func() {
			for left.Add(-1) >= 0 {
				if err := ask(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
	b.ReportMetric(float64((cpuTime()-computed).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(percentile(times, 0.5).Microseconds()), "p50-µs")
	b.ReportMetric(float64(percentile(times, 0.95).Microseconds()), "p95-µs")
}

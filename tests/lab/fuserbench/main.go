// Command fuserbench times the gateway itself: fusing alone, whole recalls whose legs and memory service answer at once, and
// recalls over sockets beside a router that only asks three servers, which is the floor. It writes docs/bench/fuser.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/tests/lab/measure"
)

const (
	warmUp = 500 // calls of each way
	rounds = 20  // in which the ways take turns
)

type settings struct {
	calls, depth int
	out          string
}

func main() {
	var s settings
	flag.IntVar(&s.calls, "calls", 10_000, "of each way")
	flag.IntVar(&s.depth, "depth", 100, "hits of each of the three legs")
	flag.StringVar(&s.out, "out", "docs/bench", "`FOLDER` for fuser.md")
	flag.Parse()
	measure.Main(func(ctx context.Context) error { return s.run(ctx) })
}

// way is something that is timed.
type way struct {
	name   string
	call   func(context.Context) error
	times  []time.Duration
	allocs uint64 // of all calls
	bytes  uint64
}

func (s settings) run(ctx context.Context) error {
	before := loadAverage()
	process, err := telemetry.Start(ctx)
	if err != nil {
		return err
	}
	h := &host{tel: process.Service("bench")}
	defer h.close()
	ways, err := s.ways(h)
	if err != nil {
		return err
	}
	for round := -1; round < rounds; round++ {
		for i := range ways {
			w, n := &ways[(i+max(round, 0))%len(ways)], s.calls/rounds
			if round < 0 {
				n = warmUp
			}
			if err := w.repeat(ctx, n, round >= 0); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, "fuser.md"), []byte(s.report(before, ways)), 0o644)
}

// repeat calls a way so many times and, if it counts, notes what that took.
func (w *way) repeat(ctx context.Context, n int, counts bool) error {
	var begun, ended runtime.MemStats
	times := make([]time.Duration, n)
	runtime.ReadMemStats(&begun)
	for i := range times {
		start := time.Now()
		if err := w.call(ctx); err != nil {
			return err
		}
		times[i] = time.Since(start)
	}
	runtime.ReadMemStats(&ended)
	if counts {
		w.times = append(w.times, times...)
		w.allocs, w.bytes = w.allocs+ended.Mallocs-begun.Mallocs, w.bytes+ended.TotalAlloc-begun.TotalAlloc
	}
	return ctx.Err()
}

// ways are, in this order, the floor, the same with full lists, the gateway, and parts of it.
func (s settings) ways(h *host) ([]way, error) {
	full := func(i int) *triskelev1.SearchResponse { return answer(i, s.depth) }
	empty := func(int) *triskelev1.SearchResponse {
		return &triskelev1.SearchResponse{State: triskelev1.LegState_LEG_STATE_OK}
	}
	silent, err := h.legs(empty)
	if err != nil {
		return nil, err
	}
	talking, err := h.legs(full)
	if err != nil {
		return nil, err
	}
	far, err := h.gateway(talking, s.depth)
	if err != nil {
		return nil, err
	}
	near := make([]triskelev1.LegServiceClient, len(kinds))
	for i := range near {
		near[i] = local{resp: full(i)}
	}
	own, err := h.gateway(near, s.depth)
	if err != nil {
		return nil, err
	}
	var ways []way
	for _, x := range []struct {
		name    string
		recalls triskelev1.RecallServiceServer
	}{
		{"sockets: a router, three servers that say nothing", router{legs: silent, depth: s.depth}},
		{"sockets: a router, three servers with full lists", router{legs: talking, depth: s.depth}},
		{"sockets: the gateway, three servers with full lists", far},
	} {
		conn, err := h.serve(func(r grpc.ServiceRegistrar) { triskelev1.RegisterRecallServiceServer(r, x.recalls) })
		if err != nil {
			return nil, err
		}
		client := triskelev1.NewRecallServiceClient(conn)
		ways = append(ways, way{name: x.name, call: func(ctx context.Context) error {
			_, err := client.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "q"})
			return err
		}})
	}
	for _, method := range []triskelev1.FusionMethod{
		triskelev1.FusionMethod_FUSION_METHOD_RRF, triskelev1.FusionMethod_FUSION_METHOD_CONVEX, triskelev1.FusionMethod_FUSION_METHOD_DBSF,
	} {
		name := strings.ToLower(strings.TrimPrefix(method.String(), "FUSION_METHOD_"))
		req := &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "q", Fusion: &triskelev1.Fusion{Method: method, CompleteScores: new(false)}}
		ways = append(ways, way{name: ownTime + name, call: func(ctx context.Context) error {
			_, err := own.Recall(ctx, req)
			return err
		}})
	}
	lists := make([]fusion.List, len(kinds))
	for i := range lists {
		lists[i] = list(full(i))
	}
	return append(ways, way{name: "fusing alone, rrf", call: func(context.Context) error {
		fusion.Fuse(lists, fusion.Options{K: fusion.DefaultK, Limit: 10})
		return nil
	}}), nil
}

// ownTime is how the names of recalls begin whose legs are in the same process.
const ownTime = "the gateway's own time, "

func list(resp *triskelev1.SearchResponse) fusion.List {
	l := fusion.List{Leg: resp.GetScoreKind().String(), Namespace: "n", Weight: 1, Kind: resp.GetScoreKind()}
	for _, h := range resp.GetHits() {
		l.Hits = append(l.Hits, fusion.Hit{ID: h.GetId(), Score: h.GetScore(), Importance: h.GetImportance(), CreatedAt: h.GetCreatedAt().AsTime()})
	}
	return l
}

func (s settings) report(before string, ways []way) string {
	var out strings.Builder
	fmt.Fprintf(&out, `# The gateway's own time

    make bench-fuser

- Date: %s
- Machine: %d cores, %s/%s, %s; one-minute load average %s before, %s afterwards
- Three legs with %d hits each; adjacent legs share half of their hits. 10 hits with contents. %d recalls of each way, one
  at a time, in %d rounds; the ways take turns. Times are microseconds. Allocations are those of the whole process,
  including servers
- The goal: the gateway's own time at most 150 µs at p50 and 500 µs at p95

"Own time" is a whole recall whose legs and memory service answer at once in the same process. It includes budgets,
circuit breakers, spans, fusion, prior, contents and report. Ratios are to the floor, the first row.

| | p50 | p95 | p99 | p50 ratio | p95 ratio | allocations | KiB |
|---|--:|--:|--:|--:|--:|--:|--:|
`, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), before, loadAverage(),
		s.depth, s.calls/rounds*rounds, rounds)
	for i := range ways {
		slices.Sort(ways[i].times)
	}
	floor := ways[0]
	for _, w := range ways {
		n := float64(len(w.times))
		fmt.Fprintf(&out, "| %s | %.0f | %.0f | %.0f | %.2f | %.2f | %.0f | %.1f |\n", w.name, w.at(50), w.at(95), w.at(99),
			w.at(50)/floor.at(50), w.at(95)/floor.at(95), float64(w.allocs)/n, float64(w.bytes)/n/1024)
	}
	return out.String()
}

// at is what so many of a hundred calls took at most, in microseconds; the times are in order.
func (w way) at(percent int) float64 {
	return float64(w.times[min(len(w.times)*percent/100, len(w.times)-1)].Nanoseconds()) / 1e3
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

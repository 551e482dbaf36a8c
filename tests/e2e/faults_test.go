package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const ms = time.Millisecond

var (
	ok       = triskelev1.LegState_LEG_STATE_OK
	timedOut = triskelev1.LegState_LEG_STATE_TIMED_OUT
	failed   = triskelev1.LegState_LEG_STATE_FAILED
	skipped  = triskelev1.LegState_LEG_STATE_SKIPPED // by its breaker
)

// unhurried is a budget that a busy machine keeps, too.
const unhurried = 10 * time.Second

// TestKillEachLegUnderLoad kills each leg in turn while recalls run: none fails, the answers name the dead leg, and when
// it is back it is used again without anybody's help.
func TestKillEachLegUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.seed("load")
	var recalls, errs, degraded atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 2 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := s.ask("load", unhurried)
				recalls.Add(1)
				switch {
				case err != nil:
					errs.Add(1)
					t.Errorf("recall %d: %v", recalls.Load(), err)
					return
				case resp.GetDegraded():
					degraded.Add(1)
				}
				if len(resp.GetHits()) == 0 {
					t.Error("a recall came back empty")
				}
			}
		})
	}
	defer load.Wait()
	defer close(stop)
	inState := func(leg string, states ...triskelev1.LegState) func() bool {
		return func() bool {
			resp, err := s.ask("load", unhurried)
			if err != nil {
				t.Errorf("recall: %v", err)
				return true
			}
			r := report(resp, leg)
			if !slices.Contains(states, r.GetState()) {
				return false
			}
			if lost := r.GetState() != ok; lost && !resp.GetDegraded() || lost != strings.Contains(resp.GetDegradedReason(), leg) {
				t.Errorf("%s is %v, yet degraded is %v: %s", leg, r.GetState(), resp.GetDegraded(), resp.GetDegradedReason())
			}
			for _, h := range resp.GetHits() {
				if h.GetMemory().GetContent() == "" {
					t.Error("a hit without its contents")
				}
			}
			return true
		}
	}
	for _, leg := range legs {
		s.eventually(leg+" answers", inState(leg, ok))
		s.signal(leg, syscall.SIGKILL)
		s.eventually(leg+" is reported lost", inState(leg, failed, timedOut, skipped))
		s.run(leg)
		s.eventually(leg+" is used again", inState(leg, ok))
	}
	t.Logf("%d recalls, %d degraded, %d failed", recalls.Load(), degraded.Load(), errs.Load())
	if degraded.Load() == 0 {
		t.Error("the load did not notice any leg's death")
	}
}

func TestAllLegsDeadIsUnavailable(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.seed("dead")
	for _, leg := range legs {
		s.signal(leg, syscall.SIGKILL)
	}
	_, err := s.ask("dead", unhurried)
	if status.Code(err) != codes.Unavailable {
		t.Fatalf("want UNAVAILABLE, got %v", err)
	}
	for _, leg := range legs {
		if !strings.Contains(err.Error(), leg) {
			t.Errorf("the error does not name %s: %v", leg, err)
		}
		if strings.Contains(err.Error(), s.processes[leg].address) {
			t.Errorf("the error leaks an address: %v", err)
		}
	}
}

func TestEmptyCorpusIsAnEmptyList(t *testing.T) {
	t.Parallel()
	s := start(t)
	resp, err := s.ask("default", unhurried)
	if err != nil || len(resp.GetHits()) != 0 || resp.GetDegraded() {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestDeadlineReachesSQL locks the legs' tables, so that every search would wait for minutes, and watches from inside
// the server that no statement runs on after its caller has left.
func TestDeadlineReachesSQL(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.seed("sql")
	locker, watcher := s.sql(), s.sql()
	// Index workers, and what follows the database for the copies in memory, read the locked table too, without a caller whose deadline they could miss.
	const running = `SELECT count(*), coalesce(max(extract(epoch FROM clock_timestamp() - query_start) * 1000), 0)::float8,
			coalesce((array_agg(query ORDER BY query_start))[1], '')
		FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'triskele-%' AND state = 'active'
		AND query NOT LIKE '%index_queue%' AND query NOT LIKE '%m.category, m.sequence%'`
	s.eventually("connections and plans are warm", func() bool {
		resp, err := s.ask("sql", time.Second)
		return err == nil && !resp.GetDegraded()
	})
	tx, err := locker.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE memory.memories, memory.namespaces IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	const slack = 30 * time.Second
	blocked := 0
	for i, deadline := 0, 20*ms; i < 10 || blocked == 0 && i < 20; i++ {
		if i >= 10 {
			deadline *= 2 // on a busy machine no statement begins in 20 ms
		}
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		done := make(chan error, 1)
		begun := time.Now()
		go func() {
			resp, err := s.recall.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{"sql"}, Query: "Where is the backup of Kestrel 3 kept?"})
			if err == nil && (!resp.GetDegraded() || len(resp.GetHits()) == 0) { // found in memory, without contents
				err = fmt.Errorf("%d hits, degraded: %v", len(resp.GetHits()), resp.GetDegraded())
			}
			done <- err
		}()
		var left time.Time // when the caller did
		for {
			var n int
			var oldest float64
			var statement string
			if err := watcher.QueryRow(t.Context(), running).Scan(&n, &oldest, &statement); err != nil {
				t.Fatal(err)
			}
			blocked = max(blocked, n)
			// The slack is for a busy machine; without the deadline the lock would hold the statement up for good.
			if oldest > float64((deadline+slack)/ms) {
				t.Fatalf("a statement has been running for %.0f ms under a deadline of %v: %s", oldest, deadline, statement)
			}
			select {
			case err := <-done:
				left = time.Now()
				if code := status.Code(err); code != codes.OK && code != codes.DeadlineExceeded && code != codes.Unavailable {
					t.Fatalf("recall against locked tables: %v", err)
				}
			default:
			}
			// What began after the caller had left is not the caller's: other work in the background reads the locked tables, too.
			if !left.IsZero() && (n == 0 || oldest < float64(time.Since(left))/float64(ms)) {
				break
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("statements still run long after their caller left, such as %s", statement)
			}
		}
		cancel()
	}
	if blocked == 0 {
		t.Error("no statement was ever seen waiting: the test did not test anything")
	}
	if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.eventually("recalls work again", func() bool {
		resp, err := s.ask("sql", time.Second)
		return err == nil && !resp.GetDegraded() && len(resp.GetHits()) > 0
	})
}

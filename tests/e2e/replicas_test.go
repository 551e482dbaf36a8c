package e2e_test

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/platform/rpc/rpctest"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestReplicas has two replicas of each leg and of the memory service behind names, as headless services have them, and
// recalls and writes all the time. Legs are killed, come and are drained, and so is a memory service: no recall fails or lacks a leg, no
// write fails, and those that are there share the load within seconds.
func TestReplicas(t *testing.T) {
	t.Parallel()
	names := rpctest.ServeNames(t)
	services := append([]string{"memory"}, legs...)
	args := map[string][]string{"fuser": {"--admin", "127.0.0.1:0"}}
	for _, name := range services {
		args[name] = []string{"--admin", "127.0.0.1:0"}
	}
	s := startWith(t, setup{args: args, via: func(name, address string) string {
		names.Set(name+".test", 1)
		_, port, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(port)
		return names.Target(name+".test", n)
	}})
	// replicate starts another replica of a service, on the same port of 127.0.0.n, and says so when it serves.
	replicate := func(name string, n int) {
		first := s.processes[name]
		_, port, _ := net.SplitHostPort(first.address)
		address := fmt.Sprintf("127.0.0.%d:%s", n, port)
		replica := fmt.Sprintf("%s-%d", name, n)
		s.processes[replica] = &process{
			name: replica, program: name + "d", address: address, args: append(slices.Clone(first.args), "--listen", address),
		}
		s.run(replica)
	}
	for _, name := range services {
		replicate(name, 2)
	}
	for _, name := range services {
		s.awaitServing(name + "-2")
		names.Set(name+".test", 1, 2)
	}
	// Calls about one namespace prefer one replica, so there are many.
	namespaces := make([]string, 24)
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("replicas-%d", i)
		s.remember(&triskelev1.Memory{Namespace: namespaces[i], Content: "The backup of Kestrel 3 is kept on the host heron."})
	}
	for _, namespace := range namespaces {
		s.awaitIndexes(namespace)
	}

	var asked, recalls, writes atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	defer load.Wait()
	var stopOnce sync.Once
	halt := func() { stopOnce.Do(func() { close(stop) }) }
	defer halt()
	during := func(what func() error) {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := what(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		during(func() error {
			resp, err := s.ask(namespaces[int(asked.Add(1))%len(namespaces)], unhurried)
			if err != nil || resp.GetDegraded() || len(resp.GetHits()) == 0 || resp.GetHits()[0].GetMemory().GetContent() == "" {
				return fmt.Errorf("recall %d: %v, %s, %d hits", recalls.Load(), err, resp.GetDegradedReason(), len(resp.GetHits()))
			}
			recalls.Add(1)
			return nil
		})
	}
	during(func() error {
		n := writes.Add(1)
		_, err := s.memory.Remember(t.Context(), &triskelev1.RememberRequest{
			Memory: &triskelev1.Memory{Namespace: "written", Content: fmt.Sprintf("Note %d of the heron.", n)},
		})
		if err != nil {
			return fmt.Errorf("write %d: %w", n, err)
		}
		return nil
	})
	// shared waits until all of these replicas have been called since it was called.
	shared := func(what string, replicas ...string) {
		t.Helper()
		begun, before := time.Now(), map[string]int{}
		for _, name := range replicas {
			before[name] = s.calls(name)
		}
		s.eventually(what, func() bool {
			return !slices.ContainsFunc(replicas, func(name string) bool { return s.calls(name) < before[name]+5 })
		})
		t.Logf("%s: after %.1f s, %d recalls and %d writes", what, time.Since(begun).Seconds(), recalls.Load(), writes.Load())
	}
	every := func(n string) (replicas []string) {
		for _, leg := range legs {
			replicas = append(replicas, leg+n)
		}
		return replicas
	}
	shared("both of each are called", append(append(every(""), every("-2")...), "memory", "memory-2")...)

	// Killed: their addresses stay in the names for a while, as in a cluster that has to notice first.
	for _, leg := range legs {
		s.signal(leg, syscall.SIGKILL)
	}
	shared("the others are called on", every("-2")...)
	for _, leg := range legs {
		names.Set(leg+".test", 2)
	}

	// Added: nothing happens to any connection that would have clients look.
	for _, leg := range legs {
		replicate(leg, 3)
	}
	for _, leg := range legs {
		s.awaitServing(leg + "-3")
		names.Set(leg+".test", 2, 3)
	}
	shared("the new ones are called", every("-3")...)

	// Drained, as a rolling update does: out of the names, and told to stop.
	for _, leg := range legs {
		names.Set(leg+".test", 3)
		s.signal(leg+"-2", syscall.SIGTERM)
	}
	names.Set("memory.test", 2)
	s.signal("memory", syscall.SIGTERM)
	for _, name := range append(every("-2"), "memory") {
		if err := s.processes[name].cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	shared("those that are left are called", append(every("-3"), "memory-2")...)
	halt()
	load.Wait()
	t.Logf("%d recalls and %d writes, none of which failed", recalls.Load(), writes.Load())
}

// answered is how many calls of ours a program says that it has answered.
var answered = regexp.MustCompile(`(?m)^rpc_server_call_duration_seconds_count\{[^}]*triskele\.v1\.(?:Leg|Memory)Service[^}]*\} ([0-9.e+]+)`)

// calls returns how many calls a process has answered.
func (s *system) calls(name string) (n int) {
	s.t.Helper()
	shown := s.scrape(name)
	for _, match := range answered.FindAllStringSubmatch(shown, -1) {
		count, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		n += int(count)
	}
	if n == 0 && !strings.Contains(shown, "go_goroutines") {
		s.t.Fatalf("metrics of %s: %s", name, shown)
	}
	return n
}

package e2e_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

var prompts = flag.Int("hook.prompts", 12, "how many prompts TestHook has answered in each state of the service")

// TestHook runs the program as an agent does, once for each prompt, with the gateway up, slow and dead, and on a database of its
// own: right output, or none, exit code 0, and gone in time. Starting a program takes long on a busy machine, so what is in time is
// generous here; -v prints what it took.
func TestHook(t *testing.T) {
	t.Parallel()
	o := startOne(t, setup{})
	for i := range 20 {
		if _, err := o.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "piers", Content: fmt.Sprintf("Crane %d is serviced in spring.", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	go func() {
		for {
			conn, err := deaf.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	for _, x := range []struct {
		state   string
		flags   []string
		answers bool
	}{
		{"up", []string{"--address", o.processes["triskele"].address, "--within", "30s"}, true},
		{"embedded", []string{"--sqlite", o.file, "--within", "30s"}, true},
		{"up, 300 ms", []string{"--address", o.processes["triskele"].address}, false},
		{"slow", []string{"--address", deaf.Addr().String()}, false},
		{"dead", []string{"--address", freeAddress(t)}, false},
	} {
		var took []time.Duration
		answered := 0
		for i := range *prompts {
			var out, errs bytes.Buffer
			cmd := exec.Command(filepath.Join(programs, "triskele"), append([]string{"hook", "-n", "piers"}, x.flags...)...)
			cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"hook_event_name":"UserPromptSubmit","prompt":"when is crane %d serviced in spring?"}`, i%20))
			cmd.Stdout, cmd.Stderr = &out, &errs
			began := time.Now()
			if err := cmd.Run(); err != nil || errs.Len() > 0 {
				t.Errorf("%s: %v, errors %q", x.state, err, errs.String())
			}
			took = append(took, time.Since(began))
			if out.Len() > 0 {
				answered++
			}
			if out.Len() > 0 && (strings.HasPrefix(x.state, "slow") || x.state == "dead" || !strings.Contains(out.String(), "is serviced in spring.")) {
				t.Errorf("%s: %q", x.state, out.String())
			}
			if x.answers && out.Len() == 0 {
				t.Errorf("%s: prompt %d has no answer", x.state, i)
			}
		}
		slices.Sort(took)
		t.Logf("%-10s %4d prompts, %4d answered, p50 %v, p99 %v, longest %v", x.state, *prompts, answered,
			took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
		if !x.answers && took[len(took)-1] > 300*time.Millisecond+20*time.Second {
			t.Errorf("%s: %v", x.state, took[len(took)-1])
		}
	}
	cmd := exec.Command(filepath.Join(programs, "triskele"), "hook", "-n", "piers", "--address", o.processes["triskele"].address, "--within", "30s")
	cmd.Stdin, cmd.Stdout = strings.NewReader(`{"hook_event_name":"UserPromptSubmit","prompt":"when is crane 1 serviced in spring?"}`), unread(t)
	if err := cmd.Run(); err != nil {
		t.Errorf("an agent that does not read: %v", err)
	}
}

// mostForeground is how many times the processor time of a program that does nothing the end of an answer may take the hook, which
// the agent waits for: 13 on a busy machine and on a quiet one.
const mostForeground = 25

// TestHookLeavesSoon runs the hook at the end of an answer, in turns with a program that does nothing, and prints what both took. The
// bound is for processor time, since wall time is other programs' too, and by what the machine needs for nothing.
func TestHookLeavesSoon(t *testing.T) {
	t.Parallel()
	o := startOne(t, setup{})
	folder, err := os.MkdirTemp("", "triskele-hook-") // the last process may still write when the test ends
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	source, nothing, session := filepath.Join(folder, "main.go"), filepath.Join(folder, "nothing"), filepath.Join(folder, "s.jsonl")
	for path, text := range map[string]string{
		source:  "package main\n\nfunc main() {}\n",
		session: `{"type":"user","uuid":"1","sessionId":"s","cwd":"/work","message":{"content":"We service the harbour crane in spring."}}` + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", nothing, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	event := fmt.Sprintf(`{"session_id":"s","transcript_path":%q,"cwd":"/work","hook_event_name":"Stop"}`, session)
	lines := map[string][]string{
		"nothing": {nothing}, "version": {filepath.Join(programs, "triskele"), "version"},
		"Stop": {filepath.Join(programs, "triskele"), "hook", "--within", "30s", "--address", o.processes["triskele"].address},
	}
	wall, busy := map[string][]time.Duration{}, map[string][]time.Duration{}
	for range *prompts {
		for _, name := range slices.Sorted(maps.Keys(lines)) {
			var errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), lines[name][0], lines[name][1:]...)
			cmd.Stdin, cmd.Stderr, cmd.Env = strings.NewReader(event), &errs, append(os.Environ(), "XDG_STATE_HOME="+folder)
			began := time.Now()
			if err := cmd.Run(); err != nil || errs.Len() > 0 {
				t.Errorf("%s: %v, errors %q", name, err, errs.String())
			}
			wall[name] = append(wall[name], time.Since(began))
			busy[name] = append(busy[name], cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	median := func(of []time.Duration) time.Duration { return slices.Sorted(slices.Values(of))[len(of)/2] }
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		t.Logf("%-8s p50 %v, of processor time %v, %.0f times that of nothing", name, median(wall[name]).Round(100*time.Microsecond),
			median(busy[name]).Round(100*time.Microsecond), float64(median(busy[name]))/float64(median(busy["nothing"])))
	}
	if took, most := median(busy["Stop"]), mostForeground*median(busy["nothing"]); took > most {
		t.Errorf("the end of an answer takes %v of processor time, want at most %v", took, most)
	}
	o.eventually("what was said is stored", func() bool {
		resp, err := o.memory.List(t.Context(), &triskelev1.ListRequest{Namespace: "default"})
		return err == nil && len(resp.GetMemories()) == 1
	})
}

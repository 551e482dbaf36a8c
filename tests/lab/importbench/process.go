package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// sampled is how often memory is looked at. VmHWM, the peak, is kept by the kernel: only what a process did between its
// last sample and its end is missed.
const sampled = 20 * time.Millisecond

// process is a program that runs, and the most memory that it has had.
type process struct {
	cmd   *exec.Cmd
	errs  bytes.Buffer
	out   bytes.Buffer
	ended chan struct{}
	err   error // once ended
	// The most memory that it has had, in KiB: VmHWM, with what it shares and the files that it maps, and RssAnon, without.
	all, own atomic.Int64
}

func launch(program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "TRISKELE_ADMIN=off")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	waited := make(chan error, 1)
	go func() { waited <- p.cmd.Wait() }()
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(sampled)
		defer tick.Stop()
		for {
			p.all.Store(max(p.all.Load(), statusKB(p.cmd.Process.Pid, "VmHWM")))
			p.own.Store(max(p.own.Load(), statusKB(p.cmd.Process.Pid, "RssAnon")))
			select {
			case p.err = <-waited:
				return
			case <-tick.C:
			}
		}
	}()
	return p, nil
}

// end sends a signal and waits for the end.
func (p *process) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
	<-p.ended
}

// statusKB reads a figure of /proc/PID/status; 0 if there is none.
func statusKB(pid int, field string) int64 {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		name, rest, _ := strings.Cut(scanner.Text(), ":")
		if fields := strings.Fields(rest); name == field && len(fields) > 0 {
			kb, _ := strconv.ParseInt(fields[0], 10, 64)
			return kb
		}
	}
	return 0
}

// watch returns a function that ends the watch and says how much memory the children of a process have had at most of
// their own, all together: RssAnon, without what they share.
func watch(ctx context.Context, parent int) (stop func() int64) {
	ctx, cancel := context.WithCancel(ctx)
	peak := make(chan int64)
	go func() {
		var most int64
		tick := time.NewTicker(5 * sampled)
		defer tick.Stop()
		for {
			var sum int64
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
			if err != nil {
				children = nil // it has ended, or the kernel does not say
			}
			for _, child := range strings.Fields(string(children)) {
				if pid, err := strconv.Atoi(child); err == nil {
					sum += statusKB(pid, "RssAnon")
				}
			}
			most = max(most, sum)
			select {
			case <-ctx.Done():
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		cancel()
		return <-peak
	}
}

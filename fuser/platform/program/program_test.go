package program_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/program"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/telemetry"
)

// TestMain is the program itself if ENDS says how it ends.
func TestMain(m *testing.M) {
	how, is := os.LookupEnv("ENDS")
	if !is {
		os.Exit(m.Run())
	}
	var flags program.Flags
	program.Main("test", "Ends.", &flags, &flags, kong.Vars{"listen": "127.0.0.1:0", "tls_clients": "fuser"},
		func(ctx context.Context, _ *telemetry.Service, _ *admin.Server, _ *slog.Logger) error {
			if how == "never" {
				fmt.Println("running")
				<-ctx.Done()
				select {}
			}
			return map[string]error{"failure": errors.New("x"), "wrong": settings.Wrong(errors.New("x"))}[how]
		})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		ends string
		flag string
		want int
		env  []string
	}{
		{"well", "--admin=off", 0, nil}, {"failure", "--admin=off", 1, nil}, {"wrong", "--admin=off", 2, nil},
		{"well", "--trace-slow=-1s", 2, nil}, {"well", "--tls-clients=x", 2, nil}, {"well", "--admin=0.0.0.0:0", 2, nil},
		{"well", "--admin=off", 2, []string{"OTEL_TRACES_SAMPLER=sometimes"}}, {"well", "--admin=off", 2, []string{"OTEL_METRICS_EXPORTER=nonsense"}},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], x.flag)
		cmd.Env = slices.Concat(os.Environ(), []string{"ENDS=" + x.ends, "TRISKELE_CONFIG=off"}, x.env)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != x.want {
			t.Errorf("one that ends %s, with %s and %s: got %d, want %d: %s", x.ends, x.flag, x.env, got, x.want, out)
		}
	}
}

// TestSecondSignal: a program that takes long to stop ends at once when it is told again.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "--admin=off")
	cmd.Env = append(os.Environ(), "ENDS=never", "TRISKELE_CONFIG=off")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails once it has ended
		select {
		case <-ended:
			if ctx.Err() != nil {
				t.Error("the program did not end")
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

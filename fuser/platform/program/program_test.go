package program_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"testing"

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
		func(context.Context, *telemetry.Service, *admin.Server, *slog.Logger) error {
			return map[string]error{"failure": errors.New("x"), "wrong": settings.Wrong(errors.New("x"))}[how]
		})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		ends string
		flag string
		want int
	}{
		{"well", "--admin=off", 0}, {"failure", "--admin=off", 1}, {"wrong", "--admin=off", 2},
		{"well", "--trace-slow=-1s", 2}, {"well", "--tls-clients=x", 2}, {"well", "--admin=0.0.0.0:0", 2},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], x.flag)
		cmd.Env = append(os.Environ(), "ENDS="+x.ends, "TRISKELE_CONFIG=off")
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != x.want {
			t.Errorf("one that ends %s, with %s: got %d, want %d: %s", x.ends, x.flag, got, x.want, out)
		}
	}
}

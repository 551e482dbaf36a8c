package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/capture"
	"github.com/triskele/triskele/services/agents/internal/render"
)

type captureCmd struct {
	Transcript string `arg:"" help:"A session's file of Claude Code, Codex or Gemini CLI."`
	DryRun     bool   `help:"Print what would be kept, and store nothing."`
	jsonFlag
	namespaceFlag
	Store storeFlags `embed:""`
}

// Help is shown below the flags.
func (*captureCmd) Help() string {
	return "Does what the hook does after each answer. Secrets are replaced, a turn is stored once, and after 90 days it is no longer recalled. " +
		"A file " + capture.IgnoreFile + " in a project's folder keeps it, or turns that name some of its files, from being stored."
}

// Run stores the turns that are new.
func (c *captureCmd) Run(ctx context.Context, env *Env) error {
	path, err := filepath.Abs(c.Transcript)
	if err != nil {
		return err
	}
	session := capture.Session{Path: path, Namespace: c.Namespace, Now: env.Now()}
	var report capture.Report
	text := ""
	if c.DryRun {
		if report, err = session.Preview(); err != nil {
			return err
		}
		for _, m := range report.Memories {
			text += m.GetMetadata().GetFields()["role"].GetStringValue() + ": " + render.Lines(m.GetContent()) + "\n"
		}
	} else {
		if folder, err := stateFolder(runtime.GOOS, env.Getenv); err == nil {
			session.State = filepath.Join(folder, "capture")
		}
		process, err := telemetry.Start(ctx)
		if err != nil {
			return err
		}
		defer flush(ctx, process)
		if report, err = captured(ctx, env, process, c.Store, session); err != nil {
			return err
		}
	}
	text += fmt.Sprintf("%d kept, %d known, %d short, %d ignored; %d secrets replaced\n", report.Kept, report.Known, report.Short, report.Ignored, report.Redacted)
	return env.show(c.JSON, report, text)
}

// captured opens the store and stores what is new in a session.
func captured(ctx context.Context, env *Env, process *telemetry.Process, store storeFlags, session capture.Session) (_ capture.Report, err error) {
	conn, stop, err := store.open(ctx, env, process, false, slog.New(slog.DiscardHandler))
	if err != nil {
		return capture.Report{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	c := client.New(conn)
	return session.Run(ctx, turns{c.Memories, c.Recalls, c, store.Address == ""})
}

// indexTime bounds the wait for the indexes of a database that no other process brings up to date.
const indexTime = 10 * time.Second

// turns is a capture.Store.
type turns struct {
	triskelev1.MemoryServiceClient
	triskelev1.RecallServiceClient
	client *client.Client
	alone  bool // the indexes are brought up to date by this process only
}

// Import implements capture.Store.
func (t turns) Import(ctx context.Context, memories []*triskelev1.Memory) error {
	if _, err := t.client.Import(ctx, memories); err != nil || !t.alone {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, indexTime)
	defer cancel()
	_ = t.client.WaitIndexed(ctx, memories[0].GetNamespace(), nil) // what is not indexed is stored, and found by its words
	return nil
}

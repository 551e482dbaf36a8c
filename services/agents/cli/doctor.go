package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/dense"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/wiring/backend"
)

type doctorCmd struct {
	JSON bool `help:"Print the findings as JSON."`
	namespaceFlag
	gatewayFlags
	databaseFlags
}

type verdict string

const (
	ok   verdict = "ok"
	warn verdict = "warn"
	fail verdict = "fail"
)

type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Detail  string  `json:"detail"`
}

type findings []finding

func (f *findings) add(v verdict, check, detail string, args ...any) {
	*f = append(*f, finding{check, v, fmt.Sprintf(detail, args...)})
}

// Run prints all findings. It fails if a check failed.
func (c *doctorCmd) Run(ctx context.Context, env *Env) error {
	var found findings
	if err := c.with(ctx, func(s *session) error { return c.gateway(ctx, s, &found) }); err != nil {
		found.add(fail, "gateway", "%s", message(ctx, err))
	}
	checkCertificates(c.TLS, time.Now(), &found)
	if c.given() {
		c.database(ctx, env, &found)
	}
	style := env.style()
	paint := map[verdict]func(string) string{ok: style.Good, warn: style.Warn, fail: style.Bad}
	var text strings.Builder
	var failed []string
	for _, f := range found {
		lines := style.Hanging(f.Detail, len("fail    ")+max(len(f.Check), len("lexical index")))
		fmt.Fprintf(&text, "%s  %-13s  %s\n", paint[f.Verdict](fmt.Sprintf("%-4s", f.Verdict)), f.Check, lines)
		if f.Verdict == fail {
			failed = append(failed, f.Check)
		}
	}
	err := env.show(c.JSON, found, text.String())
	if err == nil && len(failed) > 0 {
		err = fmt.Errorf("failed checks: %s", strings.Join(failed, ", "))
	}
	return err
}

// gateway runs the checks through the gateway. An error means that the gateway did not answer.
func (c *doctorCmd) gateway(ctx context.Context, s *session, found *findings) error {
	start := time.Now()
	var gateway peer.Peer
	health, err := healthpb.NewHealthClient(s.Conn()).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&gateway))
	if err != nil {
		return err
	}
	v := ok
	if health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		v = fail
	}
	found.add(v, "gateway", "%s at %s, answered in %s", health.GetStatus(), c.Address, render.Duration(time.Since(start)))
	if shown, ok := gateway.AuthInfo.(credentials.TLSInfo); ok {
		checkExpiry("gateway's certificate", shown.State.PeerCertificates, time.Now(), found)
	}

	namespace := c.Namespace
	switch info, err := s.Memories.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace, Statistics: true}); {
	case status.Code(err) == codes.NotFound:
		found.add(warn, "memories", "namespace %s is empty: nothing was ever stored in it", namespace)
	case err != nil:
		found.add(fail, "memories", "%s", message(ctx, err))
	default:
		found.add(ok, "memories", "%s in namespace %s", render.Count(info.GetMemories(), "memory", "memories"), namespace)
	}

	indexes, err := s.Recalls.GetIndexStatus(ctx, &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: namespace})
	if err != nil {
		found.add(fail, "indexes", "%s", message(ctx, err))
	}
	for _, leg := range indexes.GetLegs() {
		checkIndex(leg, found)
	}
	checkRecall(ctx, s, namespace, found)
	return nil
}

func checkIndex(leg *triskelev1.LegIndexStatus, found *findings) {
	name := leg.GetLeg() + " index"
	st := leg.GetStatus()
	if st == nil {
		found.add(fail, name, "no status: %s", leg.GetError())
		return
	}
	v, detail := ok, render.Count(st.GetIndexed(), "memory", "memories")
	if st.GetModel() != "" {
		detail += ", model " + st.GetModel()
	}
	if st.GetExcluded() > 0 {
		detail += fmt.Sprintf(", %d kept out because they are sensitive", st.GetExcluded())
	}
	if st.GetPending() > 0 {
		v = warn
		detail += fmt.Sprintf(", %d waiting, the oldest for %s", st.GetPending(), render.Duration(st.GetLag().AsDuration()))
	}
	if st.GetStandbyLag() != nil {
		detail += fmt.Sprintf(", read from a standby %s behind", render.Duration(st.GetStandbyLag().AsDuration()))
	}
	if st.GetDead() > 0 {
		v = fail
		detail += fmt.Sprintf(", %d given up on: `triskele queue list --dead` shows why", st.GetDead())
	}
	found.add(v, name, "%s", detail)
}

// checkRecall runs one query and reports each leg.
func checkRecall(ctx context.Context, s *session, namespace string, found *findings) {
	resp, err := s.Recalls.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{namespace}, Query: "does recall work", IdsOnly: true, Budget: durationpb.New(time.Second)})
	switch {
	case status.Code(err) == codes.InvalidArgument: // unknown namespace, already reported
		return
	case err != nil:
		found.add(fail, "recall", "%s", message(ctx, err))
		return
	}
	for _, leg := range resp.GetLegs() {
		v := ok
		switch leg.GetState() {
		case triskelev1.LegState_LEG_STATE_TIMED_OUT, triskelev1.LegState_LEG_STATE_FAILED:
			v = fail
		case triskelev1.LegState_LEG_STATE_TRUNCATED, triskelev1.LegState_LEG_STATE_SKIPPED:
			v = warn
		}
		detail := fmt.Sprintf("%s, %s in %s of %s", render.LegState(leg.GetState()), render.Count(int64(leg.GetReturned()), "hit", "hits"),
			render.Duration(leg.GetSpent().AsDuration()), render.Duration(leg.GetBudget().AsDuration()))
		if leg.GetReason() != "" {
			detail += ": " + leg.GetReason()
		}
		found.add(v, leg.GetLeg()+" leg", "%s", detail)
	}
	found.add(ok, "recall", "answered in %s", render.Duration(resp.GetSpent().AsDuration()))
	checkBudgets(resp, found)
}

// checkBudgets reports a leg or contents budget above the recall's. Late results would be wasted.
func checkBudgets(resp *triskelev1.RecallResponse, found *findings) {
	whole, largest, of := resp.GetBudget().AsDuration(), resp.GetContents().GetBudget().AsDuration(), "the contents"
	for _, leg := range resp.GetLegs() {
		if budget := leg.GetBudget().AsDuration(); budget > largest {
			largest, of = budget, "the "+leg.GetLeg()+" leg"
		}
	}
	if largest > whole {
		found.add(fail, "budgets", "the budget of %s is %s, longer than the recall's %s: lower its share or cap (--leg)", of, render.Duration(largest), render.Duration(whole))
		return
	}
	found.add(ok, "budgets", "the recall's budget was %s; the largest part, %[3]s, went to %[2]s", render.Duration(whole), of, render.Duration(largest))
}

// database checks the database directly.
func (c *doctorCmd) database(ctx context.Context, env *Env, found *findings) {
	t, err := c.target(env)
	if err == nil {
		err = t.exists()
	}
	if err != nil {
		found.add(fail, "database", "%s", err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	err = t.with(ctx, func(b *backend.Backend) error {
		version, err := b.Version(ctx)
		if err != nil {
			return err
		}
		if t.path != "" {
			version += ", " + t.path
		}
		found.add(ok, "database", "%s", version)
		steps, err := b.Status(ctx)
		if err != nil {
			return err
		}
		if err := b.Check(ctx); err != nil {
			found.add(fail, "schema", "%s", err.Error())
			return nil // later checks may need missing tables
		}
		found.add(ok, "schema", "all %d migrations applied", len(steps))
		examined, err := b.Examine(ctx)
		if err != nil {
			return err
		}
		checkExamined(examined, t.url != "", found)
		backlog, err := b.Queue().Backlog(ctx, worstShown)
		if err != nil {
			return err
		}
		checkBacklog(backlog, found)
		models, err := b.Models().List(ctx)
		if err != nil {
			return err
		}
		checkModels(models, found)
		return nil
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v; --timeout allows more", c.Timeout)
	}
	if err != nil {
		found.add(fail, "database", "%s", err.Error())
	}
	checkMode(t, found)
}

const (
	worstShown = 5
	// longLag is the lag that suggests a fault, such as a stopped worker.
	longLag = 10 * time.Minute
)

func checkBacklog(backlog []queue.Backlog, found *findings) {
	if len(backlog) == 0 {
		found.add(ok, "queue", "all indexes of all namespaces are up to date")
	}
	for _, b := range backlog {
		v, advice := warn, ""
		switch {
		case b.Dead > 0:
			v, advice = fail, "; `triskele queue list --dead` shows why, `triskele queue retry` tries again"
		case b.Lag > longLag:
			v, advice = fail, "; does its service run?"
		}
		lag := ""
		if b.Pending > 0 {
			lag = ", the oldest for " + render.Duration(b.Lag)
		}
		found.add(v, "queue", "%s of %s: %d waiting%s, %d given up on%s", b.Index, b.Namespace, b.Pending, lag, b.Dead, advice)
	}
}

// checkModels reports unfinished steps of a model change.
func checkModels(models []dense.ModelInfo, found *findings) {
	for _, m := range models {
		vectors := render.Count(m.Vectors, "vector", "vectors")
		switch m.Status {
		case dense.Active:
			found.add(ok, "model", "%s is active, with %s", m.Model, vectors)
		case dense.Building:
			found.add(warn, "model", "%s is being built, with %s so far: `triskele reembed` continues, `triskele models cancel` removes it", m.Model, vectors)
		case dense.Retired:
			found.add(warn, "model", "%s is retired, with %s: `triskele models prune` removes them, once no service uses the model", m.Model, vectors)
		}
	}
}

// checkMode warns of a file that other users can read.
func checkMode(t target, found *findings) {
	if info, err := os.Stat(t.path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		found.add(warn, "file", "other users can read %s: its mode is %v and should be -rw-------", t.path, info.Mode().Perm())
	}
}

package hook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/briefing"
	"github.com/triskele/triskele/services/agents/hook"
)

// recalls answers as its function does.
type recalls func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error)

func (r recalls) Recall(ctx context.Context, req *triskelev1.RecallRequest, _ ...grpc.CallOption) (*triskelev1.RecallResponse, error) {
	return r(ctx, req)
}

// opened is a Recaller that is there already.
func opened(r recalls) func(context.Context) (hook.Recaller, error) {
	return func(context.Context) (hook.Recaller, error) { return r, nil }
}

// found is a hit that is relevant with a probability.
func found(content string, probability float64) *triskelev1.Hit {
	return &triskelev1.Hit{
		Score:  probability,
		Memory: &triskelev1.Memory{Content: content, CreatedAt: timestamppb.New(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))},
	}
}

// answering is a gateway that found the hits.
func answering(hits ...*triskelev1.Hit) recalls {
	return func(_ context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		if req.GetMinScore().GetScale() != triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY {
			return nil, errors.New("the hook must cut by probability")
		}
		resp := &triskelev1.RecallResponse{}
		for _, hit := range hits {
			if hit.GetScore() >= req.GetMinScore().GetValue() {
				resp.Hits = append(resp.Hits, hit)
			}
		}
		resp.NothingRelevant = len(hits) > len(resp.Hits) && len(resp.Hits) == 0
		return resp, nil
	}
}

var usual = hook.Config{Namespaces: []string{"default"}, MaxTokens: 600, MinScore: client.Maybe}

// ask has a prompt answered in plenty of time.
func ask(t *testing.T, event string, r recalls, config hook.Config) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := hook.Answer(ctx, strings.NewReader(event), opened(r), config)
	return string(out), err
}

// Every agent gets the answer in its own form.
func TestAgents(t *testing.T) {
	for name, x := range map[string]struct{ event, context string }{
		"Claude Code": {`{"session_id":"abc","transcript_path":"/t.jsonl","cwd":"/w","permission_mode":"default","hook_event_name":"UserPromptSubmit","prompt":"crane?"}`, "hookSpecificOutput.additionalContext"},
		"Codex":       {`{"session_id":"abc","transcript_path":null,"cwd":"/w","model":"m","permission_mode":"plan","turn_id":"1","hook_event_name":"UserPromptSubmit","prompt":"crane?"}`, "hookSpecificOutput.additionalContext"},
		"Gemini CLI":  {`{"session_id":"abc","transcript_path":"/t","cwd":"/w","hook_event_name":"BeforeAgent","timestamp":"2026-03-01T00:00:00Z","prompt":"crane?"}`, "hookSpecificOutput.additionalContext"},
		"Cursor":      {`{"conversation_id":"1","generation_id":"2","hook_event_name":"beforeSubmitPrompt","workspace_roots":["/w"],"prompt":"crane?","attachments":[]}`, "additional_context"},
		"Cline":       {`{"clineVersion":"3","hookName":"UserPromptSubmit","timestamp":"1","taskId":"2","workspaceRoots":["/w"],"userId":"u","userPromptSubmit":{"prompt":"crane?","attachments":[]}}`, "contextModification"},
		"any other":   {`{"prompt":"crane?"}`, "hookSpecificOutput.additionalContext"},
	} {
		out, err := ask(t, x.event, answering(found("The crane is serviced in spring.", .5)), usual)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Fatalf("%s: %q: %v", name, out, err)
		}
		if answer["cancel"] == true || answer["continue"] == false {
			t.Errorf("%s: the prompt is refused: %s", name, out)
		}
		field, of := x.context, answer
		if outer, inner, nested := strings.Cut(field, "."); nested {
			field, of = inner, answer[outer].(map[string]any)
			if event := of["hookEventName"]; !strings.Contains(x.event+"UserPromptSubmit", event.(string)) {
				t.Errorf("%s: event %v", name, event)
			}
		}
		if text, _ := of[field].(string); !strings.Contains(text, "> The crane is serviced in spring.\n") || !strings.HasPrefix(text, "<memories>") {
			t.Errorf("%s: %s", name, out)
		}
	}
	config := usual
	config.Text = true
	if out, err := ask(t, `{"prompt":"crane?"}`, answering(found("The crane.", .5)), config); err != nil || !strings.HasPrefix(out, "<memories>\n") {
		t.Errorf("as text: %q, %v", out, err)
	}
}

// A namespace in which nothing was stored yet hides no others.
func TestUnknownNamespaces(t *testing.T) {
	near := answering(found("The crane is serviced in spring.", .5))
	for known, want := range map[string]string{"team": "[team]", "home": "[home]", "": "[later]"} {
		var asked string
		out, err := ask(t, `{"prompt":"crane?"}`, func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			asked = fmt.Sprint(req.GetNamespaces())
			for i, namespace := range req.GetNamespaces() {
				if namespace != known {
					return nil, rpc.Invalid(fmt.Sprintf("namespaces[%d]", i), fmt.Sprintf("%q is unknown; storing a memory in it creates it", namespace))
				}
			}
			return near(ctx, req)
		}, hook.Config{Namespaces: []string{"home", "team", "later"}, MaxTokens: 600, MinScore: client.Maybe})
		if asked != want || (err == nil) != (known != "") || strings.Contains(out, "spring") != (known != "") {
			t.Errorf("%q: got %s from %s, %v; want the answer from %s", known, out, asked, err, want)
		}
	}
}

// A namespace whose name is wrong is told: nothing can be stored in it.
func TestWrongNamespace(t *testing.T) {
	times := 0
	_, err := ask(t, `{"prompt":"crane?"}`, func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		times++
		return nil, rpc.Invalid("namespaces[1]", "value does not match")
	}, hook.Config{Namespaces: []string{"home", "a b"}, MaxTokens: 600, MinScore: client.Maybe})
	if err == nil || times != 1 {
		t.Errorf("got %v after %d recalls, want the error of the only one", err, times)
	}
}

// failing is a gateway whose recalls fail.
func failing(code codes.Code) recalls {
	return func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		return nil, status.Error(code, "no")
	}
}

func TestSilence(t *testing.T) {
	secret := found("The vault opens with quokka.", .9)
	secret.Memory.Sensitive = true
	near := answering(found("The crane is serviced in spring.", .5))
	const crane = `{"prompt":"when is the crane serviced"}`
	for name, x := range map[string]struct {
		event string
		r     recalls
		why   string
	}{
		"no input":                 {``, near, "EOF"},
		"no JSON":                  {`crane`, near, "not a JSON object"},
		"half an event":            {`{"prompt":"cra`, near, "not a JSON object"},
		"another type":             {`[1]`, near, "not a JSON object"},
		"a prompt that is no text": {`{"prompt":7}`, near, "not a JSON object"},
		"no prompt":                {`{"hook_event_name":"UserPromptSubmit"}`, near, "no prompt"},
		"a start that is ignored":  {`{"hook_event_name":"SessionStart"}`, near, "nothing to do"},
		"an end that is ignored":   {`{"hook_event_name":"SessionEnd","transcript_path":"/t"}`, near, "nothing to do"},
		"no contents":              {crane, answering(&triskelev1.Hit{Id: "x", Score: .5}), "could not read"},
		"a gateway that is busy":   {crane, failing(codes.ResourceExhausted), "too much to do"},
		"an empty prompt":          {`{"prompt":" \n"}`, near, "no prompt"},
		"a command":                {`{"prompt":"/compact now"}`, near, "command"},
		"an agent's own note":      {`{"prompt":"<task-notification>\nThe crane's report is ready.\n</task-notification>"}`, near, "no prompt"},
		"nothing found":            {crane, answering(), "nothing"},
		"unlike":                   {crane, answering(found("Tea at four.", .01)), "relevant"},
		"ranks, no probabilities": {crane, func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			return &triskelev1.RecallResponse{Hits: []*triskelev1.Hit{found("Tea at four.", .9)}, MinScoreIgnored: "the scores are on another scale"}, nil
		}, "probabilities"},
		"a secret":               {crane, answering(secret), "relevant"},
		"no room":                {crane, answering(found(strings.Repeat("longwordsonly", 5000), .5)), ""},
		"a gateway that is down": {crane, failing(codes.Unavailable), "the memory service is down: no"},
		"a gateway that is slow": {crane, failing(codes.DeadlineExceeded), "the memory service does not answer in time"},
		"a bad request":          {crane, failing(codes.InvalidArgument), "no"},
		"a panic":                {crane, func(context.Context, *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) { panic("oh") }, "panic"},
	} {
		config := usual
		if name == "no room" {
			config.MaxTokens = 20
		}
		if out, err := ask(t, x.event, x.r, config); out != "" || err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := hook.Answer(ctx, strings.NewReader(crane), func(context.Context) (hook.Recaller, error) { return nil, errors.New("no database") }, usual); out != nil || err == nil {
		t.Errorf("without a store: %q, %v", out, err)
	}
}

func TestRelevance(t *testing.T) {
	secret := found("The vault opens with quokka.", .9)
	secret.Memory.Sensitive = true
	config := usual
	config.Sensitive = true
	for name, x := range map[string]struct {
		hit    *triskelev1.Hit
		config hook.Config
	}{
		"like the prompt":           {found("Maintenance of lifting gear.", .2), usual},
		"a secret that may be told": {secret, config},
		"a path is not a command":   {found("see /etc/hosts", .5), usual},
	} {
		prompt := "when crane serviced"
		if strings.Contains(name, "path") {
			prompt = "/etc/hosts is broken"
		}
		if out, err := ask(t, fmt.Sprintf(`{"prompt":%q}`, prompt), answering(x.hit), x.config); err != nil || out == "" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

// What is looked for is what the user says: to a command of the agent, or beside what the editor puts in.
func TestWhatTheUserSays(t *testing.T) {
	const want = "the login form, which takes no umlauts"
	for _, prompt := range []string{`/fix:all\n` + want, `<ide_selection>lines 1 to 3 of crane.go</ide_selection>\n` + want} {
		var query string
		_, _ = ask(t, `{"prompt":"`+prompt+`"}`, func(_ context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			query = req.GetQuery()
			return nil, status.Error(codes.Unavailable, "")
		}, usual)
		if query != want {
			t.Errorf("%s: got %q, want %q", prompt, query, want)
		}
	}
}

// What is looked for of a long prompt is its beginning and its end.
func TestLongPrompt(t *testing.T) {
	for _, filler := range []string{"x", "ü", "起"} {
		prompt, err := json.Marshal(map[string]string{"prompt": "first " + strings.Repeat(filler, 50_000) + " last"})
		if err != nil {
			t.Fatal(err)
		}
		var query string
		_, _ = ask(t, string(prompt), func(_ context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
			query = req.GetQuery()
			return nil, status.Error(codes.Unavailable, "")
		}, usual)
		if len(query) > 2100 || !strings.HasPrefix(query, "first ") || !strings.HasSuffix(query, " last") || strings.ToValidUTF8(query, "") != query {
			t.Errorf("%d bytes: %.20q … ", len(query), query)
		}
	}
}

// A thousand prompts, with the service up, slow and dead: an answer when it is up, and never one late. The clock is not real, so
// that no other program's work counts.
func TestNeverLate(t *testing.T) {
	const within = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var answered, silent atomic.Int64
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				kind := i % 5
				open := opened(func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
					switch kind {
					case 0: // up, and slower with each prompt
						time.Sleep(time.Duration(i) * 290 * time.Microsecond)
					case 1: // deaf to its context
						time.Sleep(time.Hour)
					case 2: // as late as its context allows
						<-ctx.Done()
						return nil, status.FromContextError(ctx.Err()).Err()
					case 3:
						return nil, status.Error(codes.Unavailable, "connection refused")
					}
					if budget := req.GetBudget().AsDuration(); budget <= 0 || budget > within {
						t.Errorf("the gateway gets %v", budget)
					}
					return &triskelev1.RecallResponse{Hits: []*triskelev1.Hit{found("The crane is serviced in spring.", .5)}}, nil
				})
				var in io.Reader = strings.NewReader(`{"prompt":"when is the crane serviced?"}`)
				if kind == 4 { // an agent that says nothing
					silence, end := io.Pipe()
					defer func() { _ = end.Close() }()
					in = silence
				}
				began := time.Now()
				ctx, cancel := context.WithDeadline(t.Context(), began.Add(within))
				defer cancel()
				out, err := hook.Answer(ctx, in, open, usual)
				if took := time.Since(began); took > within {
					t.Errorf("prompt %d took %v", i, took)
				}
				switch {
				case kind == 0 && (err != nil || !strings.Contains(string(out), "serviced in spring")):
					t.Errorf("prompt %d: %q, %v", i, out, err)
				case kind != 0 && (err == nil || len(out) > 0):
					t.Errorf("prompt %d: %q", i, out)
				case kind == 0:
					answered.Add(1)
				default:
					silent.Add(1)
				}
			})
		}
		all.Wait()
		time.Sleep(2 * time.Hour) // the deaf ones end too
		if answered.Load() != 200 || silent.Load() != 800 {
			t.Errorf("%d answered, %d silent", answered.Load(), silent.Load())
		}
	})
}

// An agent may leave its end open: the event is read and no more.
func TestInputStaysOpen(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	go func() { _, _ = io.WriteString(out, `{"prompt":"when is the crane serviced?"}`) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := hook.Answer(ctx, in, opened(answering(found("The crane.", .5))), usual)
	if err != nil || len(text) == 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// What stands beside a memory is context: shown with it, and only in the tokens that memories leave.
func TestSurroundings(t *testing.T) {
	first, second := found("In Aldermouth, at the harbour.", .5), found("The crane is serviced in spring.", .4)
	first.Surroundings = &triskelev1.Surroundings{Before: []*triskelev1.Memory{{Content: "Where did you buy the cello?"}}, After: []*triskelev1.Memory{{Content: "How lovely!"}}}
	var asked int32
	gateway := func(ctx context.Context, req *triskelev1.RecallRequest) (*triskelev1.RecallResponse, error) {
		asked = req.GetSurroundings()
		return answering(first, second)(ctx, req)
	}
	config := usual
	config.Text = true
	out, err := ask(t, `{"prompt":"cello"}`, gateway, config)
	if err != nil || asked != 1 || !strings.Contains(out, "- before: Where did you buy the cello?\n> In Aldermouth") || !strings.Contains(out, "- after: How lovely!") {
		t.Errorf("asked for %d beside a hit, got %q, %v", asked, out, err)
	}
	config.MaxTokens = briefing.Tokens(out) - 1
	out, err = ask(t, `{"prompt":"cello"}`, gateway, config)
	if err != nil || !strings.Contains(out, "serviced in spring") || strings.Contains(out, "How lovely!") {
		t.Errorf("with %d tokens: got %q, %v", config.MaxTokens, out, err)
	}
	config.MaxTokens = 5
	if out, err = ask(t, `{"prompt":"cello"}`, gateway, config); out != "" || err == nil || err.Error() != "no memory fits into --max-tokens" {
		t.Errorf("with 5 tokens: got %q, %v", out, err)
	}
}

func TestBudget(t *testing.T) {
	var hits []*triskelev1.Hit
	for i := range 20 {
		hits = append(hits, found(fmt.Sprintf("Crane %d is serviced in spring by %s", i, strings.Repeat(fmt.Sprintf("worker%d ", i), 20)), .5))
	}
	config := usual
	config.Text, config.MaxTokens = true, 200
	out, err := ask(t, `{"prompt":"crane"}`, answering(hits...), config)
	if n := briefing.Tokens(out); err != nil || n > 200 || n < 100 {
		t.Errorf("%d tokens, %v", n, err)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(`{"hook_event_name":"UserPromptSubmit","prompt":"/"}`)
	f.Add(`{"hookName":"x","userPromptSubmit":{"prompt":"\u0000 a"}}`)
	f.Fuzz(func(t *testing.T, event string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := hook.Answer(ctx, strings.NewReader(event), opened(answering(found("The crane.", .5))), usual)
		if (len(out) == 0) == (err == nil) || (len(out) > 0 && !json.Valid(out)) {
			t.Errorf("%q, %v", out, err)
		}
		if err != nil && strings.HasPrefix(err.Error(), "panic") {
			t.Error(err)
		}
	})
}

package curator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed/remote"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/wiring/standalone"
)

const (
	green  = "The harbour gate is painted green."
	blue   = "The harbour gate was painted blue in May."
	merged = "The harbour gate was green and is painted blue since May."
)

// unchanged says whether two memories differ in nothing but what every write changes.
func unchanged(a, b *triskelev1.Memory) bool {
	strip := func(m *triskelev1.Memory) *triskelev1.Memory {
		m = proto.Clone(m).(*triskelev1.Memory)
		m.Revision, m.UpdatedAt = 0, nil
		return m
	}
	return proto.Equal(strip(a), strip(b))
}

func TestActions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int, a asked) {
			action, _, _ := strings.Cut(a.New.Text, ":")
			target := a.number(action + ": " + green)
			content := ""
			if action == "update" {
				content = merged
			}
			_, _ = fmt.Fprint(w, says(action, target, content))
		})
		config.Curator = fast(s)
		sys := start(t, config)
		for _, action := range []string{"add", "noop", "update", "supersede"} {
			older := sys.remember(action, action+": "+green, func(m *triskelev1.Memory) { m.Tags, m.Title = []string{"gate"}, "Gate" })
			if d := sys.decided(older); d.GetAction() != triskelev1.CurationAction_CURATION_ACTION_ADD || d.GetModel() != "" {
				t.Fatalf("%s: a lone memory was judged: %v", action, d)
			}
			newer := sys.remember(action, action+": "+blue, nil)
			d := sys.decided(newer)
			o, n := sys.get(older), sys.get(newer)
			want := map[string]triskelev1.CurationAction{
				"add": triskelev1.CurationAction_CURATION_ACTION_ADD, "noop": triskelev1.CurationAction_CURATION_ACTION_NOOP,
				"update": triskelev1.CurationAction_CURATION_ACTION_UPDATE, "supersede": triskelev1.CurationAction_CURATION_ACTION_SUPERSEDE,
			}[action]
			if d.GetAction() != want || d.GetModel() != "scripted" || d.GetMemoryRevision() != 1 || d.GetRevertedAt() != nil {
				t.Errorf("%s: decision %v", action, d)
			}
			if (action == "add") != (d.GetTargetId() == "") || action != "add" && d.GetTargetId() != older.GetId() {
				t.Errorf("%s: target %q", action, d.GetTargetId())
			}
			switch action {
			case "add":
				if !proto.Equal(o, older) || !proto.Equal(n, newer) {
					t.Errorf("add changed something: %v, %v", o, n)
				}
			case "noop":
				if !proto.Equal(o, older) || n.GetSupersededBy() != older.GetId() {
					t.Errorf("noop: %v, %v", o, n)
				}
			case "update":
				if o.GetContent() != merged || d.GetPreviousContent() != older.GetContent() || n.GetSupersededBy() != older.GetId() || n.GetContent() != newer.GetContent() {
					t.Errorf("update: %v, %v, %v", o, n, d)
				}
			case "supersede":
				if o.GetSupersededBy() != newer.GetId() || n.GetSupersedes() != older.GetId() || n.GetContent() != newer.GetContent() {
					t.Errorf("supersede: %v, %v", o, n)
				}
			}
			resp, err := sys.memories.RevertDecision(t.Context(), &triskelev1.RevertDecisionRequest{Namespace: action, Id: d.GetId()})
			if err != nil || resp.GetDecision().GetRevertedAt() == nil || resp.GetRevisionToken() == "" {
				t.Fatalf("%s: revert: %v, %v", action, resp, err)
			}
			if o, n := sys.get(older), sys.get(newer); !unchanged(o, older) || !unchanged(n, newer) {
				t.Errorf("%s: after the reversal\n%v\n%v\n%v\n%v", action, o, older, n, newer)
			}
			_, err = sys.memories.RevertDecision(t.Context(), &triskelev1.RevertDecisionRequest{Namespace: action, Id: d.GetId()})
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("%s: second reversal: %v", action, err)
			}
			// Tasks are given out oldest first: when the next memory has been judged, the reversal would have been.
			sys.decided(sys.remember(action, "add: sentinel", nil))
			if n := len(sys.decisions(newer)); n != 1 {
				t.Errorf("%s: %d decisions about the new memory", action, n)
			}
		}
		for _, a := range s.all() {
			if strings.HasSuffix(a.New.Text, green) {
				t.Errorf("an older memory was judged against a newer one, or again: %s", a.New.Text)
			}
		}
		if n := len(s.all()); n != 8 {
			t.Errorf("%d requests, want one for each newer memory and sentinel", n)
		}
	})
}

// TestNothingEndsBeforeItsTime: a memory that outlives the one which it repeats or completes is not hidden behind that.
func TestNothingEndsBeforeItsTime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int, a asked) {
			action, _, _ := strings.Cut(a.New.Text, ":")
			_, _ = fmt.Fprint(w, says(action, 1, map[string]string{"update": merged}[action]))
		})
		config.Curator = fast(s)
		sys := start(t, config)
		in := func(hours time.Duration) func(*triskelev1.Memory) {
			return func(m *triskelev1.Memory) { m.ExpiresAt = timestamppb.New(time.Now().Add(hours * time.Hour)) }
		}
		for action, want := range map[string]triskelev1.CurationAction{
			"noop": triskelev1.CurationAction_CURATION_ACTION_ADD, "update": triskelev1.CurationAction_CURATION_ACTION_ADD,
			"supersede": triskelev1.CurationAction_CURATION_ACTION_SUPERSEDE,
		} {
			older := sys.remember(action, action+": "+green, in(1))
			sys.decided(older)
			newer := sys.remember(action, action+": "+blue, in(2))
			if d := sys.decided(newer); d.GetAction() != want || d.GetModel() == "" {
				t.Errorf("%s: got %v of %q, want %v of the model", action, d.GetAction(), d.GetModel(), want)
			}
			if n := sys.get(newer); n.GetSupersededBy() != "" {
				t.Errorf("%s: the newer memory is hidden behind one that ends before it: %v", action, n)
			}
		}
	})
}

// TestWhatGoesWrong has a server that fails once in some way and then answers: the memory is judged once and nothing is
// carried out by halves.
func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	write := func(text string) script {
		return func(w http.ResponseWriter, _ *http.Request, _ int, _ asked) { _, _ = fmt.Fprint(w, text) }
	}
	status := func(code int, header ...string) script {
		return func(w http.ResponseWriter, _ *http.Request, _ int, a asked) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, a.body) // as some servers do
		}
	}
	for name, fail := range map[string]script{
		"no JSON":             write("I am a teapot"),
		"no choice":           write(`{"choices": []}`),
		"cut short":           write(strings.Replace(says("noop", 1, ""), `"stop"`, `"length"`, 1)),
		"prose":               write(completion("I would say noop, 1.")),
		"malformed answer":    write(completion(`{"action": "noop", "target": `)),
		"two answers":         write(completion(`{"action": "noop", "target": 1} {"action": "add", "target": 0}`)),
		"answer of a list":    write(completion(`[]`)),
		"unknown action":      write(says("delete", 1, "")),
		"no action":           write(completion(`{}`)),
		"target too high":     write(says("noop", 2, "")),
		"target zero":         write(says("supersede", 0, "")),
		"target negative":     write(says("update", -1, merged)),
		"target is a text":    write(completion(`{"action": "noop", "target": "1", "content": ""}`)),
		"update without text": write(says("update", 1, " \n")),
		"update with NUL":     write(says("update", 1, "a\x00b")),
		"update too long":     write(says("update", 1, strings.Repeat("x", len(green)+len(blue)+curator.Slack+1))),
		"huge response":       write(completion(strings.Repeat("x", 2<<20))),
		"429":                 status(http.StatusTooManyRequests, "Retry-After", "1"),
		"500":                 status(http.StatusInternalServerError),
		"401":                 status(http.StatusUnauthorized),
		"413":                 status(http.StatusRequestEntityTooLarge),
		"half closed": func(w http.ResponseWriter, _ *http.Request, _ int, _ asked) {
			w.Header().Set("Content-Length", "1000")
			_, _ = fmt.Fprint(w, says("noop", 1, "")[:20])
			panic(http.ErrAbortHandler)
		},
		"closed": func(http.ResponseWriter, *http.Request, int, asked) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failed time.Time
			s := newServer(t, func(w http.ResponseWriter, r *http.Request, n int, a asked) {
				if n == 0 {
					failed = time.Now()
					fail(w, r, n, a)
					return
				}
				if name == "429" && time.Since(failed) < time.Second {
					t.Errorf("asked again %v after a 429 that said to wait a second", time.Since(failed))
				}
				_, _ = fmt.Fprint(w, says("noop", a.number(green), ""))
			})
			config := onFile(t)
			config.Curator = fast(s)
			config.Curator.Key = "key-7d1f"
			sys := start(t, config)
			older := sys.remember("n", green, nil)
			newer := sys.remember("n", blue, nil)
			if d := sys.decided(newer); d.GetAction() != triskelev1.CurationAction_CURATION_ACTION_NOOP || d.GetTargetId() != older.GetId() {
				t.Errorf("decision %v", d)
			}
			if n := sys.get(newer); n.GetSupersededBy() != older.GetId() || n.GetRevision() != 2 {
				t.Errorf("the new memory is %v", n)
			}
			if o := sys.get(older); !proto.Equal(o, older) {
				t.Errorf("the older memory is %v", o)
			}
			if n := len(s.all()); n != 2 {
				t.Errorf("%d requests", n)
			}
			if text := sys.log.String(); !strings.Contains(text, "indexing failed") || strings.Contains(text, "of type") || strings.Contains(text, "harbour") || strings.Contains(text, "key-7d1f") {
				t.Errorf("log:\n%s", text)
			}
			if got := s.all()[0].header.Get("Authorization"); got != "Bearer key-7d1f" {
				t.Errorf("authorization %q", got)
			}
		})
	}
}

func TestSlowServerIsGivenUpOn(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(w http.ResponseWriter, r *http.Request, n int, a asked) {
		if n == 0 {
			<-r.Context().Done() // until the curator hangs up
			return
		}
		_, _ = fmt.Fprint(w, says("noop", a.number(green), ""))
	})
	config := onFile(t)
	config.Curator = fast(s)
	config.Curator.Timeout = 500 * time.Millisecond
	sys := start(t, config)
	sys.remember("n", green, nil)
	sys.decided(sys.remember("n", blue, nil))
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := newServer(t, func(http.ResponseWriter, *http.Request, int, asked) { t.Error("the other server was asked") })
	s := newServer(t, func(w http.ResponseWriter, r *http.Request, n int, a asked) {
		if n == 0 {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		_, _ = fmt.Fprint(w, says("add", 0, ""))
	})
	config := onFile(t)
	config.Curator = fast(s)
	sys := start(t, config)
	sys.remember("n", green, nil)
	sys.decided(sys.remember("n", blue, nil))
}

// TestServerWithoutSchemas refuses what it does not know, thinks aloud and fences its answers.
func TestServerWithoutSchemas(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int, a asked) {
		if !a.plain {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprint(w, completion("<think>{\"action\": \"supersede\", \"target\": 1}?</think>\n```json\n{\"action\": \"add\", \"target\": 0, \"content\": \"\"}\n```\n"))
	})
	config := onFile(t)
	config.Curator = fast(s)
	sys := start(t, config)
	for _, text := range []string{green, blue, merged} {
		if d := sys.decided(sys.remember("n", text, nil)); d.GetAction() != triskelev1.CurationAction_CURATION_ACTION_ADD {
			t.Errorf("decision %v", d)
		}
	}
	var forms []bool
	for _, a := range s.all() {
		forms = append(forms, a.plain)
	}
	if !slices.Equal(forms, []bool{false, true, true}) {
		t.Errorf("requests without a schema: %v", forms)
	}
}

// TestNothingSecretIsSent stores canaries that are as near to the new memory as can be.
func TestNothingSecretIsSent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		const canary = "canary-5b7e"
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int, a asked) { _, _ = fmt.Fprint(w, says("add", 0, "")) })
		config.Curator = fast(s)
		sys := start(t, config)
		secret := canary + " " + blue
		ahead := timestamppb.New(time.Now().Add(time.Hour))
		sys.remember("n", green, nil)
		sys.remember("n", secret, func(m *triskelev1.Memory) { m.Sensitive = true })
		sys.remember("n", secret, func(m *triskelev1.Memory) { m.ExpiresAt = ahead })
		sys.remember("other", secret, nil)
		sys.remember("n/m", secret, nil)
		old := sys.remember("n", secret, nil)
		sys.decided(old)
		before := len(s.all()) // the canary itself was judged as long as it was a memory like others
		if _, err := sys.memories.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: old.GetId(), Replacement: &triskelev1.Memory{Namespace: "n", Content: "The gate."}}); err != nil {
			t.Fatal(err)
		}
		sys.until("recall that finds the sensitive memory, without which this test shows nothing", func() bool { // its index may be behind, and a busy machine give no contents
			found, err := triskelev1.NewRecallServiceClient(sys.Conn).Recall(t.Context(), &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: blue})
			return err == nil && slices.ContainsFunc(found.GetHits(), func(h *triskelev1.Hit) bool { return h.GetMemory().GetSensitive() })
		})
		sys.decided(sys.remember("n", blue, nil))
		sys.remember("n", secret, func(m *triskelev1.Memory) { m.Sensitive = true })
		sys.decided(sys.remember("n", merged, nil))
		requests := s.all()[before:]
		if len(requests) < 2 || requests[len(requests)-1].number(green) == 0 {
			t.Errorf("%d requests; the others should have been shown", len(requests))
		}
		for _, a := range requests {
			if strings.Contains(a.body, canary) {
				t.Errorf("a request holds the canary: %s", a.body)
			}
		}
	})
}

// TestTurnedSensitiveWhileWaiting flags the older memory between two attempts, and then the new one.
func TestTurnedSensitiveWhileWaiting(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		var sys *system
		var hide []*triskelev1.Memory
		ready := make(chan struct{})
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, n int, a asked) {
			<-ready
			if n >= len(hide) {
				t.Errorf("request %d: %s", n, a.body)
				return
			}
			if _, err := sys.memories.Update(context.Background(), &triskelev1.UpdateRequest{
				Namespace: "n", Id: hide[n].GetId(), Memory: &triskelev1.Memory{Sensitive: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sensitive"}},
			}); err != nil {
				t.Errorf("update: %v", err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		config.Curator = fast(s)
		sys = start(t, config)
		first, second := sys.remember("n", green, nil), sys.remember("n", merged, nil)
		hide = []*triskelev1.Memory{first, second}
		close(ready)
		// The second memory is judged against the first, which is hidden then: with nothing left to compare it to, it is
		// added without another request.
		if d := sys.decided(second); d.GetAction() != triskelev1.CurationAction_CURATION_ACTION_ADD || d.GetModel() != "" {
			t.Errorf("decision %v", d)
		}
		// The third is judged against the second, is hidden itself, and not judged at all.
		third := sys.remember("n", blue, nil)
		hide[1] = third
		sys.until("second request", func() bool { return len(s.all()) == 2 })
		sys.until("end of the tasks", func() bool { return waiting(t, sys) == 0 })
		if about := sys.decisions(third); len(about) != 0 {
			t.Errorf("decisions about a hidden memory: %v", about)
		}
	})
}

// TestTurnedSensitiveBetweenRequests has a server that refuses schemas, so that a question is asked twice, and hides one of
// the memories before it refuses: the question is not asked again with it.
func TestTurnedSensitiveBetweenRequests(t *testing.T) {
	t.Parallel()
	for name, newest := range map[string]bool{"the older": false, "the newer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, config standalone.Config) {
				var sys *system
				var hide *triskelev1.Memory
				ready := make(chan struct{})
				s := newServer(t, func(w http.ResponseWriter, _ *http.Request, n int, _ asked) {
					<-ready
					if n == 0 {
						if _, err := sys.memories.Update(context.Background(), &triskelev1.UpdateRequest{
							Namespace: "n", Id: hide.GetId(), Memory: &triskelev1.Memory{Sensitive: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sensitive"}},
						}); err != nil {
							t.Errorf("update: %v", err)
						}
						w.WriteHeader(http.StatusBadRequest)
						return
					}
					_, _ = fmt.Fprint(w, says("add", 0, ""))
				})
				config.Curator = fast(s)
				sys = start(t, config)
				older, newer := sys.remember("n", green, nil), sys.remember("n", blue, nil)
				if hide = older; newest {
					hide = newer
				}
				close(ready)
				sys.until("first request", func() bool { return len(s.all()) > 0 })
				sys.decided(sys.remember("n", "The gate was sold.", nil)) // after both
				for _, a := range s.all()[1:] {
					if strings.Contains(a.body, hide.GetContent()) {
						t.Errorf("sent again: %s", a.body)
					}
				}
			})
		})
	}
}

// TestTurnedSensitiveWhileSearched has an embedding server that fails once for a memory in whose neighbours the curator is
// interested, and hides the memory before: neither the index nor the search sends it again.
func TestTurnedSensitiveWhileSearched(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int, _ asked) { _, _ = fmt.Fprint(w, says("add", 0, "")) })
		var sys *system
		var mu sync.Mutex
		var after int // requests with the text that came when it was hidden
		var hidden bool
		arrived, release := make(chan struct{}, 100), make(chan struct{})
		embedder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var request struct{ Inputs []string }
			if json.NewDecoder(r.Body).Decode(&request) != nil { // a request that was called off
				return
			}
			if slices.ContainsFunc(request.Inputs, func(text string) bool { return strings.Contains(text, blue) }) {
				mu.Lock()
				if hidden {
					after++
				}
				mu.Unlock()
				arrived <- struct{}{}
				select {
				case <-release:
				case <-r.Context().Done():
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			vectors := make([][]float32, len(request.Inputs))
			for i := range vectors {
				vectors[i] = []float32{1, 0, 0, 0, 0, 0, 0, 0}
			}
			_ = json.NewEncoder(w).Encode(vectors)
		}))
		t.Cleanup(embedder.Close)
		var err error
		if config.Embedder, err = remote.New(remote.Config{Provider: "tei", URL: embedder.URL, Model: "m", Dimensions: 8}); err != nil {
			t.Fatal(err)
		}
		config.Curator = fast(s)
		sys = start(t, config)
		sys.remember("n", green, nil)
		newer := sys.remember("n", blue, nil)
		for range 2 { // for the index and for the search
			<-arrived
		}
		if _, err := sys.memories.Update(t.Context(), &triskelev1.UpdateRequest{
			Namespace: "n", Id: newer.GetId(), Memory: &triskelev1.Memory{Sensitive: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sensitive"}},
		}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		hidden = true
		mu.Unlock()
		close(release)
		sys.decided(sys.remember("n", merged, nil))
		mu.Lock()
		defer mu.Unlock()
		if after != 0 {
			t.Errorf("the text was sent %d times after it had turned sensitive", after)
		}
	})
}

// waiting is how many memories of namespace n have yet to be judged.
func waiting(t *testing.T, sys *system) int64 {
	t.Helper()
	st, err := sys.Backend.Queue().Status(t.Context(), memory.CurationQueue, "n")
	if err != nil {
		t.Fatal(err)
	}
	return st.Pending + st.Dead
}

func TestStoringDoesNotWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		hanging, release := make(chan struct{}, 100), make(chan struct{})
		s := newServer(t, func(w http.ResponseWriter, r *http.Request, _ int, _ asked) {
			hanging <- struct{}{}
			<-release
			_, _ = fmt.Fprint(w, says("add", 0, ""))
		})
		config.Curator = fast(s)
		sys := start(t, config)
		sys.remember("n", green, nil)
		sys.remember("n", blue, nil)
		<-hanging
		var last *triskelev1.Memory
		for i := range 20 { // each of these would hang if it waited for the model
			last = sys.remember("n", fmt.Sprintf("%s (%d)", merged, i), nil)
		}
		if n := len(s.all()); n != 1 {
			t.Errorf("%d requests while one hangs", n)
		}
		close(release)
		sys.decided(last)
	})
}

// TestChangedWhileJudged changes the older memory while the model thinks: the verdict is about a text that is no more, so
// another one is asked for.
func TestChangedWhileJudged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		const edited = "The harbour gate is painted green, by Ines."
		var sys *system
		var older *triskelev1.Memory
		ready := make(chan struct{})
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, n int, a asked) {
			<-ready
			if n == 0 {
				if _, err := sys.memories.Update(context.Background(), &triskelev1.UpdateRequest{
					Namespace: "n", Id: older.GetId(), Memory: &triskelev1.Memory{Content: edited}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content"}},
				}); err != nil {
					t.Errorf("update: %v", err)
				}
			}
			_, _ = fmt.Fprint(w, says("update", 1, a.Older[0].Text+" "+a.New.Text))
		})
		config.Curator = fast(s)
		sys = start(t, config)
		older = sys.remember("n", green, nil)
		newer := sys.remember("n", blue, nil)
		close(ready)
		if d := sys.decided(newer); d.GetPreviousContent() != edited {
			t.Errorf("decision %v", d)
		}
		if got := sys.get(older).GetContent(); got != edited+" "+blue {
			t.Errorf("the older memory says %q", got)
		}
	})
}

// TestRestart ends the process while the model thinks, and starts another one on the same database.
func TestRestart(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		thinking := make(chan struct{})
		s := newServer(t, func(w http.ResponseWriter, r *http.Request, n int, a asked) {
			if n == 0 {
				close(thinking)
				<-r.Context().Done()
			}
			_, _ = fmt.Fprint(w, says("noop", a.number(green), ""))
		})
		config.Curator = fast(s)
		sys := start(t, config)
		sys.remember("n", green, nil)
		newer := sys.remember("n", blue, nil)
		<-thinking
		sys.close()
		sys = start(t, config)
		sys.decided(newer)
		sys.until("end of the tasks", func() bool { return waiting(t, sys) == 0 })
		if n := len(sys.decisions(newer)); n != 1 || len(s.all()) != 2 {
			t.Errorf("%d decisions after %d requests", n, len(s.all()))
		}
	})
}

// TestWhatIsNotAsked stores memories about which there is nothing to ask.

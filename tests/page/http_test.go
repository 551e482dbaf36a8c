package page_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/fusion"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/cli"
	"github.com/triskele/triskele/services/agents/demo"
)

func asJSON(r *http.Request) { r.Header.Set("Content-Type", "application/json") }

// parse reads an answer.
func parse[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return out
}

func TestEndpoints(t *testing.T) {
	s := start(t)
	s.recall(20, 5*time.Second)
	s.slow.Store(int64(time.Minute))
	s.recall(1, 3*time.Second)
	s.slow.Store(0)

	type answered struct {
		Answer struct {
			Hits []struct {
				ID            string
				Score         float64
				BaseLogOdds   float64 `json:"base_log_odds"`
				Contributions []struct{ Value float64 }
				Why           string
				Memory        struct{ Content string }
			}
			Legs []struct{ State string }
		}
		Waterfall []struct {
			Name, Service string
			Took          int64
			Critical      [][2]int64
		}
	}
	var asked answered
	var services map[string]bool
	tries := 0
	// A call's span ends after its answer is on the way, so that of the memory service may come too late on a busy machine.
	for ; tries < 20 && !services["memory"]; tries++ {
		resp, text := s.send(t.Context(), "POST", "/api/recall", question(s.queries[0].Text, ""), asJSON)
		asked = parse[answered](t, text)
		if resp.StatusCode != 200 || len(asked.Answer.Hits) == 0 || asked.Answer.Hits[0].ID != demo.ID("inc-err-conn-reset") || asked.Answer.Hits[0].Why == "" || len(asked.Answer.Legs) != 3 {
			t.Fatalf("%d: %.500s", resp.StatusCode, text)
		}
		services = map[string]bool{}
		for _, row := range asked.Waterfall {
			services[row.Service] = true
		}
	}
	sum, critical := asked.Answer.Hits[0].BaseLogOdds, int64(0)
	for _, c := range asked.Answer.Hits[0].Contributions {
		sum += c.Value
	}
	if probability := fusion.Probability(sum); math.Abs(probability-asked.Answer.Hits[0].Score) > 1e-9 {
		t.Errorf("contributions add up to the probability %v, want %v", probability, asked.Answer.Hits[0].Score)
	}
	for _, row := range asked.Waterfall {
		for _, c := range row.Critical {
			critical += c[1]
		}
	}
	if !services["dense"] || !services["lexical"] || !services["memory"] || asked.Waterfall[0].Name != "recall from the page" {
		t.Errorf("the waterfall has %v", services)
	}
	if whole := asked.Waterfall[0].Took; critical < whole*9/10 || critical > whole { // rounded down, each
		t.Errorf("the critical path has %d µs of %d", critical, whole)
	}

	_, text := s.send(t.Context(), "GET", "/api/recalls?kind=degraded", "", nil)
	degraded := parse[[]struct {
		ID       uint64
		Degraded string
		Legs     []struct{ Leg, State string }
	}](t, text)
	if len(degraded) != 1 || !strings.Contains(degraded[0].Degraded, "the dense leg") || len(degraded[0].Legs) != 3 {
		t.Fatalf("degraded: %s", text)
	}
	_, text = s.send(t.Context(), "GET", "/api/live", "", nil)
	if live := parse[[]struct {
		Leg           string
		Searches      int
		P50, P95, P99 float64
	}](t, text); len(live) != 4 || live[1].Leg != "dense" || live[1].Searches != 21+tries || live[1].P50 <= 0 || live[1].P99 < live[1].P95 {
		t.Errorf("live: %s", text)
	}
	_, text = s.send(t.Context(), "GET", "/v1/indexes?namespace="+demo.Namespace, "", nil)
	if index := parse[struct {
		Legs []struct {
			Leg    string
			Status struct{ Indexed, Pending string }
		}
	}](t, text); len(index.Legs) != 3 || index.Legs[0].Status.Indexed == "0" || index.Legs[0].Status.Pending != "0" {
		t.Errorf("index: %s", text)
	}
	for path, want := range map[string]string{"/": "<title>Triskele", "/assets/page.js": "use strict", "/assets/memories.js": "use strict", "/assets/page.css": ":root", "/assets/uplot/uPlot.iife.min.js": "uPlot", "/assets/uplot/LICENSE": "MIT"} {
		resp, text := s.send(t.Context(), "GET", path, "", nil)
		if resp.StatusCode != 200 || !strings.Contains(text, want) || !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self'") {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, resp.Header)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := start(t)
	ok := question("basalt", "")
	for name, x := range map[string]struct {
		method, path, body string
		edit               func(*http.Request)
		code               int
		says               string
	}{
		"a form of another site":    {"POST", "/api/recall", ok, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400, "application/json"},
		"another site's deletion":   {"DELETE", "/v1/memories/" + demo.ID("inc-err-conn-reset") + "?namespace=demo", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, ""},
		"a form as a memory":        {"POST", "/v1/memories", `{"namespace": "demo", "content": "x"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, "application/json"},
		"a memory that is too long": {"POST", "/v1/memories", `{"namespace": "demo", "content": "` + strings.Repeat("x", 65_537) + `"}`, asJSON, 400, "content"},
		"another site":              {"POST", "/api/recall", ok, func(r *http.Request) { asJSON(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, ""},
		"a name that was rebound":   {"GET", "/api/recalls", "", func(r *http.Request) { r.Host = "evil.example" }, 421, ""},
		"no request":                {"POST", "/api/recall", "{", asJSON, 400, "not a RecallRequest"},
		"an unknown field":          {"POST", "/api/recall", question("x", `, "nonsense": 1`), asJSON, 400, "not a RecallRequest"},
		"one that is too long":      {"POST", "/api/recall", question(strings.Repeat("x", 70_000), ""), asJSON, 400, "too long"},
		"what the gateway checks":   {"POST", "/api/recall", question("x", `, "limit": 5000`), asJSON, 400, "limit"},
		"an unknown namespace":      {"POST", "/api/recall", strings.Replace(ok, "demo", "nowhere", 1), asJSON, 400, "unknown"},
		"an unknown recall":         {"GET", "/api/recalls/99", "", nil, 404, "no longer kept"},
		"a page that is not":        {"GET", "/api/nothing", "", nil, 404, ""},
	} {
		resp, text := s.send(t.Context(), x.method, x.path, x.body, x.edit)
		if resp.StatusCode != x.code || !strings.Contains(text, x.says) {
			t.Errorf("%s: %d %.200s", name, resp.StatusCode, text)
		}
	}
}

// TestWhoIsShownThePage: what is shown of texts, queries and recalls is for those whom the gateway lets in, by whatever way it knows them.
func TestWhoIsShownThePage(t *testing.T) {
	authority := authtest.NewAuthority(t)
	secrets, file := map[string]string{}, filepath.Join(t.TempDir(), "tokens.json")
	var kept []auth.Token
	for name, grant := range map[string]auth.Token{
		"operator": {Namespaces: []string{"*"}, Scopes: auth.Scopes},
		"tenant":   {Namespaces: []string{"demo"}, Scopes: auth.Scopes},
		"agent":    {Namespaces: []string{"*"}, Scopes: []auth.Scope{auth.Recall, auth.Read, auth.Write}},
	} {
		secret, entry, err := auth.NewToken(grant, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secrets[name], kept = secret, append(kept, entry)
	}
	if err := auth.WriteTokens(file, kept); err != nil {
		t.Fatal(err)
	}
	issuer := authtest.NewIssuer(t)
	signed := func(namespace, scopes string) string {
		return issuer.Sign(t, map[string]any{
			"iss": issuer.URL, "aud": "triskele", "sub": "somebody", "exp": time.Now().Add(time.Hour).Unix(), "scope": scopes, "triskele_namespaces": []string{namespace},
		})
	}
	const all = "triskele.recall triskele.read triskele.write triskele.admin"
	open := []string{"/", "/assets/page.js", "/livez"}
	asking := []string{"/api/recall", "/v1/namespaces", "/v1/indexes?namespace=demo", "/v1/memories?namespace=demo"} // calls to the gateway
	remembered := []string{"/api/live", "/api/recalls", "/api/recalls/1", "/api/traces?limit=5"}                     // of all callers' recalls
	for name, way := range map[string]struct {
		door   auth.Listener
		access auth.Access
		shown  map[string][2]int // codes for what asks and what is remembered, by what is shown
	}{
		"nobody is asked": {shown: map[string][2]int{"": {200, 200}}},
		"certificates": {door: auth.Listener{TLS: authority.Issue(t, "fuser"), Clients: []string{"agent"}}, shown: map[string][2]int{
			"": {403, 403}, "Bearer " + secrets["operator"]: {403, 403},
		}},
		"tokens": {access: auth.Access{Tokens: file}, shown: map[string][2]int{
			"": {401, 401}, "Bearer x": {401, 401}, "Bearer " + secrets["operator"]: {200, 200}, "Bearer " + secrets["tenant"]: {200, 403}, "Bearer " + secrets["agent"]: {0, 403},
		}},
		"certificates and tokens": {door: auth.Listener{TLS: authority.Issue(t, "fuser"), Clients: []string{"agent"}}, access: auth.Access{Tokens: file}, shown: map[string][2]int{
			"": {401, 401}, "Bearer " + secrets["operator"]: {200, 200},
		}},
		"an issuer": {access: auth.Access{OIDC: auth.OIDC{Issuer: issuer.URL, Audience: "triskele"}}, shown: map[string][2]int{
			"": {401, 401}, "Bearer a.b.c": {401, 401}, "Bearer " + signed("*", all): {200, 200}, "Bearer " + signed("demo", all): {200, 403}, "Bearer " + signed("*", "triskele.recall"): {0, 403},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startWith(t, way.door, way.access)
			s.recall(1, 5*time.Second) // which is remembered as 1
			get := func(path, shown string) (int, string) {
				method, body := "GET", ""
				if path == "/api/recall" {
					method, body = "POST", question("basalt", "")
				}
				resp, text := s.send(t.Context(), method, path, body, func(r *http.Request) {
					asJSON(r)
					if shown != "" {
						r.Header.Set("Authorization", shown)
					}
				})
				return resp.StatusCode, text
			}
			for _, path := range open {
				if code, text := get(path, ""); code != 200 {
					t.Errorf("%s: got %d %.100s, want 200", path, code, text)
				}
			}
			for shown, want := range way.shown {
				for i, paths := range [][]string{asking, remembered} {
					for _, path := range paths {
						if code, text := get(path, shown); want[i] != 0 && code != want[i] {
							t.Errorf("%s, shown %.20q: got %d %.150s, want %d", path, shown, code, text, want[i])
						}
					}
				}
			}
		})
	}
}

// TestWritesNeedRights and leave a line in the audit log, as those of any caller.
func TestWritesNeedRights(t *testing.T) {
	dir := t.TempDir()
	file, audit := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "audit.jsonl")
	secrets, ids := map[string]string{}, map[string]string{}
	var kept []auth.Token
	for name, scopes := range map[string][]auth.Scope{"reader": {auth.Recall, auth.Read}, "writer": {auth.Recall, auth.Read, auth.Write}} {
		secret, entry, err := auth.NewToken(auth.Token{Namespaces: []string{"demo"}, Scopes: scopes}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secrets[name], ids[name], kept = secret, entry.ID, append(kept, entry)
	}
	if err := auth.WriteTokens(file, kept); err != nil {
		t.Fatal(err)
	}
	s := startWith(t, auth.Listener{}, auth.Access{Tokens: file, Audit: audit})
	write := func(who, namespace string) (int, string) {
		resp, text := s.send(t.Context(), "POST", "/v1/memories", `{"namespace": "`+namespace+`", "content": "Tea at four, says quetzal."}`, func(r *http.Request) {
			asJSON(r)
			r.Header.Set("Authorization", "Bearer "+secrets[who])
		})
		return resp.StatusCode, text
	}
	for _, x := range []struct {
		who, namespace string
		want           int
	}{{"reader", "demo", 403}, {"writer", "default", 403}, {"writer", "demo", 200}} {
		if got, text := write(x.who, x.namespace); got != x.want {
			t.Errorf("%s in %s: got %d %.200s, want %d", x.who, x.namespace, got, text, x.want)
		}
	}
	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(log), `"denied"`); got != 2 {
		t.Errorf("got %d refusals in the audit log, want 2: %s", got, log)
	}
	if text := string(log); strings.Count(text, `"written"`) != 1 || !strings.Contains(text, ids["writer"]) || strings.Contains(text, "quetzal") {
		t.Errorf("got %s, want one write by %s without its text", text, ids["writer"])
	}
}

// TestSensitiveMemories are answered as over gRPC, and nothing of them is remembered.
func TestSensitiveMemories(t *testing.T) {
	s := start(t)
	const canary = "xylophonequetzal"
	if _, err := s.Import(t.Context(), []*triskelev1.Memory{{Namespace: "secrets", Content: "The vault's word is " + canary + ".", Sensitive: true}}); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitIndexed(t.Context(), "secrets", nil); err != nil {
		t.Fatal(err)
	}
	_, text := s.send(t.Context(), "POST", "/api/recall", strings.Replace(question("what is "+canary, ""), "demo", "secrets", 1), asJSON)
	if !strings.Contains(text, canary) || !strings.Contains(text, `"sensitive":true`) {
		t.Errorf("%s", text)
	}
	_, waterfall, _ := strings.Cut(text, `"waterfall"`)
	_, recalls := s.send(t.Context(), "GET", "/api/recalls", "", nil)
	_, traces := s.send(t.Context(), "GET", "/api/traces", "", nil)
	_, one := s.send(t.Context(), "GET", "/api/recalls/1", "", nil)
	for name, text := range map[string]string{"the waterfall": waterfall, "recalls": recalls, "traces": traces, "a recall": one} {
		if text == "" || strings.Contains(text, canary) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestBudgetReadsWhatIsRemembered(t *testing.T) {
	s := start(t)
	s.slow.Store(int64(80 * time.Millisecond))
	s.recall(5, 5*time.Second)
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), []string{"budget", "--admin", s.url, "--budgets", "20ms,5s"},
		cli.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: os.Getenv, Now: time.Now})
	if code != 0 || !strings.Contains(out.String(), "5 recalls of the gateway") || !strings.Contains(out.String(), "retrieval dense") {
		t.Errorf("%d: %s%s", code, &out, &errs)
	}
}

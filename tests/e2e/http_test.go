package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// curl runs the program of that name and returns its output, which ends in the HTTP status.
func curl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "curl", append([]string{"--silent", "--show-error", "--write-out", " HTTP %{http_code}"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("curl %q: %v: %s", args, err, out)
	}
	return string(out)
}

func TestCurl(t *testing.T) {
	t.Parallel()
	o := startOne(t, setup{})
	url := "http://" + o.processes["triskele"].address
	if out := curl(t, url+"/v1/memories", "--json", `{"namespace": "acme", "content": "Deploys are frozen from Thursday noon."}`); !strings.HasSuffix(out, " HTTP 200") {
		t.Fatal(out)
	}
	o.awaitIndexes("acme")
	out := curl(t, url+"/v1/recall", "--json", `{"namespaces": ["acme"], "query": "deploy freeze", "budget": "20s"}`)
	if !strings.Contains(out, "Deploys are frozen") || !strings.Contains(strings.ReplaceAll(out, " ", ""), `"degraded":false`) || !strings.HasSuffix(out, " HTTP 200") {
		t.Error(out)
	}
}

// routeOf finds what a document says of a request. Routers of libraries know no path that ends in {id}:verb.
func routeOf(t *testing.T, doc *openapi3.T, req *http.Request) (route *routers.Route, params map[string]string) {
	t.Helper()
	for path, item := range doc.Paths.Map() {
		operation := item.GetOperation(req.Method)
		pattern := regexp.MustCompile("^" + regexp.MustCompile(`{(\w+)}`).ReplaceAllString(path, "(?P<$1>[^:]+)") + "$")
		found := pattern.FindStringSubmatch(req.URL.Path)
		if operation == nil || found == nil {
			continue
		}
		params = map[string]string{}
		for i, name := range pattern.SubexpNames()[1:] {
			params[name] = found[i+1]
		}
		return &routers.Route{Spec: doc, Path: path, PathItem: item, Method: req.Method, Operation: operation}, params
	}
	t.Fatalf("the document has no %s %s", req.Method, req.URL.Path)
	return nil, nil
}

// Every method's answer, and an error, is what the OpenAPI document says.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	o := startOne(t, setup{})
	url := "http://" + o.processes["triskele"].address
	document, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = document.Body.Close() }()
	doc, err := openapi3.NewLoader().LoadFromIoReader(document.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	doc.Servers = openapi3.Servers{{URL: url}}
	methods := 0
	for _, path := range doc.Paths.Map() {
		methods += len(path.Operations())
	}

	stored := o.remember(&triskelev1.Memory{Namespace: "acme", Title: "Deploy freeze", Content: "Deploys are frozen from Thursday noon.", Tags: []string{"release"}})
	other := o.remember(&triskelev1.Memory{Namespace: "acme", Content: "Tea at four."})
	o.awaitIndexes("acme")
	again := `{"namespace": "acme", "content": "Deploys are frozen from Friday noon.", "metadata": {"ticket": "OPS-7"}, "links": [{"target": "` + other.GetId() + `", "relation": "mentions"}]}`
	asked := map[string]bool{}
	for _, x := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", "/v1/memories", again, 200},
		{"POST", "/v1/recall", `{"namespaces": ["acme"], "query": "deploy freeze", "explain": true, "fusion": {"method": "FUSION_METHOD_CONVEX"}, "legs": {"graph": {"weight": 0.5, "deadline": "1s"}}, "budget": "20s"}`, 200},
		{"POST", "/v1/recall", `{"namespaces": ["acme"], "query": "x", "limit": -1}`, 400},
		{"GET", "/v1/indexes?namespace=acme", "", 200},
		{"GET", "/v1/memories?namespace=acme&filter.tags_any=release&page_size=1", "", 200},
		{"GET", "/v1/memories/" + stored.GetId() + "?namespace=acme&query=freeze", "", 200},
		{"POST", "/v1/memories:get", `{"namespace": "acme", "ids": ["` + stored.GetId() + `"]}`, 200},
		{"PATCH", "/v1/memories/" + stored.GetId() + "?namespace=acme", `{"title": "Freeze"}`, 200},
		{"POST", "/v1/memories/" + stored.GetId() + ":supersede", again, 200},
		{"GET", "/v1/memories:export?namespace=acme", "", 200},
		{"POST", "/v1/memories:import", `{"memories": [` + again + `], "return_ids": true}`, 200},
		{"DELETE", "/v1/memories/" + stored.GetId() + "?namespace=acme", "", 200},
		{"POST", "/v1/memories:forget", `{"namespace": "acme", "ids": ["` + other.GetId() + `"]}`, 200},
		{"GET", "/v1/decisions?namespace=acme", "", 200},
		{"POST", "/v1/decisions/" + other.GetId() + ":revert", `{"namespace": "acme"}`, 404},
		{"GET", "/v1/namespaces", "", 200},
		{"GET", "/v1/namespaces/acme?statistics=true", "", 200},
		{"POST", "/v1/namespaces/acme:rename", `{"new_name": "globex"}`, 200},
		{"DELETE", "/v1/namespaces/globex", "", 200},
	} {
		t.Run(x.method+" "+x.path, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), x.method, url+x.path, strings.NewReader(x.body))
			if err != nil {
				t.Fatal(err)
			}
			if x.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			route, params := routeOf(t, doc, req)
			asked[route.Operation.OperationID] = true
			input := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{
				AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true,
			}}
			if x.code == 200 {
				if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
					t.Errorf("the document refuses what the gateway takes: %v", err)
				}
			}
			req.Body = io.NopCloser(strings.NewReader(x.body))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != x.code {
				t.Fatalf("%v, %d: %s", err, resp.StatusCode, body)
			}
			if err := openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
				RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)), Options: input.Options,
			}); err != nil {
				t.Errorf("the answer is not as the document says: %v\n%s", err, body)
			}
		})
	}
	if len(asked) != methods {
		t.Errorf("%d of the %d methods were asked", len(asked), methods)
	}
}

// Neither what is stored nor what is asked is logged, accepted or not, and it is in no error that was not the caller's own words.
func TestHTTPLogsNoTexts(t *testing.T) {
	t.Parallel()
	o := startOne(t, setup{})
	url := "http://" + o.processes["triskele"].address
	const canary = "quokkahttp"
	for _, x := range [][2]string{
		{"/v1/memories", `{"namespace": "acme", "content": "` + canary + `", "sensitive": true}`},
		{"/v1/memories", `{"namespace": "acme", "content": "` + canary + `", "importance": 7, "` + canary + `": 1}`},
		{"/v1/memories", `{"namespace": "acme", "content": "` + canary},
		{"/v1/recall", `{"namespaces": ["acme"], "query": "` + canary + `"}`},
		{"/v1/recall", `{"namespaces": ["acme"], "query": "` + canary + `", "limit": "` + canary + `"}`},
		{"/v1/memories:import", `{"memories": [{"namespace": "acme", "content": "` + canary + `"}]} {"` + canary + `": 1} ` + canary},
		{"/v1/memories:import", canary},
		{"/v1/memories:get", `{"namespace": "acme", "ids": ["` + canary + `"], "query": "` + canary + `"}`},
		{"/" + canary, `{}`},
	} {
		resp, err := http.Post(url+x[0], "application/json", strings.NewReader(x[1]))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 500 {
			t.Errorf("%s: %s", x, resp.Status)
		}
	}
	for _, path := range []string{"/v1/memories?namespace=acme&filter.categories=" + canary + "&page_size=" + canary, "/v1/memories/" + canary + "?namespace=acme"} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	var listed struct{ Memories []json.RawMessage }
	if err := json.Unmarshal([]byte(strings.TrimSuffix(curl(t, url+"/v1/memories?namespace=acme"), " HTTP 200")), &listed); err != nil || len(listed.Memories) == 0 {
		t.Errorf("%v: nothing was stored", err)
	}
	if log := o.processes["triskele"].log.String(); strings.Contains(log, canary) {
		t.Errorf("the log: %s", log)
	}
}

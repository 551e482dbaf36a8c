package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/fuser/platform/auth"
)

// sessions returns what real clients have sent, line by line, by client: the official SDK for TypeScript, which many agents are
// built with, and the Inspector. They were recorded between each client and a server; of HTTP's headers those are left out that
// belong to the connection, and TOKEN and SESSION stand for what a server gave.
func sessions(t *testing.T, transport string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("testdata/sessions/*." + transport + ".jsonl")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d recorded sessions, %v", len(files), err)
	}
	out := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), "."+transport+".jsonl")] = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return out
}

// answered checks what a client gets for a frame: the version it has asked for, six tools, what it has stored, and no error.
func answered(t *testing.T, frame, answer string) {
	t.Helper()
	var got struct {
		ID     any
		Error  any
		Result struct {
			ProtocolVersion string
			Tools           []any
			IsError         bool
		}
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.ID == nil || got.Error != nil || got.Result.IsError {
		t.Errorf("%s\n%v %s", frame, err, answer)
	}
	var sent struct {
		Method string
		Params struct{ ProtocolVersion, Name string }
	}
	if err := json.Unmarshal([]byte(frame), &sent); err != nil {
		t.Fatal(err)
	}
	switch {
	case sent.Method == "initialize" && got.Result.ProtocolVersion != sent.Params.ProtocolVersion,
		sent.Method == "tools/list" && len(got.Result.Tools) != 6,
		sent.Params.Name == "recall" && !strings.Contains(answer, "frozen from Thursday") && !strings.Contains(answer, "Nothing is remembered"):
		t.Errorf("%s\n%s", frame, answer)
	}
}

func TestMCPRecordedSessions(t *testing.T) {
	t.Parallel()
	for name, frames := range sessions(t, "stdio") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, "mcp", "--sqlite="+filepath.Join(t.TempDir(), "test.db"), "--embedder=hashed")
			for _, frame := range frames {
				p.say(frame)
				if strings.Contains(frame, `"id"`) {
					answered(t, frame, p.hear())
				}
			}
			if rest, code := p.end(); rest != "" || code != 0 || p.errs.String() != "" {
				t.Errorf("exit code %d, more output %q, errors %q", code, rest, p.errs)
			}
		})
	}
	for name, requests := range sessions(t, "http") {
		t.Run(name+" over HTTP", func(t *testing.T) {
			t.Parallel()
			file, secrets := tokens(t, map[string]auth.Token{"agent": {Namespaces: []string{"default"}, Scopes: auth.Scopes}})
			p, url := listen(t, "--tokens="+file)
			session, streams := "", []io.Closer{}
			for _, line := range requests {
				var recorded struct {
					Method, Body string
					Headers      map[string]string
				}
				if err := json.Unmarshal([]byte(line), &recorded); err != nil {
					t.Fatal(err)
				}
				req, err := http.NewRequestWithContext(t.Context(), recorded.Method, url, strings.NewReader(recorded.Body))
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range recorded.Headers {
					req.Header.Set(name, strings.NewReplacer("TOKEN", secrets["agent"], "SESSION", session).Replace(value))
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
					session = id
				}
				if resp.StatusCode >= 300 {
					t.Errorf("%s: %s", line, resp.Status)
				}
				if recorded.Method == http.MethodGet { // a stream of what the server has to say by itself
					streams = append(streams, resp.Body)
					continue
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(recorded.Body, `"id"`) {
					_, data, _ := strings.Cut(string(body), "data: ")
					answered(t, recorded.Body, data)
				}
			}
			for _, stream := range streams {
				_ = stream.Close()
			}
			p.stop()
			if code := <-p.code; code != 0 {
				t.Errorf("exit code %d: %s", code, p.errs)
			}
		})
	}
}

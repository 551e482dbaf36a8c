package curator_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/llm/curator"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

func TestWhatIsNotAsked(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int, a asked) {
		t.Errorf("asked: %s", a.body)
		_, _ = fmt.Fprint(w, says("add", 0, ""))
	})
	config := onFile(t)
	config.Curator = fast(s)
	config.Curator.MaxInput = len(green) + len(blue) - 1
	sys := start(t, config)
	for _, text := range []string{green, blue} { // too large together
		if d := sys.decided(sys.remember("n", text, nil)); d.GetAction() != triskelev1.CurationAction_CURATION_ACTION_ADD || d.GetModel() != "" {
			t.Errorf("decision %v", d)
		}
	}
}

func TestOffUnlessConfigured(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		sys := start(t, config)
		sys.remember("n", green, nil)
		if on, err := sys.Backend.Memory().Curation(t.Context()); err != nil || on || waiting(t, sys) != 0 || strings.Contains(sys.log.String(), "curation") {
			t.Errorf("on %v, %v, %d waiting, log:\n%s", on, err, waiting(t, sys), sys.log)
		}
		sys.close()

		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int, _ asked) { _, _ = fmt.Fprint(w, says("add", 0, "")) })
		with := config
		with.Curator = fast(s)
		start(t, with).close()

		// Who leaves the server out again keeps what waits for another process, and is told.
		sys = start(t, config)
		sys.remember("n", blue, nil)
		if !strings.Contains(sys.log.String(), "triskele curation off") || waiting(t, sys) != 1 {
			t.Errorf("%d waiting, log:\n%s", waiting(t, sys), sys.log)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := curator.Config{URL: "http://127.0.0.1:1/v1", Model: "m"}
	for name, c := range map[string]struct {
		change func(*curator.Config)
		want   string // in the error
	}{
		"defaults":           {func(*curator.Config) {}, ""},
		"https":              {func(c *curator.Config) { c.URL, c.Key = "https://models.example/v1/", "secret" }, ""},
		"key on loopback":    {func(c *curator.Config) { c.KeyFile = file }, ""},
		"no scheme":          {func(c *curator.Config) { c.URL = "127.0.0.1:1" }, "must be a URL"},
		"no web":             {func(c *curator.Config) { c.URL = "file:///etc" }, "must be a URL"},
		"password":           {func(c *curator.Config) { c.URL = "http://me:secret@127.0.0.1" }, "must be a URL"},
		"query":              {func(c *curator.Config) { c.URL = "http://127.0.0.1/?key=secret" }, "must be a URL"},
		"no model":           {func(c *curator.Config) { c.Model = "" }, "no name"},
		"key in the clear":   {func(c *curator.Config) { c.URL, c.KeyFile = "http://models.example/v1", file }, "use https"},
		"no such file":       {func(c *curator.Config) { c.KeyFile = file + "x" }, "no such file"},
		"rate":               {func(c *curator.Config) { c.PerMinute = -1 }, "requests a minute"},
		"input":              {func(c *curator.Config) { c.MaxInput = -1 }, "1 byte or more"},
		"timeout":            {func(c *curator.Config) { c.Timeout = -1 }, "timeout"},
		"timeout of an hour": {func(c *curator.Config) { c.Timeout = time.Hour }, "at most 1m30s"},
	} {
		config := good
		c.change(&config)
		_, err := curator.New(config, nil, nil, storetest.Telemetry(t), storetest.Log())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

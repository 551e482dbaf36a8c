package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/triskele/triskele/fuser/page"
	"github.com/triskele/triskele/services/agents/internal/render"
)

func TestGauges(t *testing.T) {
	t.Parallel()
	const metrics = `# HELP triskele_index_pending Memories that wait
# TYPE triskele_index_pending gauge
triskele_index_pending{index="dense",service_name="dense"} 7
triskele_index_pending{index="dense",service_name="other"} 7
# TYPE triskele_index_dead gauge
triskele_index_dead{service_name="graph",index="graph"} 2
# TYPE triskele_index_lag_seconds gauge
triskele_index_lag_seconds{index="dense"} 1.5
# TYPE triskele_replica_memory_bytes gauge
triskele_replica_memory_bytes{service_name="dense"} 1.048576e+06
triskele_replica_memory_bytes{service_name="lexical"} 1.048576e+06
# TYPE triskele_replica_namespaces gauge
triskele_replica_namespaces 3
triskele_index_memories_total{index="x"} 4
`
	var top render.Top
	if err := gauges(strings.NewReader(metrics), &top); err != nil {
		t.Fatal(err)
	}
	if top.Memory != 2<<20 || top.Images != 3 {
		t.Errorf("got %d bytes of %d, want 2 MiB of 3 images", top.Memory, top.Images)
	}
	want := []render.Queue{{Index: "dense", Pending: 7, Lag: 1500}, {Index: "graph", Dead: 2}}
	if len(top.Queues) != 2 || top.Queues[0] != want[0] || top.Queues[1] != want[1] {
		t.Errorf("got %v, want %v", top.Queues, want)
	}
}

// TestScreen: a frame is kept while the gateway is away, and q quits.
func TestScreen(t *testing.T) {
	t.Parallel()
	var model tea.Model = screen{top: &topCmd{Every: time.Second}}
	update := func(msg tea.Msg) (text string, quit bool) {
		var next tea.Cmd
		model, next = model.Update(msg)
		if key, ok := msg.(tea.KeyPressMsg); ok && next != nil {
			_, quit = next().(tea.QuitMsg)
			if !quit {
				t.Errorf("%v: got another command than to quit", key)
			}
		}
		return model.View().Content, quit
	}
	frame := render.Top{Source: "here", Live: []page.Live{{Leg: "dense", Searches: 5, States: map[string]int{"OK": 5}}}}
	if got, _ := update(looked{frame: frame}); !strings.Contains(got, "dense") || !strings.Contains(got, "OK 5") {
		t.Errorf("got %q, want the leg", got)
	}
	if got, _ := update(looked{err: errors.New("refused")}); !strings.Contains(got, "dense") || !strings.Contains(got, "does not answer: refused") {
		t.Errorf("got %q, want the last frame and the error", got)
	}
	if got, _ := update(looked{frame: frame}); strings.Contains(got, "refused") {
		t.Errorf("got %q, want the error gone", got)
	}
	if _, quit := update(tea.KeyPressMsg{Code: 'x', Text: "x"}); quit {
		t.Error("x quits")
	}
	if _, quit := update(tea.KeyPressMsg{Code: 'q', Text: "q"}); !quit {
		t.Error("q does not quit")
	}
}

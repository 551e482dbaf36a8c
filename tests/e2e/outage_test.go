package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

var outage = flag.Duration("outage", 6*time.Second, "how long TestEmbedderOutage keeps the embedder away; for the last third of it, the embedder hangs")

// landlord is an embedding server that can be stopped and started again at its address.
type landlord struct {
	t       *testing.T
	models  http.Handler
	address string
	server  *http.Server
}

func (l *landlord) up(handler http.Handler) {
	l.t.Helper()
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	l.address, l.server = listener.Addr().String(), server
	go func() { _ = server.Serve(listener) }()
	l.t.Cleanup(func() { _ = server.Close() })
}

// replace stops the server, ending its connections, and starts another; none if handler is nil.
func (l *landlord) replace(handler http.Handler) {
	l.t.Helper()
	_ = l.server.Close()
	if handler != nil {
		l.up(handler)
	}
}

// TestEmbedderOutage takes the embedding server away while memories are stored and recalled, first by closing its port and
// then by never answering. No recall may fail, the dense leg must say what is wrong, and what was stored meanwhile must be
// embedded soon after.
func TestEmbedderOutage(t *testing.T) {
	t.Parallel() // much of it is waiting
	for name, open := range map[string]func(*testing.T, []string) *system{
		"postgres": func(t *testing.T, embedder []string) *system {
			return startWith(t, setup{args: map[string][]string{"dense": embedder}})
		},
		"sqlite": func(t *testing.T, embedder []string) *system {
			return startOne(t, setup{args: map[string][]string{"triskele": embedder}}).system
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &landlord{t: t, models: newScript(t), address: "127.0.0.1:0"}
			server.up(server.models)
			s := open(t, []string{"--embedder", fmt.Sprintf("openai:http://%s#letters?dims=%d", server.address, dimensions)})
			suffer(t, s, server)
		})
	}
}

func suffer(t *testing.T, s *system, server *landlord) {
	c := &client{system: s, states: map[string]int{}}
	c.remember()
	s.awaitIndexes("n")
	if dense := c.ask(unhurried); dense.GetState() != triskelev1.LegState_LEG_STATE_OK || dense.GetReturned() != 1 {
		t.Fatalf("before the outage: %v", dense)
	}

	server.replace(nil)
	before := c.stored
	for _, dense := range c.live(*outage*2/3, unhurried) {
		if dense.GetState() != triskelev1.LegState_LEG_STATE_FAILED || !strings.Contains(dense.GetReason(), "embed") {
			t.Errorf("without an embedder: %v", dense)
			break
		}
	}
	server.replace(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	for _, dense := range c.live(*outage/3, 2*time.Second) {
		if dense.GetReason() == "" {
			t.Errorf("with an embedder that hangs: %v", dense)
			break
		}
	}

	server.replace(server.models)
	begun := time.Now()
	s.awaitIndexes("n")
	t.Logf("%d memories stored and %d recalls answered in %v; the backlog was embedded %v later", c.stored-before, c.recalls, *outage, time.Since(begun).Round(10*time.Millisecond))
	for _, state := range slices.Sorted(maps.Keys(c.states)) {
		t.Logf("  %d times %s", c.states[state], state)
	}
	s.eventually("the dense leg answers again, from everything", func() bool {
		dense := c.ask(unhurried)
		return dense.GetState() == triskelev1.LegState_LEG_STATE_OK && int(dense.GetReturned()) == min(c.stored, 50)
	})
}

// client stores and recalls, and counts.
type client struct {
	*system
	stored, recalls int
	states          map[string]int // of the dense leg, with the reason
}

func (c *client) remember() {
	c.t.Helper()
	c.stored++
	c.system.remember(&triskelev1.Memory{Namespace: "n", Content: fmt.Sprintf("the kestrel was seen %d times", c.stored)})
}

// ask recalls what no query before has asked for, so that no vector of it is remembered, and returns the dense leg's report.
func (c *client) ask(budget time.Duration) *triskelev1.LegReport {
	c.t.Helper()
	c.recalls++
	resp, err := c.recall.Recall(c.t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{"n"}, Query: fmt.Sprintf("kestrel seen again, question %d", c.recalls), Budget: durationpb.New(budget),
	})
	if err != nil || len(resp.GetHits()) == 0 {
		c.t.Fatalf("recall %d: %d hits, %v", c.recalls, len(resp.GetHits()), err)
	}
	return report(resp, "dense")
}

// live stores and recalls for a while, ten times a second, and returns what the dense leg reported.
func (c *client) live(d, budget time.Duration) (reports []*triskelev1.LegReport) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		c.remember()
		dense := c.ask(budget)
		reports = append(reports, dense)
		c.states[fmt.Sprintf("%v: %s", dense.GetState(), dense.GetReason())]++
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return reports
}

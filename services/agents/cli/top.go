package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/triskele/triskele/fuser/page"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/spending/traces"
)

type topCmd struct {
	Admin  []string          `help:"URL of the gateway's admin port, then those of services in other processes, for their queues and memory." default:"http://127.0.0.1:7410" placeholder:"URL"`
	Header map[string]string `help:"Header for the requests, such as Authorization=..." env:"TRISKELE_TRACES_HEADER" secret:"" placeholder:"NAME=VALUE"`
	Every  time.Duration     `help:"Time between two frames." default:"2s"`
	Once   bool              `help:"Print one frame and exit; also if the output is not a terminal."`
	jsonFlag
}

// mostFrame bounds what one answer of the gateway may be, in bytes.
const mostFrame = 16 << 20

// frameTime bounds the requests of a frame.
const frameTime = 5 * time.Second

// Validate checks the range.
func (c *topCmd) Validate() error {
	if c.Every < 100*time.Millisecond {
		return errors.New("--every must be 100ms or more")
	}
	return nil
}

// Run draws frames until q or Ctrl-C.
func (c *topCmd) Run(ctx context.Context, env *Env) error {
	style := env.style()
	first, err := c.look(ctx, env.Now)
	if err != nil {
		return fmt.Errorf("%w; name a gateway's admin port with --admin", err)
	}
	if c.Once || c.JSON || !style.Terminal {
		return env.show(c.JSON, first, style.Top(first))
	}
	_, err = tea.NewProgram(screen{ctx: ctx, top: c, now: env.Now, style: style, frame: first}, tea.WithContext(ctx), tea.WithInput(env.In), tea.WithOutput(env.Out)).Run()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil {
		return nil
	}
	return err
}

// screen is the terminal's model.
type screen struct {
	ctx   context.Context
	top   *topCmd
	now   func() time.Time
	style render.Style
	frame render.Top
	err   error // why the frame is old
}

type looked struct {
	frame render.Top
	err   error
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return s.next() }

// next looks again when it is time to.
func (s screen) next() tea.Cmd {
	return tea.Tick(s.top.Every, func(time.Time) tea.Msg {
		frame, err := s.top.look(s.ctx, s.now)
		return looked{frame, err}
	})
}

// Update implements tea.Model.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case looked:
		if s.err = msg.err; msg.err == nil {
			s.frame = msg.frame
		}
		return s, s.next()
	case tea.WindowSizeMsg:
		s.style.Width = msg.Width
	case tea.KeyPressMsg:
		if key := msg.String(); key == "q" || key == "ctrl+c" || key == "esc" {
			return s, tea.Quit
		}
	}
	return s, nil
}

// View implements tea.Model.
func (s screen) View() tea.View {
	text := s.style.Top(s.frame)
	if s.err != nil {
		text += "\n" + s.style.Bad(render.Plain("the gateway does not answer: "+s.err.Error())) + "\n"
	}
	view := tea.NewView(text + s.style.Dim("q quits") + "\n")
	view.AltScreen = true
	return view
}

// look reads what the gateway's page reads.
func (c *topCmd) look(ctx context.Context, now func() time.Time) (render.Top, error) {
	ctx, cancel := context.WithTimeout(ctx, frameTime)
	defer cancel()
	q := traces.Query{Header: c.Header}
	gateway := c.Admin[0]
	top := render.Top{Source: gateway, At: now()}
	if err := decode(ctx, q, gateway, "api/live", nil, &top.Live); err != nil {
		return top, err
	}
	for _, kind := range []string{"slow", "degraded", "all"} {
		var some []page.Recall
		if err := decode(ctx, q, gateway, "api/recalls", url.Values{"kind": {kind}, "limit": {"100"}}, &some); err != nil {
			return top, err
		}
		top.Recalls = append(top.Recalls, some...)
	}
	slices.SortFunc(top.Recalls, func(x, y page.Recall) int { return cmp.Compare(x.ID, y.ID) })
	top.Recalls = slices.CompactFunc(top.Recalls, func(x, y page.Recall) bool { return x.ID == y.ID })
	for i, url := range c.Admin {
		if err := get(ctx, q, url, "metrics", nil, func(body io.Reader) error { return gauges(body, &top) }); err != nil && i == 0 {
			return top, err
		} else if err != nil { // a frame matters most when something is away
			top.Away = append(top.Away, err.Error())
		}
	}
	return top, nil
}

// get has fn read the answer to a request.
func get(ctx context.Context, q traces.Query, base, path string, values url.Values, fn func(io.Reader) error) error {
	body, err := q.Get(ctx, base, path, values)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return fn(io.LimitReader(body, mostFrame))
}

func decode(ctx context.Context, q traces.Query, base, path string, values url.Values, into any) error {
	return get(ctx, q, base, path, values, func(body io.Reader) error {
		if err := json.NewDecoder(body).Decode(into); err != nil {
			return fmt.Errorf("%s: this is no answer of a gateway: %w", path, err)
		}
		return nil
	})
}

// gauges adds the queues and the memory of one process from its metrics in Prometheus' format. Each replica reports the same queues.
func gauges(metrics io.Reader, top *render.Top) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return fmt.Errorf("these are no metrics: %w", err)
	}
	values := func(name string) iter.Seq2[string, float64] {
		return func(yield func(index string, value float64) bool) {
			for _, m := range families[name].GetMetric() {
				at := slices.IndexFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "index" })
				index := ""
				if at >= 0 {
					index = m.GetLabel()[at].GetValue()
				}
				if !yield(index, m.GetGauge().GetValue()) {
					return
				}
			}
		}
	}
	for _, bytes := range values("triskele_replica_memory_bytes") {
		top.Memory += int64(bytes)
	}
	for _, n := range values("triskele_replica_namespaces") {
		top.Images += int(n)
	}
	queue := func(index string) *render.Queue {
		at, found := slices.BinarySearchFunc(top.Queues, index, func(q render.Queue, index string) int { return cmp.Compare(q.Index, index) })
		if !found {
			top.Queues = slices.Insert(top.Queues, at, render.Queue{Index: index})
		}
		return &top.Queues[at]
	}
	for index, n := range values("triskele_index_pending") {
		queue(index).Pending = max(queue(index).Pending, int64(n))
	}
	for index, n := range values("triskele_index_dead") {
		queue(index).Dead = max(queue(index).Dead, int64(n))
	}
	for index, seconds := range values("triskele_index_lag_seconds") {
		queue(index).Lag = max(queue(index).Lag, 1000*seconds)
	}
	return nil
}

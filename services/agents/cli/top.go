package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/triskele/triskele/fuser/page"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/spending/traces"
)

type topCmd struct {
	Admin  string            `help:"URL of the gateway's admin port." default:"http://127.0.0.1:7410" placeholder:"URL"`
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
		return c.result(env, first, style.Top(first))
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
	q := traces.Query{Header: http.Header{}}
	for name, value := range c.Header {
		q.Header.Set(strings.TrimSpace(name), value)
	}
	top := render.Top{Source: c.Admin, At: now()}
	if err := decode(ctx, q, c.Admin, "api/live", nil, &top.Live); err != nil {
		return top, err
	}
	for _, kind := range []string{"slow", "degraded", "all"} {
		var some []page.Recall
		if err := decode(ctx, q, c.Admin, "api/recalls", url.Values{"kind": {kind}, "limit": {"100"}}, &some); err != nil {
			return top, err
		}
		top.Recalls = append(top.Recalls, some...)
	}
	slices.SortFunc(top.Recalls, func(x, y page.Recall) int { return cmp.Compare(x.ID, y.ID) })
	top.Recalls = slices.CompactFunc(top.Recalls, func(x, y page.Recall) bool { return x.ID == y.ID })
	body, err := q.Get(ctx, c.Admin, "metrics", nil)
	if err != nil {
		return top, err
	}
	defer func() { _ = body.Close() }()
	return top, gauges(io.LimitReader(body, mostFrame), &top)
}

func decode(ctx context.Context, q traces.Query, base, path string, values url.Values, into any) error {
	body, err := q.Get(ctx, base, path, values)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if err := json.NewDecoder(io.LimitReader(body, mostFrame)).Decode(into); err != nil {
		return fmt.Errorf("%s: this is no answer of a gateway: %w", path, err)
	}
	return nil
}

// gauge matches a gauge's name, its index if it has one, and its value.
var gauge = regexp.MustCompile(`^(triskele_(?:replica_memory_bytes|replica_namespaces|index_pending|index_dead|index_lag_seconds))(?:\{(?:[^}]*\bindex="([^"]*)")?[^}]*\})? (\S+)`)

// gauges adds the queues and the memory from metrics in Prometheus' format. Each replica reports the same queues.
func gauges(metrics io.Reader, top *render.Top) error {
	queues := map[string]*render.Queue{}
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		found := gauge.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			continue
		}
		q := queues[found[2]]
		if q == nil {
			q = &render.Queue{Index: found[2]}
			queues[q.Index] = q
		}
		switch found[1] {
		case "triskele_replica_memory_bytes":
			top.Memory += int64(value)
		case "triskele_replica_namespaces":
			top.Namespaces += int(value)
		case "triskele_index_pending":
			q.Pending = max(q.Pending, int64(value))
		case "triskele_index_dead":
			q.Dead = max(q.Dead, int64(value))
		case "triskele_index_lag_seconds":
			q.Lag = max(q.Lag, 1000*value)
		}
	}
	for _, q := range queues {
		if q.Index != "" {
			top.Queues = append(top.Queues, *q)
		}
	}
	slices.SortFunc(top.Queues, func(x, y render.Queue) int { return cmp.Compare(x.Index, y.Index) })
	return lines.Err()
}

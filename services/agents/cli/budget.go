package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/traces/otlp"
	"github.com/triskele/triskele/services/agents/spending"
	"github.com/triskele/triskele/services/agents/spending/traces"
)

type budgetCmd struct {
	Admin   string            `help:"Read the recalls that a running gateway keeps, from the URL of its admin port. This is the default source." default:"http://127.0.0.1:7410" placeholder:"URL"`
	OTLP    string            `name:"otlp" help:"Read a file of OTLP JSON instead, as a collector's file exporter writes it, and as Jaeger and Tempo answer; - for standard input." placeholder:"FILE"`
	Header  map[string]string `help:"Header for the gateway, such as \"Authorization=Bearer TOKEN\"." env:"TRISKELE_TRACES_HEADER" placeholder:"NAME=VALUE"`
	Limit   int               `help:"Maximum number of traces." default:"2000"`
	Budgets []time.Duration   `help:"Budgets to try." default:"10ms,15ms,20ms,30ms,50ms,70ms,100ms,150ms,200ms,300ms,500ms,700ms,1s" placeholder:"TIME"`
	Leg     []string          `help:"The gateway's legs, as given to fuserd; not needed for the default." env:"TRISKELE_LEGS" sep:";" placeholder:"LEG"`
	Quality []byte            `help:"JSON file of an evaluation's report, such as docs/evidence/fusion.json, to estimate the recall that a budget leaves." type:"filecontent" placeholder:"FILE"`
	jsonFlag
}

func (c *budgetCmd) Validate() error {
	if c.Limit < 1 {
		return errors.New("--limit must be 1 or more")
	}
	if len(c.Budgets) == 0 {
		return errors.New("--budgets needs at least one")
	}
	if slices.Min(c.Budgets) <= 0 {
		return errors.New("--budgets must be more than 0")
	}
	return nil
}

func (c *budgetCmd) Run(ctx context.Context, env *Env) error {
	rule := spending.Rule{}
	for _, text := range c.Leg {
		leg, err := gateway.ParseLeg(text)
		if err != nil {
			return err
		}
		rule[leg.Name] = leg.Budget
	}
	var quality *spending.Quality
	if len(c.Quality) > 0 {
		var err error
		if quality, err = spending.ParseQuality(c.Quality); err != nil {
			return err
		}
	}
	recorded, source, err := c.read(ctx, env)
	if err != nil {
		return err
	}
	report, err := spending.Analyse(recorded, rule, c.Budgets, quality)
	if errors.Is(err, spending.ErrNothing) {
		return fmt.Errorf("%s has no recall: are recalls traced and sampled?", source)
	}
	if err != nil {
		return err
	}
	report.Source = source
	return env.show(c.JSON, report, env.style().Spending(report))
}

// read fetches the traces and names their source.
func (c *budgetCmd) read(ctx context.Context, env *Env) (_ []otlp.Trace, source string, err error) {
	if c.OTLP == "" {
		out, err := traces.Recent(ctx, c.Admin, c.Limit, c.Header)
		if err != nil {
			err = fmt.Errorf("%w; name a gateway's admin port with --admin, or other traces with --otlp", err)
		}
		return out, "the gateway at " + c.Admin, err
	}
	in, err := env.open(ctx, c.OTLP)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = in.Close() }()
	if source = c.OTLP; source == "-" {
		source = "standard input"
	}
	out, err := traces.Read(in)
	if err != nil {
		err = fmt.Errorf("%s: %w", source, err)
	}
	return out, source, err
}

// Command fuserd serves the gateway, the one address that agents know.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/page"
	"github.com/triskele/triskele/fuser/platform/admin"
	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/program"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/fuser/rerank"
	"github.com/triskele/triskele/fuser/traces/recent"
	"github.com/triskele/triskele/fuser/web"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

type flags struct {
	program.Flags
	Access        auth.Access          `embed:"" group:"Address and callers:"`
	Web           web.Flags            `embed:"" group:"Address and callers:"`
	Leg           []string             `help:"A leg as ${form}; repeat the flag for each leg." default:"${legs}" env:"TRISKELE_LEGS" sep:";" placeholder:"LEG" group:"Recall:"`
	Memory        string               `help:"The memory service as ${memory}." default:"127.0.0.1:7404" env:"TRISKELE_MEMORY" placeholder:"TARGET" group:"Recall:"`
	Policies      []byte               `help:"JSON file of recall policies by namespace. A policy applies to its namespace and those below it; the policy of \"\" applies to all." type:"filecontent" env:"TRISKELE_POLICIES" placeholder:"FILE" group:"Recall:"`
	Fusion        gateway.FusionConfig `embed:"" group:"Recall:"`
	DefaultBudget time.Duration        `help:"Budget of a recall whose caller sets no deadline." default:"500ms" env:"TRISKELE_DEFAULT_BUDGET" group:"Recall:"`
	MaxBudget     time.Duration        `help:"Maximum budget of a recall." default:"10s" env:"TRISKELE_MAX_BUDGET" group:"Recall:"`
	Reranker      rerank.Flags         `embed:"" group:"Reranker:"`
	Trace         gateway.TraceConfig  `embed:"" group:"Observability:"`
}

// defaultLegs are the default legs on this machine, as LegForm has them.
func defaultLegs() string {
	legs := gateway.DefaultLegs(map[string]string{"lexical": "127.0.0.1:7401", "dense": "127.0.0.1:7402", "graph": "127.0.0.1:7403"})
	return strings.Join(slice.Map(legs, func(leg gateway.Leg) string {
		return fmt.Sprintf("%s=%s?weight=%g&trust=%g&shed=%d", leg.Name, leg.Target, leg.Weight, leg.Trust, leg.Shed)
	}), ";")
}

func main() {
	var f flags
	program.Main("fuser", "Serves the gateway: Recall, and the record calls that it forwards.", &f, &f.Flags,
		kong.Vars{"listen": "127.0.0.1:7400", "tls_clients": "", "legs": defaultLegs(), "form": gateway.LegForm, "memory": gateway.MemoryForm}, f.run)
}

func (f *flags) run(ctx context.Context, tel *telemetry.Service, operators *admin.Server, log *slog.Logger) error {
	config, err := f.config()
	if err != nil {
		return settings.Wrong(err)
	}
	creds, err := f.Listener.TLS.Client()
	if err != nil {
		return err
	}
	dial := func(name, target string) (*grpc.ClientConn, error) {
		conn, err := rpc.Dial(target, tel, grpc.WithTransportCredentials(creds))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return conn, nil
	}
	var legs []triskelev1.LegServiceClient
	for _, leg := range config.Legs {
		conn, err := dial("leg "+leg.Name, leg.Target)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		legs = append(legs, triskelev1.NewLegServiceClient(conn))
	}
	conn, err := dial("memory", config.Memory.Target)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	g, err := gateway.New(config, legs, triskelev1.NewMemoryServiceClient(conn), tel, log)
	if err != nil {
		return settings.Wrong(err)
	}
	defer g.Close()
	server, listener, err := f.Listener.Open(f.Access, tel, log)
	if err != nil {
		return err
	}
	triskelev1.RegisterRecallServiceServer(server, g)
	gateway.Forward(server, conn, triskelev1.File_triskele_v1_memory_proto)
	server.CompileRules()
	// Ready as soon as it listens: a gateway whose legs are down still answers.
	server.Ready()
	closeWeb, err := web.Open(ctx, f.Web, server, listener.Addr(), log)
	if err != nil {
		return err
	}
	defer closeWeb()
	if f.Admin.On() {
		page.Open(ctx, operators.ServeMux, config.Recent, server, tel)
	}
	operators.Health(server.Serving, server.Concerns)
	log.Info("serving", "address", listener.Addr().String(), "version", telemetry.Version(), "legs", len(config.Legs))
	return server.Run(ctx, listener)
}

func (f *flags) config() (config gateway.Config, err error) {
	config = gateway.DefaultConfig()
	config.Fusion, config.Trace = f.Fusion, f.Trace
	config.Budget.Default, config.Budget.Max = f.DefaultBudget, f.MaxBudget
	if config.Memory, err = gateway.ParseMemory(f.Memory); err != nil {
		return config, err
	}
	if config.Rerank, err = f.Reranker.Open(os.Getenv); err != nil {
		return config, err
	}
	if len(f.Policies) > 0 {
		if config.Policies, err = gateway.ParsePolicies(f.Policies); err != nil {
			return config, err
		}
	}
	for _, text := range f.Leg {
		leg, err := gateway.ParseLeg(text)
		if err != nil {
			return config, err
		}
		config.Legs = append(config.Legs, leg)
	}
	if f.Admin.On() {
		config.Recent = recent.New()
	}
	return config, nil
}

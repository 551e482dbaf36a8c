package cli

import (
	"context"
	"fmt"
	"iter"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/wiring/backend"
)

type curationCmd struct {
	List   curationListCmd   `cmd:"" help:"List the curator's decisions, newest first."`
	Show   curationShowCmd   `cmd:"" help:"Show the curator's decisions about a memory, with their texts."`
	Revert curationRevertCmd `cmd:"" help:"Revert a decision: its memories get their earlier state and are not judged again."`
	Off    curationOffCmd    `cmd:"" help:"Switch curation off in a database and drop its queue. Decisions stay and can be reverted."`
}

type curationListCmd struct {
	Limit  int    `help:"Maximum number of decisions; 0 lists all." default:"20"`
	Memory string `help:"Only decisions about this memory." placeholder:"ID"`
	JSON   bool   `help:"Print each decision as a line of JSON."`
	namespaceFlag
	gatewayFlags
}

const noDecisions = "no decisions\n"

func (c *curationListCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		return showList(env, c.JSON, s.decisions(ctx, c.Namespace, c.Memory, c.Limit), c.Limit, noDecisions, env.style().Decision)
	})
}

// decisions returns the decisions about a memory, or about all if none is given. A page has at most limit of them.
func (s *session) decisions(ctx context.Context, namespace, memory string, limit int) iter.Seq2[*triskelev1.Decision, error] {
	return pages(func(token string) ([]*triskelev1.Decision, string, error) {
		resp, err := s.Memories.ListDecisions(ctx, &triskelev1.ListDecisionsRequest{Namespace: namespace, MemoryId: memory, PageSize: pageSize(limit), PageToken: token})
		return resp.GetDecisions(), resp.GetNextPageToken(), err
	})
}

type curationShowCmd struct {
	ID   string `arg:"" name:"id" help:"Id of the new or the older memory."`
	JSON bool   `help:"Print each decision, with the memories, as a line of JSON."`
	namespaceFlag
	gatewayFlags
}

func (c *curationShowCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		between := ""
		for d, err := range s.decisions(ctx, c.Namespace, c.ID, 0) {
			if err != nil {
				return err
			}
			ids := []string{d.GetMemoryId()}
			if d.GetTargetId() != "" {
				ids = append(ids, d.GetTargetId())
			}
			resp, err := s.Memories.Get(ctx, &triskelev1.GetRequest{Namespace: c.Namespace, Ids: ids})
			if err != nil {
				return err
			}
			both := map[string]apiMessage{"decision": {d}, "memories": {resp}}
			if err := env.showLine(c.JSON, both, between+env.style().DecisionInFull(d, resp.GetMemories())); err != nil {
				return err
			}
			between = "\n"
		}
		if between == "" && !c.JSON {
			return env.print(noDecisions)
		}
		return nil
	})
}

type curationRevertCmd struct {
	ID string `arg:"" name:"id" help:"Id of the decision."`
	recordFlags
}

func (c *curationRevertCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		resp, err := s.Memories.RevertDecision(ctx, &triskelev1.RevertDecisionRequest{Namespace: c.Namespace, Id: c.ID})
		return env.answer(err, c.JSON, resp, fmt.Sprintf("reverted: %s is as it was before the %s\n", resp.GetDecision().GetMemoryId(), render.Action(resp.GetDecision().GetAction())))
	})
}

type curationOffCmd struct {
	jsonFlag
	databaseFlags
}

// Run switches curation off. A process started with a model switches it on again.
func (c *curationOffCmd) Run(ctx context.Context, env *Env) error {
	return c.migrated(ctx, env, func(b *backend.Backend) error {
		err := b.Memory().SetCuration(ctx, false)
		return env.answer(err, c.JSON, map[string]bool{"on": false}, "curation is off\n")
	}, "memory")
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"

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

// Help is shown below the commands.
func (*curationCmd) Help() string {
	return "Curation is off until \"triskele up\" or memoryd is started with --curator-url. A model then decides for each new memory whether it adds something, completes or replaces an older one, or says nothing new. Nothing is deleted."
}

type curationListCmd struct {
	Limit     int           `help:"Maximum number of decisions; 0 lists all." default:"20"`
	Memory    string        `help:"Only decisions about this memory." placeholder:"ID"`
	JSON      bool          `help:"Print each decision as a line of JSON."`
	Namespace namespaceFlag `embed:""`
	Gateway   gatewayFlags  `embed:""`
}

// Run lists page by page.
func (c *curationListCmd) Run(ctx context.Context, env *Env) error {
	listed := 0
	err := c.Gateway.decisions(ctx, c.Namespace.Namespace, c.Memory, c.Limit, func(d *triskelev1.Decision) error {
		listed++
		if !c.JSON {
			return env.print(env.style().Decision(d))
		}
		line, err := render.JSONLine(d)
		if err != nil {
			return err
		}
		return env.print(string(line))
	})
	if err == nil && listed == 0 && !c.JSON {
		return env.print("no decisions\n")
	}
	return err
}

// decisions calls fn with up to limit decisions about a memory. No memory means all, limit 0 means no limit.
func (g gatewayFlags) decisions(ctx context.Context, namespace, memory string, limit int, fn func(*triskelev1.Decision) error) error {
	req := &triskelev1.ListDecisionsRequest{Namespace: namespace, MemoryId: memory}
	for left := limit; ; {
		size := int32(pageSize)
		if limit > 0 {
			size = int32(min(left, pageSize))
		}
		req.PageSize = &size
		var resp *triskelev1.ListDecisionsResponse
		if err := g.call(ctx, func(ctx context.Context, s *session) (err error) {
			resp, err = s.Memories.ListDecisions(ctx, req)
			return err
		}); err != nil {
			return err
		}
		for _, d := range resp.GetDecisions() {
			if err := fn(d); err != nil {
				return err
			}
		}
		left -= len(resp.GetDecisions())
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" || limit > 0 && left <= 0 {
			return nil
		}
	}
}

type curationShowCmd struct {
	ID        string        `arg:"" name:"id" help:"Id of the new or the older memory."`
	JSON      bool          `help:"Print each decision, with the memories, as a line of JSON."`
	Namespace namespaceFlag `embed:""`
	Gateway   gatewayFlags  `embed:""`
}

// Run prints decisions with their memories.
func (c *curationShowCmd) Run(ctx context.Context, env *Env) error {
	shown := false
	err := c.Gateway.decisions(ctx, c.Namespace.Namespace, c.ID, 0, func(d *triskelev1.Decision) error {
		ids := []string{d.GetMemoryId()}
		if d.GetTargetId() != "" {
			ids = append(ids, d.GetTargetId())
		}
		return c.Gateway.call(ctx, func(ctx context.Context, s *session) error {
			resp, err := s.Memories.Get(ctx, &triskelev1.GetRequest{Namespace: c.Namespace.Namespace, Ids: ids})
			if err != nil {
				return err
			}
			if c.JSON {
				shown = true
				return env.printWith(d, resp)
			}
			text := env.style().DecisionInFull(d, resp.GetMemories())
			if shown {
				text = "\n" + text
			}
			shown = true
			return env.print(text)
		})
	})
	if err == nil && !shown && !c.JSON {
		return env.print("no decisions\n")
	}
	return err
}

// printWith writes a decision and its memories as a line of JSON.
func (e *Env) printWith(d *triskelev1.Decision, memories *triskelev1.GetResponse) error {
	decision, err := render.JSONLine(d)
	if err != nil {
		return err
	}
	texts, err := render.JSONLine(memories)
	if err != nil {
		return err
	}
	return e.printLine(map[string]json.RawMessage{"decision": decision, "memories": texts})
}

type curationRevertCmd struct {
	ID string `arg:"" name:"id" help:"Id of the decision."`
	answerFlag
	Namespace namespaceFlag `embed:""`
	Gateway   gatewayFlags  `embed:""`
}

// Run undoes one decision.
func (c *curationRevertCmd) Run(ctx context.Context, env *Env) error {
	return c.Gateway.call(ctx, func(ctx context.Context, s *session) error {
		resp, err := s.Memories.RevertDecision(ctx, &triskelev1.RevertDecisionRequest{Namespace: c.Namespace.Namespace, Id: c.ID})
		if err != nil {
			return err
		}
		return c.answer(env, resp, fmt.Sprintf("reverted: %s is as it was before the %s\n", resp.GetDecision().GetMemoryId(), render.Action(resp.GetDecision().GetAction())))
	})
}

type curationOffCmd struct {
	jsonFlag
	Database databaseFlags `embed:""`
}

// Run switches curation off. A process started with a model switches it on again.
func (c *curationOffCmd) Run(ctx context.Context, env *Env) error {
	return c.Database.existing(ctx, env, func(b backend.Backend) error {
		if err := b.Memory().SetCuration(ctx, false); err != nil {
			return err
		}
		return c.result(env, map[string]bool{"on": false}, "curation is off\n")
	})
}

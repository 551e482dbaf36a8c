package cli

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/render"
)

type namespaceCmd struct {
	List   namespaceListCmd   `cmd:"" help:"List namespaces by name."`
	Stats  namespaceStatsCmd  `cmd:"" help:"Count the memories of a namespace and those that its indexes lack."`
	Rename namespaceRenameCmd `cmd:"" help:"Rename a namespace with everything in it."`
	Delete namespaceDeleteCmd `cmd:"" help:"Delete a namespace with everything in it."`
}

type namespaceListCmd struct {
	Prefix string `arg:"" optional:"" help:"Only names with this prefix."`
	JSON   bool   `help:"Print each namespace as a line of JSON."`
	gatewayFlags
}

func (c *namespaceListCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		all := pages(func(token string) ([]*triskelev1.ListNamespacesResponse_Namespace, string, error) {
			resp, err := s.Memories.ListNamespaces(ctx, &triskelev1.ListNamespacesRequest{Prefix: c.Prefix, PageSize: pageSize(0), PageToken: token})
			return resp.GetNamespaces(), resp.GetNextPageToken(), err
		})
		return showList(env, c.JSON, all, 0, nothingFound, func(n *triskelev1.ListNamespacesResponse_Namespace) string {
			return render.Plain(n.GetNamespace()) + "\n"
		})
	})
}

type namespaceStatsCmd struct {
	Name string `arg:"" optional:"" help:"Name of the namespace." default:"default" env:"TRISKELE_NAMESPACE"`
	answerFlag
	gatewayFlags
}

func (c *namespaceStatsCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		resp, err := s.Memories.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: c.Name, Statistics: true})
		return env.answer(err, c.JSON, resp, env.style().Namespace(resp))
	})
}

type namespaceRenameCmd struct {
	Name    string `arg:"" help:"Current name."`
	NewName string `arg:"" help:"New name; no namespace may have it."`
	answerFlag
	gatewayFlags
}

// Run renames. A large namespace may take longer than the default timeout.
func (c *namespaceRenameCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		resp, err := s.Memories.RenameNamespace(ctx, &triskelev1.RenameNamespaceRequest{Namespace: c.Name, NewName: c.NewName})
		return env.answer(err, c.JSON, resp, fmt.Sprintf("renamed %s to %s with %s\n", c.Name, c.NewName, render.Count(resp.GetMemories(), "memory", "memories")))
	})
}

type namespaceDeleteCmd struct {
	Name string `arg:"" help:"Name of the namespace."`
	Yes  bool   `short:"y" help:"Do not ask for the name again."`
	answerFlag
	gatewayFlags
}

func (c *namespaceDeleteCmd) Run(ctx context.Context, env *Env) error {
	if !c.Yes {
		if err := c.confirm(ctx, env); err != nil {
			return err
		}
	}
	return c.with(ctx, func(s *session) error {
		if _, err := s.Memories.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: c.Name}); status.Code(err) == codes.NotFound {
			return err // else the right to delete is enough
		}
		resp, err := s.Memories.DeleteNamespace(ctx, &triskelev1.DeleteNamespaceRequest{Namespace: c.Name})
		return env.answer(err, c.JSON, resp, fmt.Sprintf("deleted %s with %s\n", c.Name, render.Count(resp.GetForgotten(), "memory", "memories")))
	})
}

func (c *namespaceDeleteCmd) confirm(ctx context.Context, env *Env) error {
	line, err := env.ask(ctx, fmt.Sprintf("This deletes every memory in %s. Type the name again to continue: ", c.Name))
	if err != nil {
		return err
	}
	if line != c.Name {
		return errors.New("the name does not match: nothing was deleted (--yes skips the question)")
	}
	return nil
}

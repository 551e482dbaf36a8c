package connect

import (
	"context"
	"errors"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Check starts an MCP server by its command line, as the client does, and recalls something. It returns nil if the server answers.
func Check(ctx context.Context, line []string) error {
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	client := mcp.NewClient(&mcp.Implementation{Name: "triskele-connect"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "recall", Arguments: map[string]any{"query": "does it work?", "limit": 1}})
	if err != nil {
		return err
	}
	if !result.IsError {
		return nil
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return errors.New(text.Text)
		}
	}
	return errors.New("recall failed")
}

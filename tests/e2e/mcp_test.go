package e2e_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCP has an agent start the program, and ask one that listens, remember and recall: with a database of the program's own and
// through a gateway.
func TestMCP(t *testing.T) {
	t.Parallel()
	o := startOne(t, setup{})
	for name, args := range map[string][]string{
		"embedded": {"mcp", "--sqlite", filepath.Join(t.TempDir(), "own.db")},
		"gateway":  {"mcp", "--address", o.processes["triskele"].address, "-n", "agents"},
	} {
		t.Run(name+" over stdio", func(t *testing.T) {
			cmd := exec.Command(filepath.Join(programs, "triskele"), args...)
			remembersOverMCP(t, &mcp.CommandTransport{Command: cmd}, "stdio")
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
		t.Run(name+" over HTTP", func(t *testing.T) {
			cmd := exec.Command(filepath.Join(programs, "triskele"), append(args, "--listen", "127.0.0.1:0")...)
			errs, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(errs).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, errs) }()
			remembersOverMCP(t, &mcp.StreamableClientTransport{Endpoint: regexp.MustCompile(`http://\S+/mcp`).FindString(line)}, "HTTP")
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a client asked for is done, also if it has closed the pipe before the answers come.
func TestMCPWithoutReader(t *testing.T) {
	t.Parallel()
	o := startOne(t, setup{})
	for name, args := range map[string][]string{
		"embedded": {"mcp", "--sqlite", filepath.Join(t.TempDir(), "own.db"), "-n", "piers"},
		"gateway":  {"mcp", "--address", o.processes["triskele"].address, "-n", "piers"},
	} {
		greeting := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}` +
			"\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
		cmd := exec.Command(filepath.Join(programs, "triskele"), args...)
		cmd.Stdin = strings.NewReader(greeting + `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n" +
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"remember","arguments":{"content":"The north crane is serviced in spring."}}}` + "\n" +
			`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"remember","arguments":{"content":"The south crane is serviced in spring."}}}` + "\n")
		cmd.Stdout = unread(t)
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cmd = exec.Command(filepath.Join(programs, "triskele"), args...)
		cmd.Stdin = strings.NewReader(greeting + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list"}}` + "\n")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "north crane") || !strings.Contains(string(out), "south crane") {
			t.Errorf("%s: %v, %s; want both memories", name, err, out)
		}
	}
}

// unread returns a pipe whose other end is closed.
func unread(t *testing.T) *os.File {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	return to
}

func remembersOverMCP(t *testing.T, transport mcp.Transport, by string) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool string, arguments map[string]any) string {
		t.Helper()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		text := result.Content[0].(*mcp.TextContent).Text
		if result.IsError {
			t.Errorf("%s: %s", tool, text)
		}
		return text
	}
	call("remember", map[string]any{"content": "Deploys by " + by + " are frozen from Thursday noon.", "title": "Deploy freeze"})
	if got := call("recall", map[string]any{"query": "deploys by " + by}); !strings.Contains(got, "> Deploys by "+by+" are frozen") {
		t.Errorf("recalled %s", got)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

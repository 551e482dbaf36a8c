// Command plugins writes what installs Triskele as a plugin of an agent: manifests of Claude Code, Gemini CLI, MCP bundles and the MCP
// registry, and a skill. Nothing is described twice: the text and the tools are those that the MCP server itself offers, and the
// hooks those that `triskele connect` writes. With a program, it also packs the bundle for Claude Desktop.
package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/agents/connect"
	"github.com/triskele/triskele/services/agents/mcpserver"
)

const (
	name       = "triskele"
	title      = "Triskele memory"
	summary    = "Long-term memory for agents: recalls what was said and decided, and remembers by itself." // at most 100 bytes
	repository = "https://github.com/triskele/triskele"
	license    = "Apache-2.0"
)

func main() {
	out := flag.String("out", filepath.Join("deploy", "plugins"), "`FOLDER` for the plugins")
	version := flag.String("version", "0.1.0", "`NUMBER` of the release")
	program := flag.String("program", "", "`FILE` of the program for this platform, to pack a bundle")
	flag.Parse()
	if err := run(*out, *version, *program); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(out, version, program string) error {
	about, err := ask(context.Background())
	if err != nil {
		return err
	}
	files, err := about.files(version)
	if err != nil {
		return err
	}
	if program != "" {
		if err := about.pack(files, version, program); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		at := filepath.Join(out, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, files[path], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// offered is what the MCP server says of itself.
type offered struct {
	instructions string
	tools        []*mcp.Tool
}

// ask starts the server without a gateway, which describing itself needs none.
func ask(ctx context.Context) (o offered, err error) {
	process, err := telemetry.Start(ctx)
	if err != nil {
		return o, err
	}
	server := mcpserver.New(nil, mcpserver.Config{Namespace: "default", MaxTokens: 1500, Budget: time.Second, Timeout: time.Second}, process.Service(name), slog.New(slog.DiscardHandler))
	here, there := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, there, nil); err != nil {
		return o, err
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "plugins", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		return o, err
	}
	defer func() { _ = session.Close() }()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return o, err
	}
	return offered{session.InitializeResult().Instructions, tools.Tools}, nil
}

type object = map[string]any

// files returns the plugins' files, by path.
func (o offered) files(version string) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(path string, value any) error {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(value)
		files[path] = text.Bytes()
		return err
	}
	claude, err := hooks("claude-code")
	if err != nil {
		return nil, err
	}
	gemini, err := hooks("gemini")
	if err != nil {
		return nil, err
	}
	servers := object{name: object{"command": name, "args": []string{"mcp"}}}
	for path, value := range map[string]any{
		"claude-code/.claude-plugin/plugin.json": object{
			"name": name, "version": version, "description": summary, "author": object{"name": "Triskele", "url": repository},
			"homepage": repository, "repository": repository, "license": license, "keywords": []string{"memory", "recall", "mcp"},
		},
		"claude-code/.mcp.json":        object{"mcpServers": servers},
		"claude-code/hooks/hooks.json": object{"hooks": claude},
		"gemini/gemini-extension.json": object{"name": name, "version": version, "description": summary, "mcpServers": servers},
		"gemini/hooks/hooks.json":      object{"hooks": gemini},
		"mcpb/manifest.json":           o.bundle(version),
		"registry/server.json":         listing(version),
	} {
		if err := add(path, value); err != nil {
			return nil, err
		}
	}
	files["claude-code/skills/memory/SKILL.md"] = o.skill()
	files["gemini/skills/memory/SKILL.md"] = o.skill()
	return files, nil
}

// hooks returns those that connect writes for an agent, for a program on the PATH.
func hooks(client string) (any, error) {
	c, _ := connect.Find(client)
	changes, err := c.Plan(connect.Home{GOOS: "linux", Getenv: func(variable string) string {
		return map[string]string{"HOME": filepath.FromSlash("/nowhere")}[variable]
	}}, connect.Program{Path: name, MCP: []string{"mcp"}, Hook: []string{"hook"}})
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		var settings struct{ Hooks json.RawMessage }
		if err := json.Unmarshal(change.After, &settings); err != nil {
			return nil, err
		}
		if settings.Hooks != nil {
			return settings.Hooks, nil
		}
	}
	return nil, fmt.Errorf("connect writes no hooks for %s", client)
}

// bundle is the manifest of an MCP bundle, which has the program inside.
func (o offered) bundle(version string) object {
	tools := make([]object, len(o.tools))
	for i, tool := range o.tools {
		tools[i] = object{"name": tool.Name, "description": tool.Description}
	}
	return object{
		"manifest_version": "0.3", "name": name, "display_name": title, "version": version, "description": summary, "long_description": o.instructions,
		"author": object{"name": "Triskele", "url": repository}, "repository": object{"type": "git", "url": repository}, "homepage": repository, "license": license,
		"keywords": []string{"memory", "recall"}, "tools": tools, "prompts_generated": true, "compatibility": object{"platforms": []string{"darwin", "linux", "win32"}},
		"server": object{"type": "binary", "entry_point": "server/" + name, "mcp_config": object{
			"command": "${__dirname}/server/" + name, "args": []string{"mcp", "--namespace", "${user_config.namespace}"},
		}},
		"user_config": object{"namespace": object{
			"type": "string", "title": "Namespace", "description": "Where this agent's memories are. Agents with the same namespace share them.", "default": "default", "required": true,
		}},
	}
}

// listing is the entry in the MCP registry. A release adds its packages.
func listing(version string) object {
	return object{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "name": "io.github.triskele/" + name, "title": title,
		"description": summary, "version": version, "repository": object{"url": repository, "source": "github"}, "websiteUrl": repository,
	}
}

// skill is the text that an agent reads when memories may matter.
func (o offered) skill() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: memory\ndescription: %q\n---\n\n# Memory\n\n%s\n\n## Tools\n",
		summary+" Use it before you answer or plan, and when a decision, a preference or a fact is worth keeping.", o.instructions)
	for _, tool := range o.tools {
		fmt.Fprintf(&b, "- `%s`: %s\n", tool.Name, tool.Description)
	}
	return []byte(b.String())
}

// pack adds the bundle with a program, and its package in the registry's entry.
func (o offered) pack(files map[string][]byte, version, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var bundle bytes.Buffer
	archive := zip.NewWriter(&bundle)
	for _, file := range []struct {
		name string
		text []byte
		mode os.FileMode
	}{{"manifest.json", files["mcpb/manifest.json"], 0o644}, {"server/" + name, text, 0o755}} {
		header := &zip.FileHeader{Name: file.name, Method: zip.Deflate}
		header.SetMode(file.mode)
		to, err := archive.CreateHeader(header)
		if err == nil {
			_, err = to.Write(file.text)
		}
		if err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	files[name+".mcpb"] = bundle.Bytes()
	entry := listing(version)
	entry["packages"] = []object{{
		"registryType": "mcpb", "identifier": fmt.Sprintf("%s/releases/download/v%s/%s.mcpb", repository, version, name),
		"fileSha256": fmt.Sprintf("%x", sha256.Sum256(bundle.Bytes())), "transport": object{"type": "stdio"},
	}}
	files["registry/server.json"], err = json.MarshalIndent(entry, "", "  ")
	return err
}

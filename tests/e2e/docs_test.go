package e2e_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// names are those that telemetry's conventions and this project's own give to attributes and metrics.
var names = regexp.MustCompile(`^(triskele|gen_ai|mcp)\.[a-z_.]+$`)

// settings look like names of telemetry, and are not.
var settings = []string{"triskele.db", "triskele.namespace", "mcp.json"}

// TestTelemetryIsDocumented compares the names in the source of the programs with those in docs/telemetry.md.
func TestTelemetryIsDocumented(t *testing.T) {
	t.Parallel()
	used := map[string]string{}
	for _, module := range []string{"fuser", "services"} {
		err := filepath.WalkDir(filepath.Join("..", "..", module), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(node ast.Node) bool {
				literal, ok := node.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				if text, err := strconv.Unquote(literal.Value); err == nil && names.MatchString(text) && !slices.Contains(settings, text) {
					used[text] = file
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "telemetry.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`[^`\n]+`").FindAllString(string(text), -1) {
		if name := strings.Trim(quoted, "`"); names.MatchString(name) {
			documented[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !documented[name] {
			t.Errorf("%s, of %s, is not in docs/telemetry.md", name, used[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if used[name] == "" {
			t.Errorf("docs/telemetry.md has %s, which no program uses", name)
		}
	}
	if len(used) < 50 {
		t.Errorf("only %d names were found", len(used))
	}
}

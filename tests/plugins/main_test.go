package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

// written returns the files below a folder.
func written(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The plugins in the repository are what the programs offer today.
func TestPluginsAreGenerated(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := run(out, "0.1.0", ""); err != nil {
		t.Fatal(err)
	}
	got, want := written(t, filepath.Join("..", "..", "deploy", "plugins")), written(t, out)
	for path, text := range want {
		if got[path] != text {
			t.Errorf("deploy/plugins/%s is not what make generate writes", path)
		}
		delete(got, path)
	}
	for path := range got {
		t.Errorf("deploy/plugins/%s is no longer generated", path)
	}
}

// check holds files against testdata/schemas.json, which has the documented fields of each format. A field that is not among them is a mistake.
func check(t *testing.T, files map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "schemas.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schemas map[string]*jsonschema.Schema
	if err := json.Unmarshal(text, &schemas); err != nil {
		t.Fatal(err)
	}
	for path, schema := range schemas {
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatalf("the schema of %s: %v", path, err)
		}
		var value any
		if err := json.Unmarshal([]byte(files[path]), &value); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if err := resolved.Validate(value); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path := range files {
		if strings.HasSuffix(path, ".json") && schemas[path] == nil {
			t.Errorf("%s has no schema", path)
		}
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	files := written(t, filepath.Join("..", "..", "deploy", "plugins"))
	check(t, files)
	skills := 0
	for path, text := range files {
		if filepath.Base(path) != "SKILL.md" {
			continue
		}
		skills++
		_, rest, _ := strings.Cut(text, "---\n")
		front, body, closed := strings.Cut(rest, "---\n")
		var matter struct{ Name, Description string }
		decoder := yaml.NewDecoder(strings.NewReader(front))
		decoder.KnownFields(true)
		if err := decoder.Decode(&matter); err != nil || !closed {
			t.Errorf("%s: %v", path, err)
		}
		if matter.Name != filepath.Base(filepath.Dir(path)) || !regexp.MustCompile(`^[a-z0-9-]{1,64}$`).MatchString(matter.Name) ||
			matter.Description == "" || len(matter.Description) > 1024 || strings.ContainsAny(matter.Description, "<>") {
			t.Errorf("%s: got %+v, want the folder's name and a description of at most 1024 bytes", path, matter)
		}
		for _, tool := range []string{"recall", "list", "remember", "supersede", "update", "forget"} {
			if !strings.Contains(body, "- `"+tool+"`: ") {
				t.Errorf("%s lacks the tool %s", path, tool)
			}
		}
	}
	if skills != 2 {
		t.Errorf("got %d skills, want 2", skills)
	}
}

// A bundle has its manifest and the program, and the registry's entry its hash.
func TestBundle(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	program := filepath.Join(out, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run(out, "1.2.3", program); err != nil {
		t.Fatal(err)
	}
	files := written(t, out)
	check(t, files)
	bundle := files["triskele.mcpb"]
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(bundle))); !strings.Contains(files["registry/server.json"], want) || !strings.Contains(files["registry/server.json"], "/v1.2.3/") {
		t.Errorf("got %s, want the hash %s of version 1.2.3", files["registry/server.json"], want)
	}
	archive, err := zip.NewReader(bytes.NewReader([]byte(bundle)), int64(len(bundle)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"manifest.json": files["mcpb/manifest.json"], "server/triskele": "#!/bin/sh\n"} {
		file, err := archive.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(file)
		if err != nil || string(text) != want {
			t.Errorf("%s: got %s, %v; want %s", name, text, err, want)
		}
		if info, _ := file.Stat(); name == "server/triskele" && info.Mode().Perm() != 0o755 {
			t.Errorf("got mode %v, want a program", info.Mode())
		}
	}
}

package capture

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// IgnoreFile is the name of a file that keeps a project, or parts of it, from being captured.
const IgnoreFile = ".triskeleignore"

// Ignore has the patterns of a project's .triskeleignore.
type Ignore struct {
	everything bool
	folder     string // the file's
	patterns   []string
}

// ReadIgnore reads the .triskeleignore of a folder, or of the next folder above that has one. An empty file and the pattern * stand
// for the whole project. Other lines are patterns of paths below the file's folder, as in .gitignore but without negation.
func ReadIgnore(folder string) (*Ignore, error) {
	if !filepath.IsAbs(folder) {
		return &Ignore{}, nil
	}
	for at := folder; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, IgnoreFile))
		switch {
		case err == nil:
			return parseIgnore(at, string(text)), nil
		case !absent(err):
			return nil, err
		case at == filepath.Dir(at):
			return &Ignore{}, nil
		}
	}
}

func parseIgnore(folder, text string) *Ignore {
	i := &Ignore{folder: folder}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern := strings.Trim(line, "/")
		if !strings.Contains(strings.TrimSuffix(line, "/"), "/") {
			pattern = "**/" + pattern // a name, in any folder
		}
		i.patterns = append(i.patterns, pattern, pattern+"/**")
		i.everything = i.everything || line == "*" || line == "**"
	}
	i.everything = i.everything || len(i.patterns) == 0
	return i
}

// Matches reports whether a text names a file that is ignored.
func (i *Ignore) Matches(text string) bool {
	if i.everything {
		return true
	}
	if len(i.patterns) == 0 {
		return false
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`()<>[]{},;|=", r) }) {
		name := strings.TrimRight(word, ".:!?")
		if rest, inside := strings.CutPrefix(name, i.folder+"/"); inside {
			name = rest
		}
		name = strings.TrimPrefix(path.Clean(filepath.ToSlash(strings.TrimPrefix(name, "@"))), "/")
		for _, pattern := range i.patterns {
			if ok, _ := doublestar.Match(pattern, name); ok {
				return true
			}
		}
	}
	return false
}

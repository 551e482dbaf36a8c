package capture

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// IgnoreFile is the name of a file that keeps a project, or parts of it, from being captured.
const IgnoreFile = ".triskeleignore"

// Ignore has the patterns of a project's .triskeleignore.
type Ignore struct {
	everything bool
	folder     string // the file's
	below      string // the path of the session's folder from there
	patterns   []string
	spaces     int // of the pattern that has most
}

// ReadIgnore reads the .triskeleignore of a folder, or of the next folder above that has one. A worktree has that of its repository if it
// has none of its own. An empty file and the pattern * stand for the whole project. Other lines are patterns of paths below the file's
// folder, as in .gitignore but without negation.
func ReadIgnore(folder string) (*Ignore, error) {
	if !filepath.IsAbs(folder) {
		return &Ignore{}, nil
	}
	for at := folder; ; at = filepath.Dir(at) {
		file := filepath.Join(at, IgnoreFile)
		if root := ProjectOf(at); exists(filepath.Join(at, ".git")) && !exists(file) && !strings.HasPrefix(at, root+string(filepath.Separator)) {
			file = filepath.Join(root, IgnoreFile) // a worktree lacks what is in no commit
		}
		text, err := os.ReadFile(file)
		switch {
		case err == nil:
			i := parseIgnore(at, string(text))
			i.below, err = filepath.Rel(at, folder)
			return i, err
		case exists(file): // what it lists is unknown
			return &Ignore{everything: true}, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return nil, err
		case at == filepath.Dir(at):
			return &Ignore{}, nil
		}
	}
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

func parseIgnore(folder, text string) *Ignore {
	i := &Ignore{folder: folder, everything: strings.Contains(text, "\x00")} // UTF-16 is not read
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern := strings.Trim(line, "/")
		if !strings.Contains(strings.TrimSuffix(line, "/"), "/") {
			pattern = "**/" + pattern // a name, in any folder
		}
		i.patterns = append(i.patterns, pattern, pattern+"/**")
		i.spaces = max(i.spaces, strings.Count(pattern, " "))
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
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("\t\r\n\"'`()<>[]{},;|=*", r) }) {
		words := strings.Fields(part)
		for first := range words {
			for last := first; last < min(len(words), first+i.spaces+1); last++ {
				if i.matches(strings.Join(words[first:last+1], " ")) {
					return true
				}
			}
		}
	}
	return false
}

// matches reports whether a name is that of a file that is ignored.
func (i *Ignore) matches(name string) bool {
	name = strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(name, "@"), "file://"), `\`, "/")
	name = strings.TrimRight(place.ReplaceAllString(name, ""), ".:!?")
	if rest, inside := strings.CutPrefix(name, filepath.ToSlash(i.folder)+"/"); inside {
		name = rest
	}
	for _, name := range []string{name, path.Join(filepath.ToSlash(i.below), name)} {
		name = strings.TrimPrefix(path.Clean(name), "/")
		if slices.ContainsFunc(i.patterns, func(pattern string) bool { ok, _ := doublestar.Match(pattern, name); return ok }) {
			return true
		}
	}
	return false
}

// place matches the line that a file's name can be followed by.
var place = regexp.MustCompile(`(:\d+(:\d+)?|#L?\d+(-L?\d+)?)[.:!?]*$`)

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
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
)

// IgnoreFile is the name of a file that keeps a project, or parts of it, from being captured.
const IgnoreFile = ".triskeleignore"

// Ignore has the patterns of a project's files of this name.
type Ignore struct {
	everything bool
	files      []ignoreFile
}

// ignoreFile is one of them. Paths are from its folder.
type ignoreFile struct {
	patterns []string
	spaces   int               // of the pattern that has most
	below    string            // the session's folder
	folders  map[string]string // paths by folder, of the file's own one and of the worktree
}

// ReadIgnore reads the .triskeleignore of a folder, or of the next folder above that has one. A worktree without one of its own has that of
// its repository, or above it, too. Links count by both names. An empty file and the pattern * stand for the whole project. Other lines are
// patterns of paths below the file's folder, as in .gitignore but without negation.
func ReadIgnore(folder string) (*Ignore, error) {
	i := &Ignore{}
	if !filepath.IsAbs(folder) {
		return i, nil
	}
	folders := []string{filepath.Clean(folder)}
	if real, err := filepath.EvalSymlinks(folder); err == nil { // else it is gone
		folders = append(folders, real)
	}
	for _, folder := range slices.Compact(folders) {
		if err := i.climb(folder, folder, ""); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// climb adds the next file from one folder on upwards, for a session in a folder. A worktree is that of the repository where it begins.
func (i *Ignore) climb(from, folder, worktree string) error {
	for at := from; ; at = filepath.Dir(at) {
		file := filepath.Join(at, IgnoreFile)
		text, err := os.ReadFile(file)
		switch {
		case err == nil:
			below := func(folder string) string { return strings.TrimPrefix(folder[len(at):], string(filepath.Separator)) }
			folders := map[string]string{at: ""}
			if worktree != "" {
				folders[worktree] = below(from)
			}
			i.add(string(text), ignoreFile{below: below(folder), folders: folders})
			return nil
		case exists(file): // what it lists is unknown
			i.everything = true
			return nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return err
		}
		if root := ProjectOf(at); worktree == "" && root != at && exists(filepath.Join(at, ".git")) { // it lacks what is in no commit
			if err := i.climb(root, filepath.Join(root, folder[len(at):]), at); err != nil {
				return err
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// add adds a file with a text.
func (i *Ignore) add(text string, f ignoreFile) {
	i.everything = i.everything || strings.Contains(text, "\x00") // UTF-16 is not read
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern := strings.Trim(line, "/")
		if !strings.Contains(strings.TrimSuffix(line, "/"), "/") {
			pattern = "**/" + pattern // a name, in any folder
		}
		f.patterns = append(f.patterns, pattern, pattern+"/**")
		f.spaces = max(f.spaces, strings.Count(pattern, " "))
		i.everything = i.everything || line == "*" || line == "**"
	}
	i.everything = i.everything || len(f.patterns) == 0
	i.files = append(i.files, f)
}

// Matches reports whether a text names a file that is ignored.
func (i *Ignore) Matches(text string) bool {
	return i.everything || slices.ContainsFunc(i.files, func(f ignoreFile) bool { return f.named(text) })
}

// named reports whether a text names a file that matches. Names can hold the signs that they touch elsewhere: the text is cut at few and at
// many of them, and a match in any of the pieces counts.
func (f ignoreFile) named(text string) bool {
	seen := map[string]bool{}
	for _, signs := range []string{"", "()", "[]", "()[]{},=", "()[]{},=:"} {
		for _, beyond := range []func(rune) bool{never, isSign, isSignOrWide} {
			cut := func(r rune) bool { return strings.ContainsRune("\t\r\n\"'`<>;|*"+signs, r) || beyond(r) }
			for part := range strings.FieldsFuncSeq(text, cut) {
				words := strings.Fields(part)
				for first := range words {
					for last := first; last < min(len(words), first+f.spaces+1); last++ {
						name := strings.Join(words[first:last+1], " ")
						if !seen[name] && f.matches(name) {
							return true
						}
						seen[name] = true
					}
				}
			}
		}
	}
	return false
}

func never(rune) bool { return false }

// isSign reports whether a character is no letter and no digit, as typographic quotes are.
func isSign(r rune) bool {
	return r > unicode.MaxASCII && !unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// isSignOrWide also counts Han, Kana, Hangul and what follows them. Their words touch names.
func isSignOrWide(r rune) bool { return isSign(r) || r >= '\u2e80' }

// matches reports whether a name, without the signs and the place in the file that can be around it, is that of a file that matches.
func (f ignoreFile) matches(name string) bool {
	name = strings.ReplaceAll(beginning.ReplaceAllString(name, ""), `\`, "/")
	bare := strings.TrimLeft(name, "([{")
	var names []string
	for _, name := range []string{name, bare, place.ReplaceAllString(name, ""), place.ReplaceAllString(bare, ""), section.ReplaceAllString(bare, "")} {
		names = append(names, strings.TrimRight(name, marks), strings.TrimRight(name, marks+")]}"))
	}
	slices.Sort(names)
	return slices.ContainsFunc(slices.Compact(names), f.lists)
}

const marks = ".:!?,="

var (
	beginning = regexp.MustCompile(`^@?(file:(//)?)?`)
	// place matches the lines or the section that a file's name can be followed by.
	place = regexp.MustCompile(`(:L?\d[-:L\d]*[^\pL\d]*|[#?].*)$`)
	// section matches the last one: folders have names such as C#.
	section = regexp.MustCompile(`[#?][^#?]*$`)
)

// lists reports whether a path is that of a file that matches.
func (f ignoreFile) lists(name string) bool {
	var names []string
	for folder, at := range f.folders {
		if rest, inside := strings.CutPrefix(name, filepath.ToSlash(folder)+"/"); inside {
			names = append(names, path.Join(filepath.ToSlash(at), rest))
		}
	}
	if names == nil {
		names = []string{name, path.Join(filepath.ToSlash(f.below), name)}
	}
	for _, name := range names {
		name = strings.TrimPrefix(path.Clean(name), "/")
		if slices.ContainsFunc(f.patterns, func(pattern string) bool { ok, _ := doublestar.Match(pattern, name); return ok }) {
			return true
		}
	}
	return false
}

package importer

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"
)

// noteIndex finds the target of a link, ignoring case. All keys are in lower case.
type noteIndex struct {
	byPath  map[string]string   // by the whole path
	byName  map[string][]string // by the file's name without its extension; the nearest to the root first
	byAlias map[string]string
}

func newNoteIndex(notes []string) noteIndex {
	index := noteIndex{map[string]string{}, map[string][]string{}, map[string]string{}}
	sorted := slices.Clone(notes)
	slices.SortFunc(sorted, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	for _, note := range sorted {
		lower := strings.ToLower(note)
		if _, taken := index.byPath[lower]; !taken {
			index.byPath[lower] = note
		}
		name := strings.TrimSuffix(path.Base(lower), path.Ext(lower))
		index.byName[name] = append(index.byName[name], note)
	}
	return index
}

// alias adds names for a note. The first note with a name keeps it.
func (x noteIndex) alias(note string, names []string) {
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, taken := x.byAlias[name]; name != "" && !taken {
			x.byAlias[name] = note
		}
	}
}

// resolve returns the note that a link in the note from leads to.
func (x noteIndex) resolve(from string, l noteLink) (note string, found bool) {
	target := l.path()
	if target == "" {
		return "", false
	}
	// A path is relative to the note, or to the root if it begins with a slash. A wikilink's path may be relative to either.
	bases := []string{path.Dir(from)}
	switch {
	case strings.HasPrefix(target, "/"):
		bases[0] = "."
	case l.wiki:
		bases = append(bases, ".")
	}
	for _, base := range bases {
		if note, found := x.at(path.Join(base, target)); found {
			return note, true
		}
	}
	if !l.wiki {
		return "", false
	}
	lower := strings.ToLower(target)
	name := path.Base(lower)
	if IsNote(name) {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	best := ""
	for _, note := range x.byName[name] {
		folder := path.Dir(strings.ToLower(note))
		switch wanted := path.Dir(lower); {
		case wanted != "." && folder != wanted && !strings.HasSuffix(folder, "/"+wanted):
		case best == "", path.Dir(note) == path.Dir(from):
			best = note
		}
	}
	best = cmp.Or(best, x.byAlias[lower])
	return best, best != ""
}

// at returns the note with a path, which may lack its extension.
func (x noteIndex) at(name string) (string, bool) {
	name = strings.ToLower(name)
	for _, extension := range []string{"", ".md", ".markdown"} {
		if note, found := x.byPath[name+extension]; found {
			return note, true
		}
	}
	return "", false
}

// path returns the path in a link, or "" for a URL.
func (l noteLink) path() string {
	if l.wiki {
		return l.target
	}
	u, err := url.Parse(l.target)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return ""
	}
	return u.Path
}

// local reports whether a link's target should be a note, even if that note does not exist.
func (l noteLink) local() bool { return l.wiki && !l.embed || !l.wiki && IsNote(l.path()) }

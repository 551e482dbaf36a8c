package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	// maxNote bounds a file and maxContent a memory, in bytes.
	maxNote    = 8 << 20
	maxContent = 64 << 10
	// maxParts is the largest number of memories from one note: each part but the last is at least a quarter full.
	maxParts    = 4 * maxNote / maxContent
	maxLinks    = 256
	maxTitle    = 512
	maxSource   = 512
	maxRelation = 64
	linksTo     = "links_to"
	continuesIn = "continues_in"
	noteIDs     = "https://github.com/triskele/triskele/importer/note/"
)

// Markdown reads a folder of notes. A memory's id follows from the namespace and the note's path, so that a later import
// updates it. The folder is authoritative: the next import overwrites changes to an imported memory. A note that is too long
// for one memory becomes several, cut at headings.
type Markdown struct {
	Folder    fs.FS
	Namespace string
	notes     []string // paths
	index     noteIndex
}

var _ Source = (*Markdown)(nil)

// OpenMarkdown finds the notes of a folder, and indexes the names that links may use for them.
func OpenMarkdown(folder fs.FS, namespace string) (*Markdown, error) {
	s := &Markdown{Folder: folder, Namespace: namespace}
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(path.Base(name), "."): // hidden folders belong to editors and tools
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.IsDir() && isNote(name):
			s.notes = append(s.notes, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.index = newNoteIndex(s.notes)
	for _, name := range s.notes {
		if matter, _, _, err := s.open(name); err == nil { // Items reports the errors
			s.index.alias(name, append(matter.texts("aliases", "alias"), matter.text("title")))
		}
	}
	return s, nil
}

func isNote(name string) bool {
	extension := strings.ToLower(path.Ext(name))
	return extension == ".md" || extension == ".markdown"
}

// Total implements Source, in notes.
func (s *Markdown) Total() int64 { return int64(len(s.notes)) }

// Items implements Source.
func (s *Markdown) Items(context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for i, name := range s.notes {
			items, err := s.items(name)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range items {
				item.Done = int64(i + 1)
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// open reads a note and separates its front matter from its text. The error does not quote the note.
func (s *Markdown) open(name string) (matter frontMatter, text string, changed time.Time, err error) {
	info, err := fs.Stat(s.Folder, name) // follows links, though an os.Root refuses links that lead out of it
	switch {
	case err != nil:
		return nil, "", changed, &noteError{reason: "note cannot be read", detail: reason(err)}
	case !info.Mode().IsRegular():
		return nil, "", changed, &noteError{reason: "note cannot be read", detail: "it is not a file"}
	case info.Size() > maxNote:
		return nil, "", changed, &noteError{reason: "note too long", detail: fmt.Sprintf("a note has at most %d bytes", maxNote)}
	}
	raw, err := fs.ReadFile(s.Folder, name)
	if err != nil {
		return nil, "", changed, &noteError{reason: "note cannot be read", detail: reason(err)}
	}
	matter, text, err = parseFrontMatter(raw)
	return matter, text, info.ModTime(), err
}

// reason returns the cause of a file's error, without the operation and the path.
func reason(err error) string {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err.Error()
	}
	return err.Error()
}

// noteError says why a note, or its front matter, cannot be imported.
type noteError struct {
	reason, detail string
	text           string // of the note without its front matter; "" if the note cannot be imported
}

func (e *noteError) Error() string { return e.detail }

func (s *Markdown) items(name string) ([]Item, error) {
	matter, text, changed, err := s.open(name)
	wrong := (*noteError)(nil)
	switch {
	case errors.As(err, &wrong) && wrong.text != "": // front matter may say that the note is sensitive
		matter, text = frontMatter{"sensitive": true}, wrong.text
	case wrong != nil:
		return []Item{skip(name, wrong.reason, wrong.detail)}, nil
	case err != nil:
		return nil, err
	}
	body := parseBody(text)
	base := Item{Position: name, Replaces: true, Memory: &triskelev1.Memory{
		Namespace: s.Namespace, Source: clip(name, maxSource),
		Title:     cmp.Or(body.heading, strings.TrimSuffix(path.Base(name), path.Ext(name))),
		CreatedAt: timestamppb.New(changed), UpdatedAt: timestamppb.New(changed),
	}}
	if wrong != nil {
		base.note(wrong.reason, wrong.detail+": it is left out, and the note is imported as sensitive, to be found by its words only")
	}
	links := append(matter.apply(&base), body.links...)
	parts := split(text, body.cuts, maxContent)
	items := make([]Item, len(parts))
	for i, p := range parts {
		if items[i], err = s.part(base, name, text, parts, i); err != nil {
			return nil, err
		}
		s.link(&items[i], name, slices.DeleteFunc(slices.Clone(links), func(l noteLink) bool { return !p.holds(l) }))
		if i+1 < len(parts) {
			items[i].Memory.Links = append(items[i].Memory.Links, &triskelev1.Link{Target: s.id(name, i+2), Relation: continuesIn})
		}
		if err := items[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	items[0].Leftovers = func() []string {
		var ids []string
		for i := len(parts); i < maxParts; i++ {
			ids = append(ids, s.id(name, i+1))
		}
		return ids
	}
	return items, nil
}

// part returns the item for one part of a note. The first part has the notes on the whole note.
func (s *Markdown) part(base Item, name, text string, parts []section, i int) (Item, error) {
	item := base
	m, ok := proto.Clone(base.Memory).(*triskelev1.Memory)
	if !ok {
		return Item{}, fmt.Errorf("%s: no memory", name)
	}
	item.Memory = m
	m.Id, m.Content = s.id(name, i+1), text[parts[i].start:parts[i].end]
	if m.GetContent() == "" {
		m.Content = m.GetTitle() // an empty note is a name to link to
	}
	if len(parts) > 1 {
		position := int64(i + 1)
		m.Thread, m.Position = clip(name, maxSource), &position
		suffix := fmt.Sprintf(" (%d/%d)", i+1, len(parts))
		m.Title = clip(m.GetTitle(), maxTitle-len(suffix)) + suffix
		item.Position += suffix
		if m.Metadata == nil {
			m.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		m.Metadata.Fields["part"] = structpb.NewNumberValue(float64(i + 1))
		m.Metadata.Fields["parts"] = structpb.NewNumberValue(float64(len(parts)))
	}
	if i > 0 {
		item.Notes = nil
	}
	return item, nil
}

// link adds the links of a part to its memory, each once.
func (s *Markdown) link(item *Item, name string, links []noteLink) {
	type edge struct{ target, relation string }
	seen := map[edge]bool{}
	for _, l := range links {
		target, found := s.index.resolve(name, l)
		switch {
		case !found && l.local():
			item.note("link leads nowhere", "there is no note "+l.target)
		case !found || target == name:
		default:
			e := edge{s.id(target, 1), clip(l.relation, maxRelation)}
			if seen[e] {
				continue
			}
			if seen[e] = true; len(seen) >= maxLinks { // one link is left for the next part
				item.note("too many links", fmt.Sprintf("a memory has at most %d links", maxLinks))
				return
			}
			item.Memory.Links = append(item.Memory.Links, &triskelev1.Link{Target: e.target, Relation: e.relation})
		}
	}
}

// id returns the id of the memory for a part of a note, counted from 1.
func (s *Markdown) id(name string, part int) string {
	text := s.Namespace + "\x00" + name
	if part > 1 {
		text += fmt.Sprintf("\x00%d", part)
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(noteIDs+text)).String()
}

// clip shortens a text to at most so many bytes, without breaking a character.
func clip(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "")
}

package importer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/record"
)

const (
	maxNote     = 8 << 20 // bytes of a file
	maxLinks    = 256
	maxTitle    = 512
	maxSource   = 512
	maxCategory = 64
	maxRelation = 64
	linksTo     = "links_to"
	noteIDs     = "https://github.com/triskele/triskele/importer/note/"
)

// NoteFolder is the key of the metadata that names the folder of a note.
const NoteFolder = "note_folder"

// Markdown reads a folder of notes. Each note is a thread, named by its path, and each passage of it is a memory. The folder is
// authoritative: an import overwrites changes to imported memories, and forgets passages and notes that are gone.
//
// The id of a note's first passage follows from the note's path, and that of another one also from its text. So a passage that has not
// changed keeps its id, wherever it moves in its note. Each namespace has ids of its own.
type Markdown struct {
	io.Closer // of the folder
	folder    fs.FS
	name      string
	namespace string
	notes     []string // paths
	unread    []Item   // folders that cannot be read
	index     noteIndex
	imported  map[string]storedNote // what earlier imports have stored, by thread
	others    map[string]string     // folders that have the note whose memory a note would replace, by the note's path
	sensitive map[string]bool       // texts
}

type storedNote struct {
	passages  map[string]storedPassage // by id
	sensitive []string                 // texts
}

// storedPassage is what an import has to know of a passage to leave it alone.
type storedPassage struct {
	position int64
	contents [sha256.Size]byte // as hashOf has them
}

// OpenFolder opens a folder of notes. Links that lead out of it are not followed. Close it when done.
func OpenFolder(folder, namespace string) (*Markdown, error) {
	name, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	source, err := OpenMarkdown(root.FS(), name, namespace)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	source.Closer = root
	return source, nil
}

// OpenMarkdown finds the notes of a folder, and indexes the names that links may use for them. An import forgets memories of the
// folder's name that the folder no longer has.
func OpenMarkdown(folder fs.FS, name, namespace string) (*Markdown, error) {
	s := &Markdown{folder: folder, name: name, namespace: namespace, Closer: io.NopCloser(nil)}
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			s.unread = append(s.unread, skip(name, "folder cannot be read", reason(err)))
			return fs.SkipDir
		case name != "." && strings.HasPrefix(path.Base(name), "."): // hidden folders belong to editors and tools
			if entry.IsDir() {
				return fs.SkipDir
			}
		case !entry.IsDir() && IsNote(name):
			s.notes = append(s.notes, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.index = newNoteIndex(s.notes)
	for _, name := range s.notes {
		if matter, _, _, wrong := s.open(name); wrong == nil { // Read reports what is wrong
			s.index.alias(name, append(matter.texts("aliases", "alias"), matter.text("title"), matter.text("permalink")))
		}
	}
	return s, nil
}

// compare reads what earlier imports have stored. Read forgets the part of it that the folder no longer has.
func (s *Markdown) compare(ctx context.Context, memories triskelev1.MemoryServiceClient) error {
	s.imported, s.sensitive = map[string]storedNote{}, map[string]bool{}
	gateway := client.Client{Memories: memories}
	for m, err := range gateway.List(ctx, &triskelev1.ListRequest{
		Namespace: s.namespace, PageSize: new(int32(pageSize)),
		Filter: &triskelev1.Filter{Metadata: map[string]*structpb.Value{NoteFolder: structpb.NewStringValue(s.name)}, IncludeSuperseded: true},
	}) {
		if err != nil {
			return err
		}
		note, known := s.imported[m.GetThread()]
		if !known {
			note.passages = map[string]storedPassage{}
		}
		contents, err := hashOf(m)
		if err != nil {
			return err
		}
		note.passages[m.GetId()] = storedPassage{m.GetPosition(), contents}
		if m.GetSensitive() {
			note.sensitive, s.sensitive[m.GetContent()] = append(note.sensitive, m.GetContent()), true
		}
		s.imported[m.GetThread()] = note
	}
	return s.compareFolders(ctx, gateway)
}

// compareFolders finds notes that another folder has under the same path, and so with the same id. A folder that moved is no other one:
// the notes are no longer where they were.
func (s *Markdown) compareFolders(ctx context.Context, gateway client.Client) error {
	s.others = map[string]string{}
	fresh := map[string]string{} // notes by the id of their first passage
	for _, name := range s.notes {
		if _, known := s.imported[threadOf(name)]; !known {
			fresh[s.id(name)] = name
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(fresh)), pageSize) {
		resp, err := gateway.Memories.Get(ctx, &triskelev1.GetRequest{Namespace: s.namespace, Ids: ids})
		if err != nil {
			return err
		}
		for _, m := range resp.GetMemories() {
			name, other := fresh[m.GetId()], m.GetMetadata().GetFields()[NoteFolder].GetStringValue()
			theirs, missing := os.Stat(filepath.Join(other, name))
			own, err := fs.Stat(s.folder, name)
			if other != "" && missing == nil && err == nil && !os.SameFile(theirs, own) {
				s.others[name] = other
			}
		}
	}
	return nil
}

// IsNote reports whether a file is a note, by its name.
func IsNote(name string) bool {
	extension := strings.ToLower(path.Ext(name))
	return extension == ".md" || extension == ".markdown"
}

// Total implements Source, in notes.
func (s *Markdown) Total() int64 { return int64(len(s.notes)) }

// Read implements Source. Notes come first, and then what is to be forgotten.
func (s *Markdown) Read(_ context.Context, take func(Item) error) error {
	gone := map[string]string{} // threads by id
	for thread, note := range s.imported {
		for id := range note.passages {
			gone[id] = thread
		}
	}
	for i, name := range s.notes {
		items, err := s.items(name)
		if err != nil {
			return err
		}
		for _, item := range items {
			item.Done = int64(i + 1)
			delete(gone, item.Memory.GetId())
			if item.Problem != nil { // what is stored of the note stays
				maps.DeleteFunc(gone, func(_, thread string) bool { return thread == threadOf(name) })
			}
			if err := take(item); err != nil {
				return err
			}
		}
	}
	for _, item := range s.unread {
		maps.DeleteFunc(gone, func(_, thread string) bool { return strings.HasPrefix(thread, threadOf(item.Position+"/")) })
		if err := take(item); err != nil {
			return err
		}
	}
	if len(s.notes) == 0 && len(gone) > 0 { // more likely a disk that is not there than a folder that was emptied
		return take(skip(".", "no notes", "the folder has no notes; what was imported from it stays"))
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(gone)), pageSize) {
		if err := take(Item{Done: s.Total(), Forget: &triskelev1.ForgetRequest{Namespace: s.namespace, Ids: ids}}); err != nil {
			return err
		}
	}
	return nil
}

// open reads a note and separates its front matter from its text. What is wrong does not quote the note.
func (s *Markdown) open(name string) (matter frontMatter, text string, changed time.Time, wrong *noteError) {
	info, err := fs.Stat(s.folder, name) // follows links, though an os.Root refuses links that lead out of it
	switch {
	case err != nil:
		return nil, "", changed, &noteError{reason: "note cannot be read", detail: reason(err)}
	case !info.Mode().IsRegular():
		return nil, "", changed, &noteError{reason: "note cannot be read", detail: "it is not a file"}
	case info.Size() > maxNote:
		return nil, "", changed, &noteError{reason: "note too long", detail: fmt.Sprintf("a note has at most %d bytes", maxNote)}
	}
	raw, err := fs.ReadFile(s.folder, name)
	if err != nil {
		return nil, "", changed, &noteError{reason: "note cannot be read", detail: reason(err)}
	}
	matter, text, wrong = parseFrontMatter(raw)
	return matter, text, info.ModTime(), wrong
}

// reason returns the cause of a file's error, without the operation and the path.
func reason(err error) string {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err.Error()
	}
	return err.Error()
}

// noteError says why a note, or its front matter, cannot be imported.
type noteError struct {
	reason, detail string
	text           string // of the note without its front matter; "" if the note cannot be imported
}

func (s *Markdown) items(name string) ([]Item, error) {
	matter, text, changed, wrong := s.open(name)
	other, taken := s.others[name]
	switch {
	case taken:
		return []Item{skip(name, "note of another folder", other+" has a note of this path in the namespace: give each folder a namespace of its own")}, nil
	case wrong != nil && wrong.text == "":
		return []Item{skip(name, wrong.reason, wrong.detail)}, nil
	case wrong != nil: // front matter may say that the note is sensitive
		matter, text = frontMatter{"sensitive": true}, wrong.text
	}
	body := parseBody(text)
	base := Item{Position: name, Replaces: true, Memory: &triskelev1.Memory{
		Namespace: s.namespace, Source: clip.Text(name, maxSource), Thread: threadOf(name),
		Title:     cmp.Or(body.heading, strings.TrimSuffix(path.Base(name), path.Ext(name))),
		CreatedAt: timestamppb.New(changed), UpdatedAt: timestamppb.New(changed), OccurredAt: dateInName(name),
	}}
	if wrong != nil {
		base.note(wrong.reason, wrong.detail+": it is left out, and the note is imported as sensitive, to be found by its words only")
	}
	links := append(matter.apply(&base), body.links...)
	if base.Memory.GetMetadata() == nil {
		base.Memory.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	base.Memory.Metadata.Fields[NoteFolder] = structpb.NewStringValue(s.name)
	if _, err := record.FromProto(&triskelev1.Memory{Metadata: base.Memory.GetMetadata()}); err != nil {
		base.note("metadata left out", err.Error())
		base.Memory.Metadata.Fields = map[string]*structpb.Value{NoteFolder: base.Memory.GetMetadata().GetFields()[NoteFolder]}
	}
	passages := cut(text, body.blocks)
	items := make([]Item, len(passages))
	seen := map[string]int{}
	for i, p := range passages {
		item := s.passage(base, name, strings.TrimSpace(text[p.from:p.end]), p.path, seen)
		if i > 0 {
			item.Position = fmt.Sprintf("%s (passage %d)", name, i+1)
			item.Notes = nil
		}
		var tags []string
		for _, tag := range body.tags {
			if p.holds(tag.at) {
				tags = append(tags, tag.name)
			}
		}
		item.Memory.Tags = item.list("tags", append(item.Memory.GetTags(), tags...), maxTags)
		s.link(&item, name, slices.DeleteFunc(slices.Clone(links), func(l noteLink) bool { return !p.holds(l.at) }))
		items[i] = item
	}
	s.place(items, threadOf(name))
	s.keepSensitive(items, threadOf(name))
	for i := range items {
		contents, err := hashOf(items[i].Memory)
		if err != nil {
			return nil, err
		}
		if s.imported[threadOf(name)].passages[items[i].Memory.GetId()].contents == contents {
			items[i].Unchanged = true
			continue
		}
		if err := items[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return items, nil
}

// hashOf hashes what an import would replace in a memory. Equal hashes mean equal contents. The reverse is not so: the store may write a
// time or a number in another way.
func hashOf(m *triskelev1.Memory) ([sha256.Size]byte, error) {
	contents := proto.CloneOf(m)
	contents.CreatedAt, contents.UpdatedAt, contents.Revision, contents.Supersedes, contents.SupersededBy = nil, nil, 0, "", ""
	if contents.Importance == nil {
		contents.Importance = new(record.DefaultImportance)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(contents)
	return sha256.Sum256(text), err
}

// passage returns the item for a passage of a note below such headings. seen counts the
// passages with the same text.
func (s *Markdown) passage(base Item, name, text string, headings []string, seen map[string]int) Item {
	item, m := base, proto.CloneOf(base.Memory)
	item.Memory = m
	if len(headings) > 0 && headings[0] == m.GetTitle() {
		headings = headings[1:]
	}
	m.Title = clip.Text(strings.Join(append([]string{m.GetTitle()}, headings...), " > "), maxTitle)
	m.Content = cmp.Or(text, m.GetTitle()) // an empty note is a name to link to
	m.Id = s.id(name)
	if len(seen) > 0 {
		m.Id = s.id(name, text, strconv.Itoa(seen[text]))
	}
	seen[text]++
	return item
}

// step is the distance between the positions of passages, so that others find a place between them.
const step = 1 << 10

// place sets the positions of a note's passages. Those that are stored keep theirs, as long as they are in order.
func (s *Markdown) place(items []Item, thread string) {
	stored, last := s.imported[thread].passages, int64(0)
	for i := 0; i < len(items); {
		end := i // of those that need a place
		for end < len(items) && stored[items[end].Memory.GetId()].position <= last {
			end++
		}
		n := int64(end - i)
		gap := int64(step)
		if end < len(items) {
			gap = (stored[items[end].Memory.GetId()].position - last) / (n + 1)
		}
		if gap == 0 {
			stored, last, i = nil, 0, 0 // there is no room
			continue
		}
		for ; i < end; i++ {
			last += gap
			items[i].Memory.Position = new(last)
		}
		if end < len(items) {
			last = stored[items[end].Memory.GetId()].position
			items[end].Memory.Position = new(last)
			i++
		}
	}
}

// keepSensitive marks the passages of a note that are new as sensitive, if they have a text that is sensitive in the store, or if
// such a text of the note has changed. A text cannot be taken back from a model that has read it.
func (s *Markdown) keepSensitive(items []Item, thread string) {
	note := s.imported[thread]
	texts := slice.Set(slice.Map(items, func(item Item) string { return item.Memory.GetContent() }))
	changed := slices.ContainsFunc(note.sensitive, func(text string) bool { return !texts[text] })
	for i := range items {
		m := items[i].Memory
		_, known := note.passages[m.GetId()]
		if m.GetSensitive() || known || !changed && !s.sensitive[m.GetContent()] {
			continue
		}
		m.Sensitive = true
		items[i].note("stays sensitive", "the source says it is not; run triskele update --no-sensitive "+m.GetId()+" to change that")
	}
}

// link adds the links of a passage to its memory, each once.
func (s *Markdown) link(item *Item, name string, links []noteLink) {
	for _, l := range links {
		target, found := s.index.resolve(name, l)
		switch {
		case !found && l.local():
			item.note("link leads nowhere", "there is no note "+l.target)
		case !found || target == name:
		case !item.link(s.id(target), clip.Text(l.relation, maxRelation)):
			return
		}
	}
}

// id returns the id of a note's memory. The first passage is named by the note alone, and stands for it in links.
func (s *Markdown) id(name string, passage ...string) string {
	text := strings.Join(append([]string{name}, passage...), "\x00")
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(noteIDs+text)).String()
}

func threadOf(name string) string { return clip.Text(name, maxSource) }

var dateOfName = regexp.MustCompile(`(?:^|[^0-9])([0-9]{4})[-_.]([0-9]{2})[-_.]([0-9]{2})(?:[^0-9]|$)`)

func dateInName(name string) *timestamppb.Timestamp {
	match := dateOfName.FindStringSubmatch(path.Base(name))
	if match == nil {
		return nil
	}
	day, err := time.Parse(time.DateOnly, strings.Join(match[1:], "-"))
	if err != nil {
		return nil
	}
	return timestamppb.New(day)
}

package importer_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

var written = time.Date(2025, 5, 6, 7, 8, 9, 0, time.UTC)

// folder returns notes by path.
func folder(notes map[string]string) fstest.MapFS {
	f := fstest.MapFS{}
	for name, text := range notes {
		f[name] = &fstest.MapFile{Data: []byte(text), ModTime: written}
	}
	return f
}

func notes(t *testing.T, f fstest.MapFS) *importer.Markdown {
	t.Helper()
	source, err := importer.OpenMarkdown(f, "notes")
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// read returns the items of a source by position.
func read(t *testing.T, source importer.Source) map[string]importer.Item {
	t.Helper()
	items := map[string]importer.Item{}
	for item, err := range source.Items(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		items[item.Position] = item
	}
	return items
}

// links returns the positions that an item links to, with the relations.
func links(items map[string]importer.Item, of string) string {
	positions := map[string]string{}
	for position, item := range items {
		positions[item.Memory.GetId()] = position
	}
	var out []string
	for _, l := range items[of].Memory.GetLinks() {
		out = append(out, l.GetRelation()+" "+positions[l.GetTarget()])
	}
	return strings.Join(out, ", ")
}

// reasons lists what an item notes.
func reasons(item importer.Item) string {
	var out []string
	for _, p := range item.Notes {
		out = append(out, p.Reason+": "+p.Detail)
	}
	return strings.Join(out, ", ")
}

func TestFrontMatter(t *testing.T) {
	t.Parallel()
	items := read(t, notes(t, folder(map[string]string{
		"boats/Heron.md": "---\ntitle: The Heron\ntags: [boat, '#wood', tall ship]\naliases: [H-1, \"Old Heron\"]\ncreated: 2024-02-03\nupdated: 2024-02-04T05:06:07+02:00\n" +
			"date: 2023-01-01\nexpires: 2999-01-01 10:00\ncategory: fact\nimportance: 0.75\nsensitive: yes\nRelated-To: [[Teo]]\nowners: [\"[[Teo]]\", \"[[Nobody|x]]\"]\n" +
			"length: 12.5\nserial: 12345678901234567890\nbuilt: 1999-12-31\nempty:\nnested: {a: [1, two]}\n---\n\n# Ignored heading\r\n\nShe leaks.\n",
		"people/Teo.md":  "\ufeff# Teo *the* carpenter\n\nFixes boats.",
		"Empty.md":       "---\ntags: a, b\n---\n",
		"plain.markdown": "no front matter\n---\nhere",
		"secret.md":      "---\nprivate: perhaps\n---\nx",
		"broken.md":      "---\ntitle: [\n---\nx",
		"list.md":        "---\n- a\n---\nx",
		"open.md":        "---\nsensitive: true\nx",
		"toml.md":        "+++\nsensitive = true\n+++\nx",
		"twice.md":       "---\nsensitive: false\nSensitive: true\n---\nx",
		"folder.md/a.md": "in a folder whose name is that of a note",
		"latin.md":       "caf\xe9",
		"far.md":         "---\nimportance: 11\n---\nx",
		".trash/Old.md":  "gone",
		"picture.png":    "x",
	})))
	if got, want := fmt.Sprint(slices.Sorted(maps.Keys(items))), "[Empty.md boats/Heron.md broken.md far.md folder.md/a.md latin.md list.md open.md people/Teo.md plain.markdown secret.md toml.md twice.md]"; got != want {
		t.Fatalf("notes %s", got)
	}
	heron := items["boats/Heron.md"]
	r, err := record.FromProto(heron.Memory)
	if err != nil {
		t.Fatal(err)
	}
	day := func(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }
	if r.Title != "The Heron" || r.Content != "# Ignored heading\r\n\nShe leaks." || fmt.Sprint(r.Tags) != "[boat wood tall ship]" || fmt.Sprint(r.Keywords) != "[H-1 Old Heron]" ||
		!r.CreatedAt.Equal(day(2024, 2, 3)) || !r.UpdatedAt.Equal(time.Date(2024, 2, 4, 3, 6, 7, 0, time.UTC)) || !r.OccurredAt.Equal(day(2023, 1, 1)) ||
		!r.ExpiresAt.Equal(day(2999, 1, 1).Add(10*time.Hour)) || r.Category != "fact" || r.Importance != 0.75 || !r.Sensitive || r.Source != "boats/Heron.md" {
		t.Errorf("%+v", r)
	}
	if want := map[string]any{"length": 12.5, "serial": "12345678901234567890", "built": "1999-12-31", "empty": nil, "nested": map[string]any{"a": []any{1., "two"}}}; fmt.Sprint(r.Metadata) != fmt.Sprint(want) {
		t.Errorf("metadata %v", r.Metadata)
	}
	if got := links(items, "boats/Heron.md"); got != "owners people/Teo.md, related_to people/Teo.md" {
		t.Errorf("links %q", got)
	}
	if got := reasons(heron); got != "link leads nowhere: there is no note Nobody" {
		t.Errorf("notes %q", got)
	}
	for position, want := range map[string]string{"people/Teo.md": "Teo the carpenter", "Empty.md": "Empty", "plain.markdown": "plain"} {
		if got := items[position].Memory; got.GetTitle() != want || !got.GetCreatedAt().AsTime().Equal(written) {
			t.Errorf("%s: %v", position, got)
		}
	}
	if got := items["Empty.md"].Memory; got.GetContent() != "Empty" || fmt.Sprint(got.GetTags()) != "[a b]" {
		t.Errorf("empty note: %v", got)
	}
	if got := items["secret.md"]; !got.Memory.GetSensitive() || reasons(got) == "" {
		t.Errorf("what is not understood must be sensitive: %+v", got)
	}
	for position, want := range map[string]string{
		"broken.md": "front matter is not YAML: x", "list.md": "front matter is not YAML: x", "open.md": "front matter has no end: ---\nsensitive: true\nx",
		"toml.md": "front matter is not YAML: +++\nsensitive = true\n+++\nx", "twice.md": "front matter contradicts itself: x",
	} {
		got := items[position]
		if got.Problem != nil || !got.Memory.GetSensitive() || len(got.Notes) != 1 || got.Notes[0].Reason+": "+got.Memory.GetContent() != want || strings.Contains(got.Notes[0].Detail, "[") {
			t.Errorf("%s: got %+v, want a sensitive note with %q", position, got, want)
		}
	}
	for position, want := range map[string]string{"latin.md": "not UTF-8", "far.md": "invalid importance"} {
		if p := items[position].Problem; p == nil || p.Reason != want || strings.Contains(p.Detail, "[") {
			t.Errorf("%s: %+v", position, p)
		}
	}
}

func TestLinksBetweenNotes(t *testing.T) {
	t.Parallel()
	items := read(t, notes(t, folder(map[string]string{
		"a/Start.md": "[[Target]], [[target#Part|label]] and ![[Target]]; [rel](../b/Other%20Note.md#x), [no extension](Sibling), [web](https://x.org/Target.md),\n\n" +
			"`[[Code]]` [[Nick]] [[b/Target]] ![[picture.png]] [missing](gone.md) [[Missing]] [pdf](x.pdf) [[Start]] [[#here]]\n\n    [[Indented]]\n\n```\n[[Fenced]]\n```\n",
		"a/Target.md": "near", "b/Target.md": "far", "a/Sibling.md": "s", "b/Other Note.md": "o", "c/Named.md": "---\naliases: nick\n---\nn",
		"root.md": "[[Target]] [[x/Nothing]] [[a/target.md]]", "d/Deep.md": "[up](/a/Target.md) [[../a/Sibling]]",
	})))
	for position, want := range map[string]string{
		"a/Start.md": "links_to a/Target.md, links_to b/Other Note.md, links_to a/Sibling.md, links_to c/Named.md, links_to b/Target.md",
		"root.md":    "links_to a/Target.md",
		"d/Deep.md":  "links_to a/Target.md, links_to a/Sibling.md",
	} {
		if got := links(items, position); got != want {
			t.Errorf("%s: %q, want %q", position, got, want)
		}
	}
	if got := reasons(items["a/Start.md"]); got != "link leads nowhere: there is no note gone.md, link leads nowhere: there is no note Missing" {
		t.Errorf("notes %q", got)
	}
	if got := reasons(items["root.md"]); got != "link leads nowhere: there is no note x/Nothing" {
		t.Errorf("notes %q", got)
	}
}

func TestLongNotesAreSplit(t *testing.T) {
	t.Parallel()
	chapter := func(n int, link string) string {
		return fmt.Sprintf("## Chapter %d\n\n%s %s\n\n", n, strings.Repeat("word ", 6000), link)
	}
	text := "# Book\n\n" + chapter(1, "[[One]]") + chapter(2, "") + chapter(3, "[[Three]]") + chapter(4, "")
	items := read(t, notes(t, folder(map[string]string{"Book.md": "---\nby: Teo\nsee: [[One]]\n---\n" + text, "One.md": "1", "Three.md": "3"})))
	first, second := items["Book.md (1/2)"], items["Book.md (2/2)"]
	if len(items) != 4 || first.Memory.GetContent()+second.Memory.GetContent() != strings.TrimSpace(text) || !strings.HasPrefix(second.Memory.GetContent(), "## Chapter 3") {
		t.Fatalf("%d items", len(items))
	}
	if first.Memory.GetTitle() != "Book (1/2)" || first.Memory.GetMetadata().AsMap()["part"] != 1. || first.Memory.GetMetadata().AsMap()["by"] != "Teo" {
		t.Errorf("%s, %v", first.Memory.GetTitle(), first.Memory.GetMetadata())
	}
	if first.Memory.GetThread() != "Book.md" || second.Memory.GetThread() != "Book.md" || first.Memory.GetPosition() != 1 || second.Memory.GetPosition() != 2 {
		t.Errorf("got threads %q at %v and %q at %v", first.Memory.GetThread(), first.Memory.Position, second.Memory.GetThread(), second.Memory.Position)
	}
	if got := links(items, "Book.md (1/2)"); got != "see One.md, links_to One.md, continues_in Book.md (2/2)" {
		t.Errorf("links %q", got)
	}
	if got := links(items, "Book.md (2/2)"); got != "links_to Three.md" {
		t.Errorf("links %q", got)
	}
	items = read(t, notes(t, folder(map[string]string{"huge.md": strings.Repeat("x", 9<<20)})))
	if p := items["huge.md"].Problem; p == nil || p.Reason != "note too long" {
		t.Errorf("%+v", p)
	}
}

func TestChangedNotesAreUpdated(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := f.Client(t)
		long := strings.Repeat("## Part\n\n"+strings.Repeat("text ", 8000)+"\n\n", 5)
		before := map[string]string{"same.md": "unchanged", "new.md": "old text", "long.md": long}
		want(t, "first", runs(t, c, notes(t, folder(before)), importer.Options{}), 7, 0, 0, 0, 0)
		want(t, "again", runs(t, c, notes(t, folder(before)), importer.Options{}), 0, 7, 0, 0, 0)
		after := map[string]string{"same.md": "unchanged", "new.md": "---\ntags: x\n---\nnew text", "long.md": long[:90_000], "more.md": "[[new]]"}
		want(t, "dry run", runs(t, c, notes(t, folder(after)), importer.Options{DryRun: true}), 1, 1, 3, 0, 0)
		want(t, "changed", runs(t, c, notes(t, folder(after)), importer.Options{}), 1, 1, 3, 3, 0)
		want(t, "changed again", runs(t, c, notes(t, folder(after)), importer.Options{}), 0, 5, 0, 0, 0)
		byTitle := map[string]record.Record{}
		for _, r := range all(t, f, "notes") {
			byTitle[r.Title] = r
		}
		if r := byTitle["new"]; r.Content != "new text" || fmt.Sprint(r.Tags) != "[x]" || r.Revision != 2 || len(byTitle) != 5 {
			t.Errorf("%+v of %d", r, len(byTitle))
		}
		if more := byTitle["more"]; len(more.Links) != 1 || more.Links[0].Target != byTitle["new"].ID {
			t.Errorf("%+v", more)
		}
	})
}

// What is sensitive in the store stays so, whatever a note says, until somebody decides otherwise there.
func TestImportedAgainStaysSensitive(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := f.Client(t)
		kept := map[string]string{"a.md": "a", "b.md": "b", "c.md": "---\nsensitive: true\n---\nc", "d.md": "d"}
		want(t, "first", runs(t, c, notes(t, folder(kept)), importer.Options{}), 4, 0, 0, 0, 0)
		for _, r := range all(t, f, "notes") {
			if r.Content == "a" || r.Content == "b" {
				if _, err := f.Memory.Update(t.Context(), "notes", r.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, text := range map[string]string{"b.md": "new b", "c.md": "new c", "d.md": "---\nsensitive: true\n---\nd"} {
			kept[name] = text
		}
		want(t, "dry run", runs(t, c, notes(t, folder(kept)), importer.Options{DryRun: true}), 0, 1, 3, 0, 0)
		report := runs(t, c, notes(t, folder(kept)), importer.Options{})
		want(t, "again", report, 0, 1, 3, 0, 0)
		var named []string
		for _, p := range report.Problems {
			named = append(named, p.Position+" "+p.Reason)
		}
		if got := strings.Join(named, ", "); got != "a.md stays sensitive, b.md stays sensitive, c.md stays sensitive" {
			t.Errorf("told of %s", got)
		}
		for _, r := range all(t, f, "notes") {
			if !r.Sensitive || r.Content == "b" || r.Content == "c" {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestNotesThatAreNoFiles(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside.md")
	for name, text := range map[string]string{filepath.Join(path, "a.md"): "a", outside: "outside"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"inside.md": "a.md", "out.md": outside, "gone.md": "nowhere.md", "dir.md": "."} {
		if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	source, err := importer.OpenMarkdown(root.FS(), "notes")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for position, item := range read(t, source) {
		if got[position] = item.Memory.GetContent(); item.Problem != nil {
			got[position] = item.Problem.Reason + ": " + item.Problem.Detail
		}
	}
	want := map[string]string{
		"a.md": "a", "inside.md": "a", "out.md": "note cannot be read: path escapes from parent",
		"gone.md": "note cannot be read: no such file or directory", "dir.md": "note cannot be read: it is not a file",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// FuzzMarkdown reads arbitrary notes: what it makes of them must be what the server takes, and hold the whole text.
func FuzzMarkdown(f *testing.F) {
	f.Add([]byte("---\ntitle: a\ntags: [b]\nrelated: [[x]]\ndate: 2024-01-01\n---\n# H\n\n[[x|y]] ![[z]] [a](b.md) [[]] ![[ [[|]]"), uint8(1))
	f.Add([]byte("---\n? [a]\n: 1\n!!binary x: y\n...\n## h\n"), uint8(200))
	f.Fuzz(func(t *testing.T, note []byte, times uint8) {
		text := strings.Repeat(string(note), int(times))
		source, err := importer.OpenMarkdown(folder(map[string]string{"a.md": string(note), "b.md": text}), "fuzz")
		if err != nil {
			t.Fatal(err)
		}
		for item, err := range source.Items(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if (item.Memory == nil) == (item.Problem == nil) {
				t.Fatalf("%+v", item)
			}
			if item.Memory == nil {
				continue
			}
			if _, err := record.FromProto(item.Memory); err != nil {
				t.Fatalf("%v: %v", err, item.Memory)
			}
			if len(item.Memory.GetContent()) > 64<<10 {
				t.Fatalf("%d bytes", len(item.Memory.GetContent()))
			}
		}
	})
}

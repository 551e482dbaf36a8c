package importer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
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
	source, err := importer.OpenMarkdown(f, "/vault", "notes")
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// read returns the items of a source by position.
func read(t *testing.T, source importer.Source) map[string]importer.Item {
	t.Helper()
	items := map[string]importer.Item{}
	if err := source.Read(t.Context(), func(item importer.Item) error { items[item.Position] = item; return nil }); err != nil {
		t.Fatal(err)
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
	var many strings.Builder
	for i := range 64 {
		fmt.Fprintf(&many, "k%d: 1\n", i)
	}
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
		"long.md":        "---\nsource: https://example.org/" + strings.Repeat("s", 600) + "\ncategory: " + strings.Repeat("c", 65) + "\n\"\": \"[[far]]\"\n---\nx",
		"many.md":        "---\n" + many.String() + "---\nx",
		"large.md":       "---\nk: " + strings.Repeat("v", 17<<10) + "\n---\nx",
		".trash/Old.md":  "gone",
		"picture.png":    "x",
	})))
	if got, want := fmt.Sprint(slices.Sorted(maps.Keys(items))), "[Empty.md boats/Heron.md broken.md far.md folder.md/a.md large.md latin.md list.md long.md many.md open.md people/Teo.md plain.markdown secret.md toml.md twice.md]"; got != want {
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
	if want := map[string]any{"length": 12.5, "serial": "12345678901234567890", "built": "1999-12-31", "empty": nil, "nested": map[string]any{"a": []any{1., "two"}}, importer.NoteFolder: "/vault"}; fmt.Sprint(r.Metadata) != fmt.Sprint(want) {
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
	for position, want := range map[string]string{
		"far.md":   "importance not understood: it is no number from 0 to 1, and is kept as metadata",
		"long.md":  "category cut off: a category has at most 64 bytes, source cut off: a source has at most 512 bytes",
		"many.md":  "metadata left out: metadata: must have at most 64 keys",
		"large.md": "metadata left out: metadata: must be at most 16384 bytes as JSON",
	} {
		got := items[position]
		if got.Problem != nil {
			t.Errorf("%s: got problem %+v, want none", position, got.Problem)
		}
		if got := reasons(got); got != want {
			t.Errorf("%s: got notes %q, want %q", position, got, want)
		}
	}
	if got := fmt.Sprint(items["far.md"].Memory.GetMetadata().AsMap()); got != "map[importance:11 note_folder:/vault]" {
		t.Errorf("far.md: got metadata %s, want the importance in it", got)
	}
	if got := fmt.Sprint(items["many.md"].Memory.GetMetadata().AsMap()); got != "map[note_folder:/vault]" {
		t.Errorf("many.md: got metadata %s, want the folder only", got)
	}
	if got, want := links(items, "long.md"), "links_to far.md"; got != want {
		t.Errorf("long.md: got links %q, want %q", got, want)
	}
	if p := items["latin.md"].Problem; p == nil || p.Reason != "not UTF-8" || strings.Contains(p.Detail, "[") {
		t.Errorf("latin.md: %+v", p)
	}
}

func TestLinksBetweenNotes(t *testing.T) {
	t.Parallel()
	items := read(t, notes(t, folder(map[string]string{
		"a/Start.md": "[[Target]], [[target#Part|label]] and ![[Target]]; [rel](../b/Other%20Note.md#x), [no extension](Sibling), [web](https://x.org/Target.md),\n\n" +
			"`[[Code]]` [[Nick]] [[b/Target]] ![[picture.png]] [missing](gone.md) [[Missing]] [pdf](x.pdf) [[Start]] [[#here]]\n\n    [[Indented]]\n\n```\n[[Fenced]]\n```\n",
		"a/Target.md": "near", "b/Target.md": "far", "a/Sibling.md": "s", "b/Other Note.md": "o", "c/Named.md": "---\naliases: nick\n---\nn",
		"d/Search Index.md": "---\npermalink: specs/search-index\n---\np", // as basic-memory writes it, and links to it
		"root.md":           "[[Target]] [[x/Nothing]] [[a/target.md]] [[specs/search-index]]", "d/Deep.md": "[up](/a/Target.md) [[../a/Sibling]]",
	})))
	for position, want := range map[string]string{
		"a/Start.md": "links_to a/Target.md, links_to b/Other Note.md, links_to a/Sibling.md, links_to c/Named.md, links_to b/Target.md",
		"root.md":    "links_to a/Target.md, links_to d/Search Index.md",
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

func TestInlineTagsRelationsAndDates(t *testing.T) {
	t.Parallel()
	items := read(t, notes(t, folder(map[string]string{
		"2024-05-03 Harbour.md": "#crane and (#north/quay) of #2024, a#b, *x*#y, `#code` #snake_case_1 #Ünïcode. [#link](X.md) issue #7\n\n- requires [[X]]\n- Caused by [[X]] (see the log)\n" +
			"- [[X]]\n- part-of [[X]], they say\n- one of those four words [[X]]\n- relates_to [[X]]\n- Is_part_of [[Y]]\n- two\n  lines of [[Y]]\n\nprose requires [[Y]]\n",
		"2024_13_03.md": "x", "a 2024.02.29.md": "x", "12024-05-031.md": "x", "2024-01-01 but.md": "---\ndate: 2023-02-03\ntags: crane\n---\nx #crane", "X.md": "x", "Y.md": "y",
	})))
	const harbour = "2024-05-03 Harbour.md"
	if got, want := fmt.Sprint(items[harbour].Memory.GetTags()), "[crane north/quay snake_case_1 Ünïcode]"; got != want {
		t.Errorf("got tags %s, want %s", got, want)
	}
	if got, want := links(items, harbour), "links_to X.md, requires X.md, caused_by X.md, relates_to X.md, is_part_of Y.md, links_to Y.md"; got != want {
		t.Errorf("got links %q, want %q", got, want)
	}
	for position, want := range map[string]string{harbour: "2024-05-03", "2024_13_03.md": "", "a 2024.02.29.md": "2024-02-29", "12024-05-031.md": "", "2024-01-01 but.md": "2023-02-03"} {
		m, got := items[position].Memory, ""
		if m.GetOccurredAt() != nil {
			got = m.GetOccurredAt().AsTime().Format(time.DateOnly)
		}
		if got != want || want != "" && !m.GetCreatedAt().AsTime().Equal(m.GetOccurredAt().AsTime()) {
			t.Errorf("%s: got %q, created %v, want %q", position, got, m.GetCreatedAt().AsTime(), want)
		}
	}
	if got := fmt.Sprint(items["2024-01-01 but.md"].Memory.GetTags()); got != "[crane]" {
		t.Errorf("got tags %s of the front matter and the text, want [crane]", got)
	}
}

// prose returns so many different sentences of about 50 bytes.
func prose(name string, sentences int) string {
	var b strings.Builder
	for i := range sentences {
		fmt.Fprintf(&b, "The %s has plank number %d, of oak from the north. ", name, i)
	}
	return strings.TrimSpace(b.String())
}

// passages returns the passages of a note in their order.
func passages(t *testing.T, source importer.Source, thread string) (out []importer.Item) {
	t.Helper()
	for _, item := range read(t, source) {
		if item.Memory.GetThread() == thread {
			out = append(out, item)
		}
	}
	slices.SortFunc(out, func(a, b importer.Item) int { return int(a.Memory.GetPosition() - b.Memory.GetPosition()) })
	return out
}

func TestLongNotesBecomePassages(t *testing.T) {
	t.Parallel()
	text := "# Boats\n\n" + prose("boat", 10) + "\n\n## Heron\n\n" + prose("hull", 20) + "\n\n" + prose("deck", 20) + "\n\n### Mast\n\nIt is short, see [[One]]. #mast\n\n### Sail\n\nRed.\n\n" +
		"## Tern\n\n" + prose("keel", 100) + "\n\n" + strings.Repeat("ü", 3000) + "\n"
	items := passages(t, notes(t, folder(map[string]string{"Boats.md": "---\nby: Teo\nsee: [[One]]\n---\n" + text, "One.md": "1"})), "Boats.md")
	count := map[string]int{}
	end := 0 // of the passage before, in the text
	for i, item := range items {
		m := item.Memory
		count[m.GetTitle()]++
		if n := len(m.GetContent()); n > 2048+256 || n < 200 {
			t.Errorf("passage %d %q has %d bytes", i, m.GetTitle(), n)
		}
		// Each passage begins where the one before it ended, or with the last sentence before.
		from := end
		if !strings.HasPrefix(strings.TrimSpace(text[end:]), m.GetContent()) {
			from = max(0, end-200)
		}
		at := from + strings.Index(text[from:], m.GetContent())
		if at < from || strings.TrimSpace(text[min(end, at):at]) != "" {
			t.Fatalf("passage %d %q of %d bytes is at %d, want it behind %d", i, m.GetTitle(), len(m.GetContent()), at, end)
		}
		if at < end {
			count["repeated"]++
		}
		end = at + len(m.GetContent())
		if m.GetThread() != "Boats.md" || m.GetPosition() != int64(i+1)<<10 || m.GetMetadata().AsMap()["by"] != "Teo" {
			t.Errorf("passage %d: %v", i, m)
		}
	}
	if strings.TrimSpace(text[end:]) != "" {
		t.Errorf("left out at the end: %.80q", text[end:])
	}
	if count["Boats"] != 1 || count["Boats > Heron"] < 2 || count["Boats > Heron > Mast"]+count["Boats > Heron > Sail"] != 0 || count["Boats > Tern"] < 5 || count["repeated"] < 2 {
		t.Errorf("got %v", count)
	}
	items2 := read(t, notes(t, folder(map[string]string{"Boats.md": "---\nsee: [[One]]\n---\n" + text, "One.md": "1"})))
	if got := links(items2, "Boats.md"); got != "see One.md" {
		t.Errorf("got links %q of the first passage, want that of the front matter", got)
	}
	linked, tagged := 0, 0
	for position, item := range items2 {
		if strings.Contains(item.Memory.GetContent(), "[[One]]") {
			linked += strings.Count(links(items2, position), "links_to One.md")
			tagged += strings.Count(fmt.Sprint(item.Memory.GetTags()), "mast")
		} else if len(item.Memory.GetTags()) > 0 {
			t.Errorf("%s has tags %v", position, item.Memory.GetTags())
		}
	}
	if linked != 1 || tagged != 1 {
		t.Errorf("got %d links and %d tags with the passage that has them, want 1 and 1", linked, tagged)
	}
	huge := read(t, notes(t, folder(map[string]string{"huge.md": strings.Repeat("x", 9<<20)})))
	if p := huge["huge.md"].Problem; p == nil || p.Reason != "note too long" {
		t.Errorf("%+v", p)
	}
}

// chapters returns a long note without headings below its title.
func chapters(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(prose(fmt.Sprintf("part %d", i), 8) + "\n\n")
	}
	return b.String()
}

// Passages that did not change keep their ids and revisions, also behind a change; those that are gone are forgotten.
func TestImportAgainTouchesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := f.Client(t)
		before := map[string]string{"same.md": "unchanged", "new.md": "old text", "long.md": chapters(0, 160), "gone.md": chapters(100, 110), "latin.md": "was text"}
		first := runs(t, c, notes(t, folder(before)), importer.Options{})
		if first.Stored < 40 {
			t.Fatalf("stored %d passages", first.Stored)
		}
		want(t, "again", runs(t, c, notes(t, folder(before)), importer.Options{}), 0, first.Stored, 0, 0, 0)
		ids := map[string]record.Record{}
		for _, r := range all(t, f, "notes") {
			ids[r.ID.String()] = r
		}
		if _, err := c.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "notes", Content: "not of the folder"}}); err != nil {
			t.Fatal(err)
		}
		after := map[string]string{
			"same.md": "unchanged", "new.md": "---\ntags: x\n---\nnew text", "more.md": "[[new]]", "latin.md": "caf\xe9",
			"long.md": chapters(0, 20) + "A paragraph in between.\n\n" + chapters(20, 40) + chapters(41, 160),
		}
		dry := runs(t, c, notes(t, folder(after)), importer.Options{DryRun: true})
		report := runs(t, c, notes(t, folder(after)), importer.Options{})
		if fmt.Sprint(dry.Stored, dry.Updated, dry.Forgotten, dry.Unchanged) != fmt.Sprint(report.Stored, report.Updated, report.Forgotten, report.Unchanged) {
			t.Errorf("the dry run says %s, the import %s", dry, report)
		}
		byTitle, kept, changed := map[string]record.Record{}, 0, 0
		for _, r := range all(t, f, "notes") {
			byTitle[r.Title+r.Source] = r
			switch old, ok := ids[r.ID.String()]; {
			case r.Source == "gone.md":
				t.Errorf("%s is still there", r.Content[:20])
			case r.Source != "long.md":
			case ok && old.Content == r.Content && old.Revision == r.Revision:
				kept++
			default:
				changed++
			}
		}
		if changed == 0 || changed > 8 || kept < 30 {
			t.Errorf("%d passages of the long note are as they were, %d are not", kept, changed)
		}
		if r := byTitle["newnew.md"]; r.Content != "new text" || fmt.Sprint(r.Tags) != "[x]" || r.Revision != 2 {
			t.Errorf("%+v", r)
		}
		if more := byTitle["moremore.md"]; len(more.Links) != 1 || more.Links[0].Target != byTitle["newnew.md"].ID {
			t.Errorf("%+v", more)
		}
		if r := byTitle["latinlatin.md"]; r.Content != "was text" || report.Skipped != 1 {
			t.Errorf("a note that cannot be read became %q, skipped %d", r.Content, report.Skipped)
		}
		if r := byTitle[""]; r.Content != "not of the folder" {
			t.Error("the import forgot a memory of somebody else")
		}
		other, err := importer.OpenMarkdown(folder(map[string]string{"other.md": "of another folder"}), "/other", "notes")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "another folder", runs(t, c, other, importer.Options{}), 1, 0, 0, 0, 0)
		empty := runs(t, c, notes(t, folder(nil)), importer.Options{})
		want(t, "no notes", empty, 0, 0, 0, 0, 1)
		rest := runs(t, c, notes(t, folder(map[string]string{"same.md": "unchanged"})), importer.Options{})
		want(t, "one note", rest, 0, 1, 0, int64(len(byTitle))-2+rest.Forgotten-int64(len(byTitle))+2, 0)
		if left := all(t, f, "notes"); len(left) != 3 {
			t.Errorf("%d memories are left, want the note, that of the other folder, and somebody's", len(left))
		}
	})
}

// A thousand notes, of which 50 change and 20 go: the second import touches these.
func TestAFolderOfAThousandNotes(t *testing.T) { // not parallel, for the sake of its times
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		c := &counting{MemoryServiceClient: f.Client(t)}
		vault := map[string]string{}
		for i := range 1000 {
			vault[fmt.Sprintf("%d/note %d.md", i%10, i)] = fmt.Sprintf("# Note %d\n\n%s\n\n## More\n\n%s [[note %d]]\n", i, prose(fmt.Sprint("boat ", i), 20), prose(fmt.Sprint("ship ", i), 30), (i+1)%1000)
		}
		want(t, "first", runs(t, c, notes(t, folder(vault)), importer.Options{}), c.imported.Load(), 0, 0, 0, 0)
		for i := range 50 {
			vault[fmt.Sprintf("%d/note %d.md", i%10, i)] += "\nA line more.\n"
		}
		for i := range 20 {
			delete(vault, fmt.Sprintf("%d/note %d.md", (i+500)%10, i+500))
		}
		stored := c.imported.Swap(0)
		c.read.Store(0)
		began := time.Now()
		source := notes(t, folder(vault))
		t.Logf("opened in %v", time.Since(began))
		report := runs(t, c, source, importer.Options{})
		t.Logf("%d passages: %s in %v", stored, strings.TrimSpace(report.String()), time.Since(began))
		// 19 notes link to a note that is gone, and another one is gone itself: their last passages lose the link.
		if writes := c.imported.Load() + c.updated.Load() + c.forgotten.Load(); report.Stored+report.Updated+report.Forgotten != writes || report.Stored < 50 || report.Stored > 100 || report.Forgotten < 40 || report.Forgotten > 200 || report.Updated > 70 {
			t.Errorf("%s with %d writes", report, writes)
		}
		if read := c.read.Load(); read != report.Stored+report.Updated {
			t.Errorf("read %d memories that may have changed, want %d", read, report.Stored+report.Updated)
		}
	})
}

// counting counts the memories that an import writes.
type counting struct {
	triskelev1.MemoryServiceClient
	imported, updated, forgotten, read atomic.Int64
}

func (c *counting) Get(ctx context.Context, req *triskelev1.GetRequest, options ...grpc.CallOption) (*triskelev1.GetResponse, error) {
	c.read.Add(int64(len(req.GetIds())))
	return c.MemoryServiceClient.Get(ctx, req, options...)
}

func (c *counting) Import(ctx context.Context, options ...grpc.CallOption) (grpc.ClientStreamingClient[triskelev1.ImportRequest, triskelev1.ImportResponse], error) {
	stream, err := c.MemoryServiceClient.Import(ctx, options...)
	return &countingStream{stream, &c.imported}, err
}

func (c *counting) Update(ctx context.Context, req *triskelev1.UpdateRequest, options ...grpc.CallOption) (*triskelev1.UpdateResponse, error) {
	c.updated.Add(1)
	return c.MemoryServiceClient.Update(ctx, req, options...)
}

func (c *counting) Forget(ctx context.Context, req *triskelev1.ForgetRequest, options ...grpc.CallOption) (*triskelev1.ForgetResponse, error) {
	c.forgotten.Add(int64(len(req.GetIds())))
	return c.MemoryServiceClient.Forget(ctx, req, options...)
}

type countingStream struct {
	grpc.ClientStreamingClient[triskelev1.ImportRequest, triskelev1.ImportResponse]
	sent *atomic.Int64
}

func (s *countingStream) Send(req *triskelev1.ImportRequest) error {
	s.sent.Add(int64(len(req.GetMemories())))
	return s.ClientStreamingClient.Send(req)
}

// A passage that somebody marked as sensitive stays so when its text moves to another note, or changes.
func TestMovedPassagesStaySensitive(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	c := f.Client(t)
	runs(t, c, notes(t, folder(map[string]string{"a.md": chapters(0, 10), "b.md": chapters(20, 30), "c.md": "plain"})), importer.Options{})
	marked := map[string]string{}
	for _, r := range all(t, f, "notes") {
		if r.Position != nil && *r.Position == 3<<10 {
			marked[r.Source] = r.Content
			if _, err := f.Memory.Update(t.Context(), "notes", r.ID, 0, func(r *record.Record) error { r.Sensitive = true; return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(marked) != 2 {
		t.Fatalf("marked %d", len(marked))
	}
	changed := strings.Replace(chapters(20, 30), marked["b.md"], "Changed. "+marked["b.md"], 1)
	runs(t, c, notes(t, folder(map[string]string{"moved.md": chapters(0, 10), "b.md": changed, "c.md": "plain and more"})), importer.Options{})
	for _, r := range all(t, f, "notes") {
		if want := r.Content == marked["a.md"] || strings.Contains(r.Content, "Changed. "); r.Sensitive != want && !(r.Source == "b.md" && r.Revision == 1) {
			t.Errorf("%s %v, %.30q: sensitive is %v, want %v", r.Source, r.Position, r.Content, r.Sensitive, want)
		}
	}
}

func TestSync(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	path := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sync := func(what string, stored, unchanged, updated, forgotten int64) {
		t.Helper()
		folder, err := importer.OpenFolder(path, "notes")
		if err != nil {
			t.Fatal(err)
		}
		report, err := importer.Run(t.Context(), f.Client(t), folder, importer.Options{})
		if err := errors.Join(err, folder.Close()); err != nil {
			t.Fatal(err)
		}
		want(t, what, report, stored, unchanged, updated, forgotten, 0)
	}
	write("a.md", "a")
	write("b.md", "b")
	sync("first", 2, 0, 0, 0)
	write("a.md", "changed")
	if err := os.Remove(filepath.Join(path, "b.md")); err != nil {
		t.Fatal(err)
	}
	sync("second", 0, 0, 1, 1)
	sync("third", 0, 1, 0, 0)
}

// TestFoldersDoNotTakeEachOthersNotes: notes of two folders with the same path would have one memory. A folder that has moved keeps its own.
func TestFoldersDoNotTakeEachOthersNotes(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	base := t.TempDir()
	sync := func(name string, stored, unchanged, updated, skipped int64) *importer.Report {
		t.Helper()
		folder, err := importer.OpenFolder(filepath.Join(base, name), "notes")
		if err != nil {
			t.Fatal(err)
		}
		report, err := importer.Run(t.Context(), f.Client(t), folder, importer.Options{})
		if err := errors.Join(err, folder.Close()); err != nil {
			t.Fatal(err)
		}
		want(t, name, report, stored, unchanged, updated, 0, skipped)
		return report
	}
	for file, text := range map[string]string{"boats/README.md": "Boats are built here.", "bread/README.md": "Bread is baked here.", "bread/Rye.md": "Rye."} {
		path := filepath.Join(base, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	sync("boats", 1, 0, 0, 0)
	report := sync("bread", 1, 0, 0, 1)
	if len(report.Problems) != 1 || report.Problems[0].Position != "README.md" || !strings.Contains(report.Problems[0].Detail, filepath.Join(base, "boats")) {
		t.Errorf("told of %+v, want README.md and the folder that has it", report.Problems)
	}
	sync("boats", 0, 1, 0, 0)
	err := errors.Join(os.Rename(filepath.Join(base, "boats"), filepath.Join(base, "moved")), os.Symlink("moved", filepath.Join(base, "link")))
	if err != nil {
		t.Fatal(err)
	}
	sync("moved", 0, 0, 1, 0)
	sync("link", 0, 0, 1, 0)
}

// A note that is edited after somebody has superseded its memory stays superseded, and the report says by what.
func TestSupersededNotesAreNamed(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	c := f.Client(t)
	kept := map[string]string{"a.md": "The crane is serviced in spring."}
	want(t, "first", runs(t, c, notes(t, folder(kept)), importer.Options{}), 1, 0, 0, 0, 0)
	old := all(t, f, "notes")[0]
	by, err := c.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: old.ID.String(), Replacement: &triskelev1.Memory{Namespace: "notes", Content: "It is serviced in autumn."}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unchanged", runs(t, c, notes(t, folder(kept)), importer.Options{}), 0, 1, 0, 0, 0)
	kept["a.md"] = "The crane is serviced in winter."
	for _, dry := range []bool{true, false} {
		report := runs(t, c, notes(t, folder(kept)), importer.Options{DryRun: dry})
		want(t, "edited", report, 0, 0, 1, 0, 0)
		if len(report.Problems) != 1 || report.Problems[0].Reason != "superseded" || !strings.Contains(report.Problems[0].Detail, by.GetMemory().GetId()) {
			t.Errorf("dry run %v: told of %+v, want %s", dry, report.Problems, by.GetMemory().GetId())
		}
	}
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
	if err := os.Mkdir(filepath.Join(path, "caf\xe9"), 0o700); err != nil {
		t.Fatal(err)
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
	source, err := importer.OpenMarkdown(root.FS(), path, "notes")
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
		"caf\xe9": "folder cannot be read: invalid argument",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// closed is a folder in which one folder cannot be read.
type closed struct{ fstest.MapFS }

// ReadDir implements fs.ReadDirFS.
func (f closed) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "closed" {
		return nil, fs.ErrPermission
	}
	return f.MapFS.ReadDir(name)
}

// A folder that cannot be read is named, what is stored of it stays, and all others are imported.
func TestFolderThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := storetest.SQLite(t)
	notes := folder(map[string]string{"a.md": "a", "closed/b.md": "b", "closed/c/d.md": "d", "closed.md": "e"})
	imported := func(notes fs.FS) *importer.Report {
		t.Helper()
		source, err := importer.OpenMarkdown(notes, "/notes", "notes")
		if err != nil {
			t.Fatal(err)
		}
		return runs(t, f.Client(t), source, importer.Options{})
	}
	want(t, "open", imported(notes), 4, 0, 0, 0, 0)
	delete(notes, "closed.md")
	report := imported(closed{notes})
	want(t, "closed", report, 0, 1, 0, 1, 1)
	if got := report.Problems[0]; got.Position != "closed" || got.Detail != fs.ErrPermission.Error() {
		t.Errorf("got %+v, want what cannot be read", got)
	}
}

// FuzzMarkdown reads arbitrary notes: what it makes of them must be what the server takes, and hold the whole text.
func FuzzMarkdown(f *testing.F) {
	f.Add([]byte("---\ntitle: a\ntags: [b]\nrelated: [[x]]\ndate: 2024-01-01\n---\n# H\n\n[[x|y]] ![[z]] [a](b.md) [[]] ![[ [[|]]"), uint8(1))
	f.Add([]byte("---\n? [a]\n: 1\n!!binary x: y\n...\n## h\n"), uint8(200))
	f.Fuzz(func(t *testing.T, note []byte, times uint8) {
		text := strings.Repeat(string(note), int(times))
		source, err := importer.OpenMarkdown(folder(map[string]string{"a.md": string(note), "b.md": text}), "/vault", "fuzz")
		if err != nil {
			t.Fatal(err)
		}
		err = source.Read(t.Context(), func(item importer.Item) error {
			if (item.Memory == nil) == (item.Problem == nil) {
				t.Fatalf("%+v", item)
			}
			if item.Memory == nil {
				return nil
			}
			if _, err := record.FromProto(item.Memory); err != nil {
				t.Fatalf("%v: %v", err, item.Memory)
			}
			if n := len(item.Memory.GetContent()); n > 2048+256 {
				t.Fatalf("got a passage of %d bytes, want %d at most", n, 2048+256)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

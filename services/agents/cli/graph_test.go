package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/backend"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestGraph imports facts into a database, looks at them in every way, and takes an export to another database.
func TestGraph(t *testing.T) {
	folder := t.TempDir()
	database := func(name string) (string, *backend.Backend) {
		file := filepath.Join(folder, name)
		must(t, "", "migrate", "up", "--sqlite="+file)
		b, err := backend.OpenSQLite(file, storetest.Telemetry(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return "--sqlite=" + file, b
	}
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	say := func(content string, month int) record.Record {
		return storetest.Record("default", content, func(r *record.Record) { r.OccurredAt = at.AddDate(0, month, 0) })
	}
	first, second := say("We think that Teo lives in Brackwater.", 0), say("Then Teo <3 Kessel.", 1)
	secret := storetest.Record("default", "Xyzzy", func(r *record.Record) { r.Sensitive = true })
	fill := func(b *backend.Backend) {
		records := []record.Record{first, second, secret}
		if _, err := b.Memory().Insert(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		if err := b.Graph(b.Images(t.Context(), storetest.Strict(), storetest.Log()), graph.Config{}).Index(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	one, b := database("one.db")
	fill(b)
	triple := `{"memory":%q,"subject":"Teo","relation":"lives in","object":%q}` + "\n"
	triples := fmt.Sprintf(triple, second.ID, "Kessel") + "\n" + fmt.Sprintf(triple, first.ID, "Brackwater") + fmt.Sprintf(triple, secret.ID, "Xyzzy")
	for range 2 {
		wantContains(t, "import", must(t, triples, "graph", "import", "-", "--single", one), "2 facts stored, 1 left out")
	}
	for name, bad := range map[string]string{
		"line 1 is not a triple": "x\n", "line 2: object: must have letters or digits": triples[:strings.Index(triples, "\n")] + "\n" + fmt.Sprintf(triple, first.ID, "?"),
		"line 1 has more than": strings.Repeat(" ", 9000) + "\n",
	} {
		if got := run(bad, "graph", "import", "-", one); got.code != 1 || !strings.Contains(got.err, name) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	wantContains(t, "show", must(t, "", "graph", "show", "TEO", one), "Teo\n", "mentioned in 2 memories", "Teo lives in Brackwater",
		"2026-03-01 to 2026-04-01, says "+first.ID.String()+", replaced by "+second.ID.String(), "since 2026-04-01, says "+second.ID.String())
	wantContains(t, "neighbors", must(t, "", "graph", "neighbors", "Teo", one), "   1  Kessel  lives in\n   1  Brackwater\n")
	wantContains(t, "path", must(t, "", "graph", "path", "Brackwater", "Kessel", one), "Brackwater\n  mentioned in\nmemory "+first.ID.String()+"\n  mentions\nTeo\n  lives in\nKessel\n")
	wantContains(t, "show as JSON", must(t, "", "graph", "show", "TEO", "--json", one), `"relation": "lives in"`)
	wantContains(t, "neighbors as JSON", must(t, "", "graph", "neighbors", "Teo", "--json", one), `{"name":"Kessel","memories":1,"facts":["lives in"]}`)
	wantContains(t, "path as JSON", must(t, "", "graph", "path", "Brackwater", "Kessel", "--json", one), `"concept": "Teo"`)
	for _, args := range [][]string{{"stats"}, {"export"}, {"extract"}, {"import", "-"}} {
		if got := run(triples, append([]string{"graph"}, append(args, "-n", "mistyped", one)...)...); got.code != 1 || got.out != "" || !strings.Contains(got.err, `namespace "mistyped" is unknown`) {
			t.Errorf("%s of no namespace: %+v", args, got)
		}
	}
	wantContains(t, "stats", must(t, "", "graph", "stats", one), "memories          2\n", "concepts          3, 2 of one memory", "facts             2\n")
	wantContains(t, "dot", must(t, "", "graph", "export", "--format=dot", one), "digraph memories {", `[label="Kessel"]`, `[label="lives in"]`)
	decoder := xml.NewDecoder(strings.NewReader(must(t, "", "graph", "export", one)))
	elements := map[string]int{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["node"] != 5 || elements["edge"] != 5 { // 3 concepts and 2 memories; 4 mentions and the fact that holds
		t.Errorf("graphml has %v", elements)
	}
	exported := must(t, "", "graph", "export", "--format=triples", one)
	var line struct{ Memory, Object string }
	if err := json.Unmarshal([]byte(exported[:strings.Index(exported, "\n")]), &line); err != nil || line.Memory != first.ID.String() || line.Object != "Brackwater" {
		t.Errorf("%s%v", exported, err)
	}
	two, b := database("two.db")
	fill(b)
	wantContains(t, "import of an export", must(t, exported, "graph", "import", "-", two), "2 facts stored\n")
	if again := must(t, "", "graph", "export", "--format=triples", two); again != exported {
		t.Errorf("exported\n%safter an import of\n%s", again, exported)
	}
	if got := run(exported, "graph", "import", "-", "--embedder=hashed", two); got.code != 1 || !strings.Contains(got.err, "the --embedder of that model") {
		t.Errorf("import by another embedder: %+v", got)
	}
	for _, args := range [][]string{{"show", "Zanzibar"}, {"neighbors", "Zanzibar"}, {"path", "Teo", "Zanzibar"}} {
		if got := run("", append(append([]string{"graph"}, args...), one)...); got.code != 1 || !strings.Contains(got.err, `mentions "Zanzibar"`) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

package cli_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/wiring/standalone"
)

func TestLexicalSettings(t *testing.T) {
	file := "--sqlite=" + filepath.Join(t.TempDir(), "x.db")
	must(t, "", "migrate", "up", file)
	wantContains(t, "defaults", must(t, "", "lexical", "settings", "ns", file), "language english\n", "k1       1.2\n", "prefix   false\n", "scorer   default\n")
	must(t, "", "lexical", "settings", "ns", "--language=german", "--k1=1.6", "--prefix", "--scorer=ts_rank", file)
	wantContains(t, "changed", must(t, "", "lexical", "settings", "ns", "--scorer=default", file), "language german\n", "k1       1.6\n", "b        0.75\n", "prefix   true\n", "scorer   default\n")
	if got := run("", "lexical", "reindex", "ns", file); got.code != 1 || !strings.Contains(got.err, `"ns" is unknown`) {
		t.Errorf("reindex a namespace that is unknown: %+v", got)
	}
	must(t, "", "remember", "The crane is serviced in spring.", "-n", "ns", "--address="+serveWith(t, standalone.Config{SQLite: strings.TrimPrefix(file, "--sqlite=")}))
	must(t, "", "lexical", "reindex", "ns", file)
	if got := run("", "lexical", "settings", "Ns", "--language=german", file); got.code != 2 || !strings.Contains(got.err, `"Ns" is no namespace`) {
		t.Errorf("settings of what is no namespace: got %+v, want that it is refused", got)
	}
	for flag, want := range map[string]string{"--language=klingon": "language must be one of", "--b=2": "b must be from 0 to 1", "--scorer=x": "scorer"} {
		if got := run("", "lexical", "settings", "ns", flag, file); got.code == 0 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

// TestLexicalSettingsAgain: a change of the language that was interrupted is completed by the same command.
func TestLexicalSettingsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	must(t, "", "migrate", "up", "--sqlite="+path)
	must(t, "", "lexical", "settings", "ns", "--language=german", "--sqlite="+path)
	must(t, "", "remember", "The crane is serviced in spring.", "-n", "ns", "--address="+serveWith(t, standalone.Config{SQLite: path}))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	terms := func() (terms string) {
		if err := db.QueryRowContext(t.Context(), `SELECT hex(terms) FROM lexical_documents`).Scan(&terms); err != nil {
			t.Fatal(err)
		}
		return terms
	}
	german := terms()
	if _, err := db.ExecContext(t.Context(), `UPDATE lexical_settings SET language = 'english'`); err != nil { // as far as it got
		t.Fatal(err)
	}
	must(t, "", "lexical", "settings", "ns", "--language=english", "--sqlite="+path)
	if terms() == german {
		t.Error("the memory still has its words by the rules of the former language")
	}
}

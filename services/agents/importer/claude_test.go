package importer_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// claudePostgres makes a PostgreSQL database with the given statements and returns its URL.
func claudePostgres(t *testing.T, statements string) string {
	t.Helper()
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
	return url
}

// claudeSQLite makes a SQLite file with the given statements and returns its path.
func claudeSQLite(t *testing.T, statements string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory #1?.db")
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("#", "%23", "?", "%3f", " ", "%20").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "PRAGMA journal_mode = WAL; "+statements); err != nil {
		t.Fatal(err)
	}
	return path
}

func claude(t *testing.T, location, user string) *importer.ClaudeMemory {
	t.Helper()
	source, err := importer.OpenClaudeMemory(t.Context(), location, "memories", user, "claude")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

// The schemas below are those of claude-memory-mcp with the columns that its migrations have added.
const (
	serverSchema = `
		CREATE TABLE memories (
			id serial PRIMARY KEY, content text NOT NULL, category varchar(50) DEFAULT 'facts', tags text DEFAULT '', expanded_keywords text DEFAULT '',
			importance real DEFAULT 0.5, created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now(),
			search_vector tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED,
			user_id varchar(100) NOT NULL DEFAULT 'default', is_sensitive boolean DEFAULT false, vault_path text, encrypted_content bytea, deleted_at timestamptz);
		CREATE TABLE memory_links (id serial PRIMARY KEY, user_id text NOT NULL, src_id integer NOT NULL, dst_id integer NOT NULL, link_type text NOT NULL);
		INSERT INTO memories (content, category, tags, expanded_keywords, importance, created_at, updated_at, user_id, is_sensitive, vault_path, deleted_at) VALUES
			('Deploys freeze on Thursday.', 'decisions', 'release, ops,release', 'ship friday rollout', 0.7, '2026-03-14 10:00:00.123456+01', '2026-03-15 00:00:00+00', 'ada', false, NULL, NULL),
			('The key is [REDACTED].', 'facts', '', '', 0.9, '2026-03-14 11:00:00+00', '2026-03-14 11:00:00+00', 'ada', true, 'claude-memory/ada/mem-2', NULL),
			('gone', 'facts', '', '', 0.5, now(), now(), 'ada', false, NULL, now()),
			('Deploys freeze on Wednesday.', 'decisions', '', '', 0.1, '2026-03-13 11:00:00+00', '2026-03-13 11:00:00+00', 'ada', false, NULL, NULL),
			('other user', 'facts', '', '', 0.5, now(), now(), 'bob', false, NULL, NULL);
		INSERT INTO memory_links (user_id, src_id, dst_id, link_type) VALUES ('ada', 1, 4, 'supersedes'), ('ada', 2, 1, 'see-also');`
	localSchema = `
		CREATE TABLE memories (
			id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, category TEXT DEFAULT 'facts', tags TEXT DEFAULT '', expanded_keywords TEXT DEFAULT '',
			importance REAL DEFAULT 0.5, is_sensitive INTEGER DEFAULT 0, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, server_id INTEGER);
		INSERT INTO memories (content, category, tags, expanded_keywords, importance, is_sensitive, created_at, updated_at) VALUES
			('Deploys freeze on Thursday.', 'decisions', 'release,ops', 'ship friday rollout', 0.7, 0, '2026-03-14T09:00:00.123456+00:00', '2026-03-15T00:00:00+00:00'),
			('The key.', NULL, NULL, NULL, NULL, 1, '2026-03-14 11:00:00', 'whenever');`
)

func TestClaudeMemoryServer(t *testing.T) {
	t.Parallel()
	url := claudePostgres(t, serverSchema)
	if _, err := importer.OpenClaudeMemory(t.Context(), url, "memories", "", "claude"); err == nil || !strings.Contains(err.Error(), "memories of 2 users (ada, bob)") {
		t.Errorf("two users in one namespace: %v", err)
	}
	if _, err := importer.OpenClaudeMemory(t.Context(), url, "memories", "eve", "claude"); err == nil || !strings.Contains(err.Error(), "no memories of user eve") {
		t.Errorf("unknown user: %v", err)
	}
	source := claude(t, url, "ada")
	if got, want := strings.Join(source.Findings(), "\n"), "columns found: content, id, category, tags, expanded_keywords, importance, is_sensitive, created_at, updated_at\n1 deleted rows are left out\nnot imported: search_vector"; got != want {
		t.Errorf("findings %q", got)
	}
	f := storetest.Postgres(t)
	c := f.Client(t)
	report := runs(t, c, source, importer.Options{})
	want(t, "first", report, 3, 0, 0, 0, 0)
	if len(report.Problems) != 1 || report.Problems[0].Reason != "secret not included" || report.Problems[0].Position != "memories 2" {
		t.Errorf("%s", report)
	}
	byContent := map[string]record.Record{}
	for _, r := range all(t, f, "claude") {
		byContent[r.Content] = r
	}
	freeze, key, old := byContent["Deploys freeze on Thursday."], byContent["The key is [REDACTED]."], byContent["Deploys freeze on Wednesday."]
	if fmt.Sprint(freeze.Tags) != "[release ops]" || fmt.Sprint(freeze.Keywords) != "[ship friday rollout]" || freeze.Importance != 0.7 || freeze.Category != "decisions" ||
		!freeze.CreatedAt.Equal(time.Date(2026, 3, 14, 9, 0, 0, 123456000, time.UTC)) || !freeze.UpdatedAt.Equal(time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)) || freeze.Sensitive {
		t.Errorf("%+v", freeze)
	}
	if !key.Sensitive || len(key.Links) != 1 || key.Links[0] != (record.Link{Target: freeze.ID, Relation: "see-also"}) {
		t.Errorf("%+v", key)
	}
	if old.SupersededBy != freeze.ID || freeze.Supersedes != old.ID {
		t.Errorf("%+v is not superseded", old)
	}

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "UPDATE memories SET content = 'Deploys freeze on Friday.', updated_at = now() WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	want(t, "changed", runs(t, c, claude(t, url, "ada"), importer.Options{}), 0, 2, 1, 0, 0)
	if got, err := f.Memory.Get(t.Context(), "claude", []uuid.UUID{freeze.ID}); err != nil || got[0].Content != "Deploys freeze on Friday." {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestClaudeMemoryLocal(t *testing.T) {
	t.Parallel()
	source := claude(t, claudeSQLite(t, localSchema), "")
	if got, want := strings.Join(source.Findings()[1:], "\n"), "not imported: server_id"; got != want {
		t.Errorf("findings %q", got)
	}
	f := storetest.SQLite(t)
	report := runs(t, f.Client(t), source, importer.Options{})
	want(t, "import", report, 2, 0, 0, 0, 0)
	if len(report.Problems) != 1 || report.Problems[0].Reason != "time not understood" {
		t.Errorf("%s", report)
	}
	for _, r := range all(t, f, "claude") {
		switch {
		case r.Content == "The key." && r.Sensitive && r.Importance == 0.5 && r.CreatedAt.Equal(time.Date(2026, 3, 14, 11, 0, 0, 0, time.UTC)):
		case r.Content != "The key." && fmt.Sprint(r.Tags, r.Keywords) == "[release ops] [ship friday rollout]" && r.Importance == 0.7:
		default:
			t.Errorf("%+v", r)
		}
	}
	want(t, "again", runs(t, f.Client(t), source, importer.Options{}), 0, 2, 0, 0, 0)
}

func TestClaudeMemoryWithOtherTypes(t *testing.T) {
	t.Parallel()
	tables := map[string]string{
		"postgres arrays": claudePostgres(t, `CREATE TABLE memories (id uuid PRIMARY KEY, content text, tags text[], expanded_keywords jsonb, importance integer, is_sensitive integer, created_at timestamp);
			INSERT INTO memories VALUES ('00000000-0000-4000-8000-000000000001', 'a', '{x,"y z"}', '["k", "l m"]', 10, 1, '2026-01-02 03:04:05')`),
		"sqlite json": claudeSQLite(t, `CREATE TABLE memories (id TEXT, content TEXT, tags TEXT, expanded_keywords TEXT, importance INTEGER, is_sensitive TEXT, created_at INTEGER);
			INSERT INTO memories VALUES ('00000000-0000-4000-8000-000000000001', 'a', '["x", "y z"]', '{k,"l m"}', 10, 'true', 1767323045)`),
	}
	for name, location := range tables {
		t.Run(name, func(t *testing.T) {
			source := claude(t, location, "")
			items := read(t, source)
			m := items["memories 00000000-0000-4000-8000-000000000001"].Memory
			if m.GetId() != "00000000-0000-4000-8000-000000000001" || fmt.Sprint(m.GetTags()) != "[x y z]" || len(m.GetTags()) != 2 || len(m.GetExpandedKeywords()) != 2 ||
				m.GetImportance() != 1 || !m.GetSensitive() || !m.GetCreatedAt().AsTime().Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
				t.Errorf("%v", items)
			}
			if got := strings.Join(source.Findings(), "\n"); !strings.Contains(got, "no column category: none") || !strings.Contains(got, "1 to 10") {
				t.Errorf("findings %q", got)
			}
		})
	}
}

// What ids and lists become must never change: a later import updates what an earlier one stored.
func TestClaudeMemoryStaysTheSame(t *testing.T) {
	t.Parallel()
	const columns = `CREATE TABLE memories (id integer PRIMARY KEY, content text, tags %s, expanded_keywords %s, created_at %s); `
	for name, x := range map[string]struct{ location, created string }{
		"postgres": {claudePostgres(t, fmt.Sprintf(columns, "text[]", "jsonb", "timestamptz")+
			`INSERT INTO memories VALUES (7, 'a', '{"y, z",x,NULL,"say \"hi\""}', '[20240115, "k"]', '2026-01-02 03:04:05+00'), (8, 'b', NULL, NULL, NULL)`), "2026-01-02T03:04:05+00:00"},
		"sqlite": {claudeSQLite(t, fmt.Sprintf(columns, "TEXT", "TEXT", "TEXT")+
			`INSERT INTO memories VALUES (7, 'a', '["y, z", "x", null, "say \"hi\""]', '[20240115, "k"]', '2026-01-02 03:04:05'), (8, 'b', NULL, NULL, NULL)`), "2026-01-02 03:04:05"},
	} {
		items := read(t, claude(t, x.location, ""))
		m := items["memories 7"].Memory
		if got := fmt.Sprintf("%q %q", m.GetTags(), m.GetExpandedKeywords()); got != `["y, z" "x" "say \"hi\""] ["20240115" "k"]` {
			t.Errorf("%s: lists %s", name, got)
		}
		for id, created := range map[string]string{"7": x.created, "8": "<nil>"} {
			want := uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/triskele/triskele/importer/claude-memory-mcp/"+id+"\x00"+created))
			if got := items["memories "+id].Memory.GetId(); got != want.String() {
				t.Errorf("%s: row %s has the id %s, want %s", name, id, got, want)
			}
		}
	}
}

// Nothing keeps the ids of a table without a primary key apart, or there at all: one row must not replace another.
func TestClaudeMemoryWithoutPrimaryKey(t *testing.T) {
	t.Parallel()
	rows := `CREATE TABLE memories (id integer, content text, user_id integer, vault_path integer);
		INSERT INTO memories VALUES (1, 'a', 7, NULL), (1, 'b', 7, NULL), (2, 'c', 7, NULL), (NULL, 'd', 7, NULL), (NULL, 'e', 7, 1)`
	for name, location := range map[string]string{"postgres": claudePostgres(t, rows), "sqlite": claudeSQLite(t, rows)} {
		t.Run(name, func(t *testing.T) {
			f := storetest.SQLite(t)
			c := f.Client(t)
			report := runs(t, c, claude(t, location, "7"), importer.Options{})
			want(t, "first", report, 4, 0, 0, 0, 1)
			if len(report.Problems) != 2 || !slices.ContainsFunc(report.Problems, func(p importer.Problem) bool { return p.Reason == "id twice" && p.Position == "memories 1" }) {
				t.Errorf("%s", report)
			}
			want(t, "again", runs(t, c, claude(t, location, "7"), importer.Options{}), 0, 4, 0, 0, 1)
		})
	}
}

// A user may have rights to the columns alone that are imported.
func TestClaudeMemoryWithRightsToSomeColumns(t *testing.T) {
	t.Parallel()
	url := claudePostgres(t, `CREATE TABLE memories (id serial PRIMARY KEY, content text, importance integer, dropped text, private text);
		ALTER TABLE memories DROP COLUMN dropped;
		INSERT INTO memories (content, importance) VALUES ('Deploys freeze on Thursday.', 7);
		GRANT SELECT (id, content, importance) ON memories TO PUBLIC`)
	items := read(t, claude(t, pgtest.Login(t, url, "lexical"), ""))
	for _, item := range items {
		if item.Memory.GetContent() != "Deploys freeze on Thursday." || item.Memory.GetImportance() != .7 {
			t.Errorf("got %v, want the memory", item)
		}
	}
	if len(items) != 1 {
		t.Errorf("got %d memories, want 1", len(items))
	}
}

func TestClaudeMemoryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	bare := claudeSQLite(t, `CREATE TABLE memories (content); INSERT INTO memories VALUES ('a'), ('a'), (x'ff'), (NULL), (7), ('`+strings.Repeat("x", 70_000)+`')`)
	items := read(t, claude(t, bare, ""))
	kinds := map[string]int{}
	keys := map[string]bool{}
	for _, item := range items {
		if item.Problem != nil {
			kinds[item.Problem.Reason]++
			continue
		}
		keys[item.Memory.GetIdempotencyKey()] = true
	}
	if fmt.Sprint(kinds) != "map[invalid content:1 no content:2 not UTF-8:1]" || len(keys) != 2 {
		t.Errorf("%v, %v", kinds, keys)
	}
	for name, test := range map[string][3]string{
		"no table":   {claudeSQLite(t, "CREATE TABLE other (x)"), "memories", "there is no table memories"},
		"no content": {claudeSQLite(t, "CREATE TABLE memories (text)"), "memories", "has no column content"},
		"no file":    {filepath.Join(t.TempDir(), "none.db"), "memories", "none.db: no such file or directory"},
		"bad URL":    {"postgres://ada:hunter2@[", "memories", "the PostgreSQL URL is not valid"},
		"other URL":  {"postgresql+asyncpg://ada:hunter2@h/db", "memories", "begins with postgres:// or postgresql://"},
		"bad name":   {claudeSQLite(t, "CREATE TABLE memories (content)"), `"; DROP TABLE memories`, "there is no table"},
	} {
		source, err := importer.OpenClaudeMemory(t.Context(), test[0], test[1], "", "claude")
		if err == nil || !strings.Contains(err.Error(), test[2]) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", name, source, err)
		}
	}
}

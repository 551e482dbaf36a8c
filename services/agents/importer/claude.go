package importer

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"google.golang.org/protobuf/types/known/timestamppb"
	_ "modernc.org/sqlite" // the driver

	"github.com/triskele/triskele/fuser/platform/clip"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const rowIDs = "https://github.com/triskele/triskele/importer/claude-memory-mcp/"

// ClaudeMemory reads the memories of claude-memory-mcp from its PostgreSQL or SQLite database. It does not write to it. The
// table needs a column content. Other columns may be missing, and then have defaults. A memory's id follows from the row's id
// and time of creation, so that a later import updates it.
//
// Columns have different types from one version to another. So all values are read as text, to which both databases convert them.
type ClaudeMemory struct {
	db        *sql.DB
	find      string // the statement that returns the quoted name of the table $1, or NULL if there is none
	list      string // the statement that returns the columns of the table $1, with their types
	text      string // a column as text
	namespace string
	table     string            // the table's name, quoted for statements
	name      string            // the table's name as the user gave it
	columns   map[string]string // types of the known columns, by name
	ignored   []string          // unknown columns
	links     bool              // there is a table of links between memories
	user      string
	whole     bool  // importance is from 1 to 10
	total     int64 // rows to import
	deleted   int64 // rows that are marked as deleted
}

// imported are the columns that make up a memory, with the default for a missing column.
var imported = []struct{ column, without string }{
	{"content", ""}, {"id", "keys from the contents"}, {"category", "none"}, {"tags", "none"}, {"expanded_keywords", "none"},
	{"importance", "0.5"}, {"is_sensitive", "not sensitive"}, {"created_at", "the time of the import"}, {"updated_at", "the time of creation"},
}

// consulted are columns that decide about a row, but are not part of a memory.
var consulted = []string{"user_id", "deleted_at", "vault_path", "encrypted_content"}

// OpenClaudeMemory opens a PostgreSQL URL or the path of a SQLite file. user selects the memories of one user, and is required
// if there are several. Close the source when done.
func OpenClaudeMemory(ctx context.Context, location, table, user, namespace string) (_ *ClaudeMemory, err error) {
	s := &ClaudeMemory{
		find: `SELECT (SELECT '"' || replace(name, '"', '""') || '"' FROM pragma_table_list WHERE name = $1 COLLATE NOCASE)`,
		list: "SELECT name, type FROM pragma_table_xinfo($1) WHERE hidden <> 1",
		text: "CAST(%s AS text)", namespace: namespace, name: table, user: user,
	}
	if strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://") {
		config, err := pgx.ParseConfig(location)
		if err != nil {
			return nil, errors.New("the PostgreSQL URL is not valid") // the cause would show the password
		}
		maps.Copy(config.RuntimeParams, map[string]string{"default_transaction_read_only": "on", "timezone": "UTC", "datestyle": "ISO"})
		s.find, s.db = "SELECT to_regclass($1)::text", stdlib.OpenDB(*config)
		s.list = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute " +
			"WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
		s.text = "to_json(%s) #>> '{}'" // arrays as JSON, and times by RFC 3339
	} else if strings.Contains(location, "://") { // it may have a password, so it is not repeated
		return nil, errors.New("the database must be a file, or a URL that begins with postgres:// or postgresql://")
	} else if s.db, err = openSQLite(location); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(1)
	if err := s.inspect(ctx); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// openSQLite opens the database of another program, to read only.
func openSQLite(location string) (*sql.DB, error) {
	path, err := filepath.Abs(location)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil { // SQLite's words do not name the file
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: "mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(5000)"}
	return sql.Open("sqlite", dsn.String())
}

// Close closes the database.
func (s *ClaudeMemory) Close() error { return s.db.Close() }

// scan calls fn with each row of a query.
func scan(ctx context.Context, db *sql.DB, fn func(*sql.Rows) error, statement string, args ...any) error {
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// named returns the quoted name of a table, or "" if there is none.
func (s *ClaudeMemory) named(ctx context.Context, table string) (string, error) {
	var quoted sql.NullString
	err := s.db.QueryRowContext(ctx, s.find, table).Scan(&quoted)
	return quoted.String, err
}

// inspect reads the table's columns, the number of rows and the range of importance.
func (s *ClaudeMemory) inspect(ctx context.Context) (err error) {
	if s.table, err = s.named(ctx, s.name); err != nil {
		return fmt.Errorf("look for the table %s: %w", s.name, err)
	}
	if s.table == "" {
		return fmt.Errorf("there is no table %s", s.name)
	}
	if err := s.findColumns(ctx); err != nil {
		return err
	}
	if !s.has("content") {
		return fmt.Errorf("the table %s has no column content", s.name)
	}
	links, err := s.named(ctx, "memory_links")
	if err != nil {
		return err
	}
	s.links = links != "" && s.has("id") && s.name == "memories"
	if s.has("user_id") {
		if err := s.checkUser(ctx); err != nil {
			return err
		}
	}
	largest := "NULL"
	if s.has("importance") {
		largest = "max(m.importance)"
	}
	var importance sql.NullFloat64
	where, args := s.where()
	if err := s.db.QueryRowContext(ctx, "SELECT count(*), "+largest+" FROM "+s.table+" m"+where, args...).Scan(&s.total, &importance); err != nil {
		return err
	}
	s.whole = importance.Float64 > 1 || strings.Contains(s.columns["importance"], "int")
	if s.has("deleted_at") {
		return s.db.QueryRowContext(ctx, "SELECT count(*) FROM "+s.table+" WHERE deleted_at IS NOT NULL").Scan(&s.deleted)
	}
	return nil
}

// findColumns reads the columns of the table. The catalog has them for users with rights to some columns, too.
func (s *ClaudeMemory) findColumns(ctx context.Context) error {
	s.columns = map[string]string{}
	return scan(ctx, s.db, func(rows *sql.Rows) error {
		var name, of string
		err := rows.Scan(&name, &of)
		known := slices.Contains(consulted, name)
		for _, i := range imported {
			known = known || i.column == name
		}
		if known {
			s.columns[name] = strings.ToLower(of)
		} else {
			s.ignored = append(s.ignored, name)
		}
		return err
	}, s.list, s.name)
}

func (s *ClaudeMemory) has(column string) bool { _, ok := s.columns[column]; return ok }

// checkUser returns an error if the memories of several users would go into one namespace.
func (s *ClaudeMemory) checkUser(ctx context.Context) error {
	var users []string
	err := scan(ctx, s.db, func(rows *sql.Rows) error {
		users = append(users, "")
		return rows.Scan(&users[len(users)-1])
	}, "SELECT DISTINCT user_id FROM "+s.table+" WHERE user_id IS NOT NULL ORDER BY user_id")
	switch {
	case err != nil:
		return err
	case s.user == "" && len(users) > 1:
		return fmt.Errorf("the table %s has memories of %d users (%s): choose one with --user", s.name, len(users), strings.Join(users, ", "))
	case s.user != "" && !slices.Contains(users, s.user):
		return fmt.Errorf("the table %s has no memories of user %s", s.name, s.user)
	}
	return nil
}

// where returns the condition that leaves out deleted rows and rows of other users, and its arguments.
func (s *ClaudeMemory) where() (condition string, args []any) {
	condition = " WHERE TRUE"
	if s.has("deleted_at") {
		condition += " AND m.deleted_at IS NULL"
	}
	if s.user != "" && s.has("user_id") {
		condition, args = condition+" AND m.user_id = $1", []any{s.user}
	}
	return condition, args
}

// Findings describe the table: its columns, the defaults for missing columns, and the data that is not imported.
func (s *ClaudeMemory) Findings() []string {
	var found, missing []string
	for _, c := range imported {
		if s.has(c.column) {
			found = append(found, c.column)
		} else {
			missing = append(missing, "no column "+c.column+": "+c.without)
		}
	}
	out := append([]string{"columns found: " + strings.Join(found, ", ")}, missing...)
	if s.whole {
		out = append(out, "importance is from 1 to 10, and is divided by 10")
	}
	if s.deleted > 0 {
		out = append(out, fmt.Sprintf("%d deleted rows are left out", s.deleted))
	}
	if len(s.ignored) > 0 {
		out = append(out, "not imported: "+strings.Join(s.ignored, ", "))
	}
	return out
}

// Total implements Source, in rows.
func (s *ClaudeMemory) Total() int64 { return s.total }

// Read implements Source, in the order of the rows' ids.
func (s *ClaudeMemory) Read(ctx context.Context, take func(Item) error) error {
	links, err := s.readLinks(ctx)
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.columns)), func(name string) bool {
		return name == "content" || name == "user_id" || name == "deleted_at" // the last two are in the condition
	})
	fields := []string{"m.content"}
	for _, name := range names {
		if name == "encrypted_content" {
			fields = append(fields, "CASE WHEN m.encrypted_content IS NOT NULL THEN 'yes' END")
		} else {
			fields = append(fields, s.asText("m."+name))
		}
	}
	order := "m.id"
	if !s.has("id") {
		order = "1"
	}
	where, args := s.where()
	keys, last, n := occurrences{}, "", int64(0)
	var content any
	values := make([]sql.NullString, len(names))
	into := []any{&content}
	for i := range values {
		into = append(into, &values[i])
	}
	return scan(ctx, s.db, func(rows *sql.Rows) error {
		n++
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("%s, row %d: %w", s.name, n, err)
		}
		texts := map[string]string{}
		for i, name := range names {
			texts[name] = values[i].String
		}
		item, err := s.item(n, content, texts, links, keys)
		if err != nil {
			return err
		}
		if id := item.Memory.GetId(); id != "" { // a table without a primary key may repeat an id
			if id == last {
				item = skip(item.Position, "id twice", "the row before has the same id and time of creation")
			}
			last = id
		}
		item.Done = n
		return take(item)
	}, "SELECT "+strings.Join(fields, ", ")+" FROM "+s.table+" m"+where+" ORDER BY "+order, args...)
}

func (s *ClaudeMemory) asText(column string) string { return fmt.Sprintf(s.text, column) }

type rowLink struct{ id, created, relation sql.NullString }

// readLinks returns the links between rows, by the id of the row that has them.
func (s *ClaudeMemory) readLinks(ctx context.Context) (map[string][]rowLink, error) {
	if !s.links {
		return nil, nil
	}
	created := "NULL"
	if s.has("created_at") {
		created = s.asText("d.created_at")
	}
	links := map[string][]rowLink{}
	err := scan(ctx, s.db, func(rows *sql.Rows) error {
		var from sql.NullString
		var l rowLink
		err := rows.Scan(&from, &l.id, &l.created, &l.relation)
		links[from.String] = append(links[from.String], l)
		return err
	}, "SELECT "+s.asText("l.src_id")+", "+s.asText("d.id")+", "+created+", l.link_type FROM memory_links l JOIN memories d ON d.id = l.dst_id ORDER BY l.id")
	return links, err
}

// item converts a row. Its values are those of the columns beside the content, by name, and empty for NULL.
func (s *ClaudeMemory) item(n int64, column any, values map[string]string, links map[string][]rowLink, keys occurrences) (Item, error) {
	id, created := values["id"], values["created_at"]
	position := fmt.Sprintf("%s row %d", s.name, n)
	if id != "" {
		position = s.name + " " + strings.ToValidUTF8(id, "?")
	}
	content, ok := column.(string)
	if bytes, blob := column.([]byte); blob {
		content, ok = string(bytes), true
	}
	texts := append(slices.Collect(maps.Values(values)), content)
	switch {
	case slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) }):
		return skip(position, "not UTF-8", "the row is not UTF-8"), nil
	case !ok || content == "":
		return skip(position, "no content", "the row has no text"), nil
	}
	item := Item{Position: position, Replaces: id != "", Memory: &triskelev1.Memory{
		Namespace: s.namespace, Content: content, Category: values["category"], Source: clip.Text("claude-memory-mcp "+position, maxSource),
	}}
	m := item.Memory
	m.Tags = item.list("tags", listOf(values["tags"], ","), maxTags)
	m.ExpandedKeywords = item.list("keywords", listOf(values["expanded_keywords"], " "), maxKeywords)
	m.Sensitive = item.sensitive(values["is_sensitive"])
	s.importance(&item, values["importance"])
	m.CreatedAt = item.time("created_at", created)
	m.UpdatedAt = item.time("updated_at", values["updated_at"])
	if values["vault_path"] != "" || values["encrypted_content"] != "" {
		item.note("secret not included", "the table has the text without its secret")
	}
	if id != "" {
		m.Id = s.id(id, created)
		for _, l := range links[id] {
			target := s.id(l.id.String, l.created.String)
			if l.relation.String == "supersedes" && m.GetSupersedes() == "" {
				m.Supersedes = target
			}
			if !item.link(target, l.relation.String) {
				break
			}
		}
	} else if err := keys.mark(m); err != nil {
		return Item{}, err
	}
	return item, item.check()
}

// id returns the memory id for a row: its own id if that is a UUID, else a UUID that follows from id and time. It must
// stay the same, since a later import updates what an earlier one stored.
func (s *ClaudeMemory) id(id, created string) string {
	if own, err := uuid.Parse(id); err == nil {
		return own.String()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(rowIDs+id+"\x00"+cmp.Or(created, "<nil>"))).String()
}

// importance sets the importance, from a value of 0 to 1, or of 1 to 10 if the table uses that range.
func (s *ClaudeMemory) importance(item *Item, value string) {
	f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	switch {
	case value == "":
		return
	case err != nil:
		item.note("importance not understood", "0.5 is used instead")
		return
	case s.whole:
		f /= 10
	}
	item.Memory.Importance = &f
}

// time parses a value of a column. For an unknown form it returns nil and adds a note.
func (i *Item) time(column, value string) *timestamppb.Timestamp {
	if value == "" {
		return nil
	}
	at, ok := parseTime(value)
	if !ok {
		i.note("time not understood", column+" is not imported")
		return nil
	}
	return timestamppb.New(at)
}

package importer

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const rowIDs = "https://github.com/triskele/triskele/importer/claude-memory-mcp/"

// ClaudeMemory reads the memories of claude-memory-mcp from its PostgreSQL or SQLite database. It does not write to it. The
// table needs a column content. Other columns may be missing, and then have defaults. A memory's id follows from the row's id
// and time of creation, so that a later import updates it.
type ClaudeMemory struct {
	db        *sql.DB
	dialect   dialect
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

var _ Source = (*ClaudeMemory)(nil)

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
	s := &ClaudeMemory{namespace: namespace, name: table, user: user}
	if strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://") {
		config, err := pgx.ParseConfig(location)
		if err != nil {
			return nil, errors.New("the PostgreSQL URL is not valid") // the cause would show the password
		}
		if config.RuntimeParams == nil {
			config.RuntimeParams = map[string]string{}
		}
		config.RuntimeParams["default_transaction_read_only"] = "on"
		config.RuntimeParams["timezone"] = "UTC"
		s.dialect, s.db = postgresDialect{}, stdlib.OpenDB(*config)
	} else {
		s.dialect = sqliteDialect{}
		if s.db, err = openSQLite(location); err != nil {
			return nil, err
		}
	}
	s.db.SetMaxOpenConns(1)
	if err := s.inspect(ctx); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// Close closes the database.
func (s *ClaudeMemory) Close() error { return s.db.Close() }

// inspect reads the table's columns, the number of rows and the range of importance.
func (s *ClaudeMemory) inspect(ctx context.Context) error {
	var found []column
	var err error
	if s.table, found, err = s.dialect.columns(ctx, s.db, s.name); err != nil {
		return fmt.Errorf("look for the table %s: %w", s.name, err)
	}
	if len(found) == 0 {
		return fmt.Errorf("there is no table %s", s.name)
	}
	s.columns = map[string]string{}
	for _, c := range found {
		if slices.Contains(consulted, c.name) || slices.ContainsFunc(imported, func(i struct{ column, without string }) bool { return i.column == c.name }) {
			s.columns[c.name] = c.kind
		} else {
			s.ignored = append(s.ignored, c.name)
		}
	}
	if !s.has("content") {
		return fmt.Errorf("the table %s has no column content", s.name)
	}
	if _, found, err = s.dialect.columns(ctx, s.db, "memory_links"); err != nil {
		return err
	}
	s.links = len(found) > 0 && s.has("id") && s.name == "memories"
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
	s.whole = importance.Float64 > 1 || strings.Contains(strings.ToLower(s.columns["importance"]), "int")
	if s.has("deleted_at") {
		return s.db.QueryRowContext(ctx, "SELECT count(*) FROM "+s.table+" WHERE deleted_at IS NOT NULL").Scan(&s.deleted)
	}
	return nil
}

func (s *ClaudeMemory) has(column string) bool { _, ok := s.columns[column]; return ok }

// checkUser returns an error if the memories of several users would go into one namespace.
func (s *ClaudeMemory) checkUser(ctx context.Context) error {
	users, err := scanRows(ctx, s.db, func(user *string) []any { return []any{user} },
		"SELECT DISTINCT user_id FROM "+s.table+" WHERE user_id IS NOT NULL ORDER BY user_id")
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
func (s *ClaudeMemory) where() (string, []any) {
	var conditions []string
	var args []any
	if s.has("deleted_at") {
		conditions = append(conditions, "m.deleted_at IS NULL")
	}
	if s.user != "" && s.has("user_id") {
		conditions, args = append(conditions, "m.user_id = $1"), append(args, s.user)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// Findings describe the table: its columns, the defaults for missing columns, and the data that is not imported.
func (s *ClaudeMemory) Findings() []string {
	var found, out []string
	for _, c := range imported {
		if s.has(c.column) {
			found = append(found, c.column)
		}
	}
	out = append(out, "columns found: "+strings.Join(found, ", "))
	for _, c := range imported {
		if !s.has(c.column) {
			out = append(out, "no column "+c.column+": "+c.without)
		}
	}
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

// Items implements Source, in the order of the rows' ids.
func (s *ClaudeMemory) Items(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		fields := map[string]string{}
		for name := range s.columns {
			fields[name] = "m." + name
		}
		delete(fields, "user_id") // this and the next are in the condition
		delete(fields, "deleted_at")
		if s.has("encrypted_content") {
			fields["encrypted_content"] = "m.encrypted_content IS NOT NULL"
		}
		where, args := s.where()
		order := "m.id"
		if !s.has("id") {
			order = "1"
		}
		rows, err := s.db.QueryContext(ctx, "SELECT "+s.dialect.row(fields, s.links)+" FROM "+s.table+" m"+where+" ORDER BY "+order, args...)
		if err != nil {
			yield(Item{}, err)
			return
		}
		defer func() { _ = rows.Close() }()
		keys, last := occurrences{}, ""
		for n := int64(1); rows.Next(); n++ {
			var text []byte
			if err := rows.Scan(&text); err != nil {
				yield(Item{}, fmt.Errorf("%s, row %d: %w", s.name, n, err))
				return
			}
			item, err := s.item(text, n, keys, &last)
			if err != nil {
				yield(Item{}, err)
				return
			}
			item.Done = n
			if !yield(item, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Item{}, err)
		}
	}
}

// row is a row as JSON. Most values may have several types, which follow from their column's type.
type row struct {
	ID         json.RawMessage `json:"id"`
	Content    any             `json:"content"`
	Category   any             `json:"category"`
	Tags       any             `json:"tags"`
	Keywords   any             `json:"expanded_keywords"`
	Importance any             `json:"importance"`
	Sensitive  any             `json:"is_sensitive"`
	Created    any             `json:"created_at"`
	Updated    any             `json:"updated_at"`
	Vault      any             `json:"vault_path"`
	Encrypted  any             `json:"encrypted_content"`
	Links      []rowLink       `json:"links"`
}

// rowLink is a link to another row.
type rowLink struct {
	ID       json.RawMessage `json:"id"`
	Created  any             `json:"created_at"`
	Relation string          `json:"relation"`
}

// item converts a row. last is the id of the memory from the row before.
func (s *ClaudeMemory) item(text []byte, number int64, keys occurrences, last *string) (Item, error) {
	position := fmt.Sprintf("%s row %d", s.name, number)
	var r row
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&r); err != nil {
		return skip(position, "row not understood", "a value has an unexpected type"), nil
	}
	named := len(r.ID) > 0 && string(r.ID) != "null"
	if named {
		position = s.name + " " + strings.Trim(string(r.ID), `"`)
	}
	if !utf8.Valid(text) { // the decoder has replaced invalid bytes
		return skip(position, "not UTF-8", "the row is not UTF-8"), nil
	}
	content, ok := r.Content.(string)
	if !ok || content == "" {
		return skip(position, "no content", "the row has no text"), nil
	}
	item := Item{Position: position, Replaces: named, Memory: &triskelev1.Memory{
		Namespace: s.namespace, Content: content, Source: clip("claude-memory-mcp "+position, maxSource),
	}}
	m := item.Memory
	m.Category, _ = r.Category.(string)
	m.Tags = item.list("tags", listOf(r.Tags, ","), maxTags)
	m.ExpandedKeywords = item.list("keywords", listOf(r.Keywords, " "), maxKeywords)
	m.Sensitive = item.sensitive(r.Sensitive)
	if r.Importance != nil {
		s.importance(&item, r.Importance)
	}
	m.CreatedAt = item.time("created_at", r.Created)
	m.UpdatedAt = item.time("updated_at", r.Updated)
	if secret, _ := r.Encrypted.(bool); r.Vault != nil && r.Vault != "" || secret || r.Encrypted == json.Number("1") {
		item.note("secret not included", "the table has the text without its secret")
	}
	if named {
		m.Id = s.id(r.ID, r.Created)
		if m.GetId() == *last { // a table without a primary key may repeat an id
			return skip(position, "id twice", "the row before has the same id and time of creation"), nil
		}
		*last = m.GetId()
		s.link(&item, r.Links)
	} else {
		key, err := keys.key(m)
		if err != nil {
			return Item{}, err
		}
		m.IdempotencyKey = key
	}
	return item, item.check()
}

// id returns the memory id for a row: its own id if that is a UUID, else a UUID that follows from namespace, id and time.
func (s *ClaudeMemory) id(id json.RawMessage, created any) string {
	text := strings.Trim(string(id), `"`)
	if own, err := uuid.Parse(text); err == nil {
		return own.String()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s%s\x00%s\x00%v", rowIDs, s.namespace, text, created)).String()
}

// importance sets the importance, from a value of 0 to 1, or of 1 to 10 if the table uses that range.
func (s *ClaudeMemory) importance(item *Item, value any) {
	f, ok := number(value)
	if !ok {
		item.note("importance not understood", "0.5 is used instead")
		return
	}
	if s.whole {
		f /= 10
	}
	item.Memory.Importance = &f
}

// link adds the row's links. The first link with the relation supersedes also sets the memory's supersedes.
func (s *ClaudeMemory) link(item *Item, links []rowLink) {
	for _, l := range links {
		target := s.id(l.ID, l.Created)
		if l.Relation == "supersedes" && item.Memory.GetSupersedes() == "" {
			item.Memory.Supersedes = target
		}
		if len(item.Memory.GetLinks()) == maxLinks {
			item.note("too many links", fmt.Sprintf("a memory has at most %d links", maxLinks))
			return
		}
		item.Memory.Links = append(item.Memory.Links, &triskelev1.Link{Target: target, Relation: l.Relation})
	}
}

// time parses a value of a column. For an unknown form it returns nil and adds a note.
func (i *Item) time(column string, value any) *timestamppb.Timestamp {
	if value == nil || value == "" {
		return nil
	}
	at, ok := parseTime(value)
	if !ok {
		i.note("time not understood", column+" is not imported")
		return nil
	}
	return timestamppb.New(at)
}

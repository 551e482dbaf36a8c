package importer

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const mem0IDs = "https://github.com/triskele/triskele/importer/mem0/"

// Mem0 reads memories of mem0: the JSON that get_all and exports return, or the SQLite file of its history. It does not write to them.
type Mem0 struct {
	name, namespace string
	memories        []mem0Memory
}

type mem0Memory struct {
	ID         mem0ID
	Memory     string
	Text       string // in older versions
	UserID     mem0ID `json:"user_id"`
	AgentID    mem0ID `json:"agent_id"`
	RunID      mem0ID `json:"run_id"`
	Categories []string
	Metadata   map[string]any
	CreatedAt  any   `json:"created_at"`
	UpdatedAt  any   `json:"updated_at"`
	Last       any   `json:"expiration_date"` // the last day
	wrong      error // the reason if it is no memory
}

// mem0ID is a text, or a number as it is written.
type mem0ID string

func (id *mem0ID) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*string)(id)) == nil {
		return nil
	}
	return json.Unmarshal(data, (*json.Number)(id))
}

// OpenMem0 reads a file.
func OpenMem0(ctx context.Context, location, namespace string) (*Mem0, error) {
	text, err := os.ReadFile(location)
	if err != nil {
		return nil, err
	}
	m := &Mem0{name: filepath.Base(location), namespace: namespace}
	if bytes.HasPrefix(text, []byte("SQLite format 3\x00")) {
		m.memories, err = mem0History(ctx, location)
		return m, err
	}
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	var list []json.RawMessage
	if bytes.HasPrefix(text, []byte("[")) {
		err = json.Unmarshal(text, &list)
	} else {
		var wrapped struct{ Results, Memories []json.RawMessage }
		err = json.Unmarshal(text, &wrapped)
		list = append(wrapped.Results, wrapped.Memories...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s has no memories of mem0: %w", location, err)
	}
	if list == nil {
		return nil, errors.New(location + " has no memories of mem0: a list, or an object with results")
	}
	m.memories = make([]mem0Memory, len(list))
	for i, one := range list {
		m.memories[i].wrong = json.Unmarshal(one, &m.memories[i])
	}
	return m, nil
}

// mem0History returns the last version of each memory that was not deleted.
func mem0History(ctx context.Context, location string) ([]mem0Memory, error) {
	db, err := openSQLite(location)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	// created_at is that of the memory in an event, and updated_at that of the event.
	var memories []mem0Memory
	err = scan(ctx, db, func(rows *sql.Rows) error {
		var m mem0Memory
		err := rows.Scan(&m.ID, &m.Memory, &m.CreatedAt, &m.UpdatedAt)
		memories = append(memories, m)
		return err
	}, `
		SELECT memory_id, coalesce(new_memory, ''), coalesce(created_at, ''), coalesce(updated_at, '') FROM history h
		WHERE event <> 'DELETE' AND coalesce(is_deleted, 0) = 0
		  AND rowid = (SELECT max(rowid) FROM history WHERE memory_id = h.memory_id) ORDER BY rowid`)
	if err != nil {
		return nil, fmt.Errorf("this is no history of mem0: %w", err)
	}
	return memories, nil
}

// Total implements Source, in memories.
func (m *Mem0) Total() int64 { return int64(len(m.memories)) }

// Read implements Source.
func (m *Mem0) Read(_ context.Context, take func(Item) error) error {
	for i, one := range m.memories {
		item, err := m.item(fmt.Sprintf("%s:%d", m.name, i+1), one)
		if err != nil {
			return err
		}
		item.Done = int64(i + 1)
		if err := take(item); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mem0) item(position string, one mem0Memory) (Item, error) {
	if one.wrong != nil {
		return skip(position, "not a memory", "not a memory: "+one.wrong.Error()), nil
	}
	content := cmp.Or(one.Memory, one.Text)
	item := Item{Position: position, Replaces: true, Memory: &triskelev1.Memory{Namespace: m.namespace, Content: content, Source: "mem0"}}
	if one.ID == "" {
		one.ID, item.Replaces = mem0ID(content), false
	}
	item.Memory.Id = uuid.NewSHA1(uuid.NameSpaceURL, []byte(mem0IDs+string(one.ID))).String()
	item.Memory.Tags = item.list("tags", one.Categories, maxTags)
	metadata := map[string]any{}
	maps.Copy(metadata, one.Metadata)
	for key, value := range map[string]mem0ID{"user_id": one.UserID, "agent_id": one.AgentID, "run_id": one.RunID} {
		if value != "" {
			metadata[key] = string(value)
		}
	}
	if len(metadata) > 0 {
		var err error
		if item.Memory.Metadata, err = structpb.NewStruct(metadata); err != nil {
			item.note("metadata left out", "it is no JSON")
		}
	}
	if at, ok := parseTime(one.CreatedAt); ok {
		item.Memory.CreatedAt = timestamppb.New(at)
		item.Memory.UpdatedAt = item.Memory.GetCreatedAt()
	}
	if at, ok := parseTime(one.UpdatedAt); ok && item.Memory.GetCreatedAt() != nil && at.After(item.Memory.GetCreatedAt().AsTime()) {
		item.Memory.UpdatedAt = timestamppb.New(at)
	}
	if last, ok := parseTime(one.Last); ok {
		item.Memory.ExpiresAt = timestamppb.New(last.AddDate(0, 0, 1))
	}
	return item, item.check()
}

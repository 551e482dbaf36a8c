// Package demo shows what recall does on a corpus of hand-written memories, and checks what it claims.
package demo

import (
	"bytes"
	_ "embed" // the corpus is part of the program
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

var (
	//go:embed corpus.jsonl
	corpusJSONL []byte
	//go:embed queries.jsonl
	queriesJSONL []byte
)

// Namespace is where the demo stores its memories.
const Namespace = "demo"

// idSpace makes the ids of the corpus from its keys.
var idSpace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/triskele/triskele/services/agents/demo"))

// ID is the memory id of a key of the corpus.
func ID(key string) string { return uuid.NewSHA1(idSpace, []byte(key)).String() }

// Query is a question with the keys of the memories that answer it.
type Query struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Stratum  string   `json:"stratum"`
	Relevant []string `json:"relevant"`
}

// Queries reads the embedded questions.
func Queries() ([]Query, error) {
	var queries []Query
	err := eachLine(queriesJSONL, func(line []byte) error {
		queries = append(queries, Query{})
		return json.Unmarshal(line, &queries[len(queries)-1])
	})
	return queries, err
}

// Corpus reads the embedded memories. A line is a memory in the API's JSON form, except that key stands for its id and
// supersedes holds a key.
func Corpus() ([]*triskelev1.Memory, error) {
	var memories []*triskelev1.Memory
	byID := map[string]*triskelev1.Memory{}
	err := eachLine(corpusJSONL, func(line []byte) error {
		var fields map[string]json.RawMessage
		var names struct{ Key, Supersedes string }
		if err := json.Unmarshal(line, &fields); err != nil {
			return err
		}
		if err := json.Unmarshal(line, &names); err != nil {
			return err
		}
		delete(fields, "key")
		delete(fields, "supersedes")
		rest, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		m := &triskelev1.Memory{}
		if err := protojson.Unmarshal(rest, m); err != nil {
			return err
		}
		m.Id, m.Namespace = ID(names.Key), Namespace
		if names.Supersedes != "" {
			old := byID[ID(names.Supersedes)]
			if old == nil {
				return fmt.Errorf("%s supersedes %s, which does not come before it", names.Key, names.Supersedes)
			}
			m.Supersedes, old.SupersededBy = old.GetId(), m.GetId()
		}
		byID[m.GetId()] = m
		memories = append(memories, m)
		return nil
	})
	return memories, err
}

func eachLine(text []byte, fn func([]byte) error) error {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := fn(line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

// Package demo shows recall on a corpus of hand-written memories, and checks every claim that it prints. Its process is:
//
//  1. Start all services in this process, on a temporary SQLite database, and import the corpus.
//  2. Run the showcases one after the other: exact words, paraphrases, several hops, superseded and sensitive memories.
//  3. Show the trace of one recall, then a leg that is too slow and a leg that is dead.
//  4. Ask all questions of the corpus and print recall and MRR, with all legs and with one leg alone.
//
// A claim that does not hold is an error. If the claim is about the meaning of words, it is an error with the built-in
// embedder only: other embedders may find other memories.
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

// idSpace is the namespace of the UUIDs that are made from the corpus's keys.
var idSpace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/triskele/triskele/services/demo"))

// ID returns the memory id of a key of the corpus.
func ID(key string) string { return uuid.NewSHA1(idSpace, []byte(key)).String() }

// Query is a question with the keys of the memories that answer it.
type Query struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Stratum  string   `json:"stratum"`
	Relevant []string `json:"relevant"`
}

// Queries reads the embedded questions.
func Queries() ([]Query, error) { return decode[Query](queriesJSONL) }

// Corpus reads the embedded memories. A line is a memory in the API's JSON form, except that key stands for its id and
// supersedes holds a key.
func Corpus() ([]*triskelev1.Memory, error) {
	lines, err := decode[json.RawMessage](corpusJSONL)
	if err != nil {
		return nil, err
	}
	memories := make([]*triskelev1.Memory, len(lines))
	byID := map[string]*triskelev1.Memory{}
	for i, line := range lines {
		var names struct{ Key, Supersedes string }
		if err := json.Unmarshal(line, &names); err != nil {
			return nil, fmt.Errorf("corpus, line %d: %w", i+1, err)
		}
		m := &triskelev1.Memory{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(line, m); err != nil {
			return nil, fmt.Errorf("corpus, line %d: %w", i+1, err)
		}
		m.Id, m.Namespace = ID(names.Key), Namespace
		if names.Supersedes != "" {
			old := byID[ID(names.Supersedes)]
			if old == nil {
				return nil, fmt.Errorf("%s supersedes %s, which does not come before it", names.Key, names.Supersedes)
			}
			m.Supersedes, old.SupersededBy = old.GetId(), m.GetId()
		}
		byID[m.GetId()], memories[i] = m, m
	}
	return memories, nil
}

// decode returns the JSON values in a text, one after the other.
func decode[T any](text []byte) (values []T, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for decoder.More() && err == nil {
		var value T
		err = decoder.Decode(&value)
		values = append(values, value)
	}
	return values, err
}

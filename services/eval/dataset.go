package eval

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"buf.build/go/protovalidate"
	"github.com/google/uuid"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	corpusFile  = "corpus.jsonl"
	queriesFile = "queries.jsonl"
	qrelsFile   = "qrels.tsv"
)

// epoch is the time of the first document, unless it has a date. Each further document is a second younger. So the order of
// equal scores does not depend on the time of the import.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Set is a retrieval collection: documents, queries, and judgments of which documents answer which query.
type Set struct {
	Name        string
	Namespaces  []string             // sorted
	Memories    []*triskelev1.Memory // the documents, in the file's order
	Documents   map[string]string    // document ids by memory id
	Queries     []Query              // those with a relevant document
	Unjudged    int                  // queries without a relevant document, which are left out
	Unreachable int                  // relevant documents that are not in the query's namespace
}

// Query is a question with its judgments.
type Query struct {
	ID        string
	Text      string
	Namespace string
	Stratum   string         // its category, or ""
	Grades    map[string]int // by document id; above 0 is relevant
	Stale     []string       // outdated documents; used, like the grades, to judge rankings only
}

// label is a string. Its JSON may also be a number, or null for an empty string.
type label string

func (l *label) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*string)(l)) != nil && json.Unmarshal(text, (*json.Number)(l)) != nil {
		return errors.New("must be a string")
	}
	return nil
}

// document and question have the fields of a line that may be used. The metadata also has answers, evidence and annotations.
// These stay unread, since a ranking that used them would be worthless.
type document struct {
	ID       string `json:"_id"`
	Title    string `json:"title"`
	Text     string `json:"text"`
	Metadata struct {
		Scope    label  `json:"scope"`
		Date     any    `json:"date"`
		Session  label  `json:"session"`
		Position *int64 `json:"position"`
	} `json:"metadata"`
}

type question struct {
	ID       string `json:"_id"`
	Text     string `json:"text"`
	Metadata struct {
		Scope    label    `json:"scope"`
		Category label    `json:"category"`
		Stale    []string `json:"stale_ids"`
	} `json:"metadata"`
}

// Load reads the set in a folder, and names it after the folder. It keeps the first limit queries with a relevant document, or
// all if limit is 0. An error names the file and the line.
func Load(folder string, limit int) (*Set, error) {
	s := &Set{Name: filepath.Base(folder), Documents: map[string]string{}}
	namespaceOf, err := s.loadCorpus(filepath.Join(folder, corpusFile))
	if err != nil {
		return nil, err
	}
	grades, err := loadJudgments(filepath.Join(folder, qrelsFile))
	if err != nil {
		return nil, err
	}
	if err := s.loadQueries(filepath.Join(folder, queriesFile), grades, namespaceOf, limit); err != nil {
		return nil, err
	}
	if len(s.Queries) == 0 {
		return nil, fmt.Errorf("%s: no query has a relevant document", folder)
	}
	return s, nil
}

func (s *Set) loadCorpus(path string) (namespaceOf map[string]string, err error) {
	namespaceOf = map[string]string{}
	scopes := map[string]label{}
	err = eachLine(path, func(line []byte) error {
		var d document
		if err := json.Unmarshal(line, &d); err != nil {
			return err
		}
		if err := checkID(d.ID); err != nil {
			return err
		}
		if namespaceOf[d.ID] != "" {
			return fmt.Errorf("document %q is repeated", d.ID)
		}
		namespace, err := Namespace(s.Name, string(d.Metadata.Scope))
		if err != nil {
			return err
		}
		if scope, known := scopes[namespace]; known && scope != d.Metadata.Scope {
			return fmt.Errorf("scopes %q and %q would share the namespace %s", scope, d.Metadata.Scope, namespace)
		}
		m := s.memory(d, namespace)
		if err := checkBounds(fmt.Sprintf("document %q", d.ID), m); err != nil {
			return err
		}
		scopes[namespace], namespaceOf[d.ID], s.Documents[m.GetId()] = d.Metadata.Scope, namespace, d.ID
		s.Memories = append(s.Memories, m)
		return nil
	})
	if err == nil && len(s.Memories) == 0 {
		err = fmt.Errorf("%s: no documents", path)
	}
	s.link()
	s.Namespaces = slices.Sorted(maps.Keys(scopes))
	return namespaceOf, err
}

// memory returns the memory for a document. Its id follows from the set and the document, so a repeated import changes nothing.
func (s *Set) memory(d document, namespace string) *triskelev1.Memory {
	m := &triskelev1.Memory{
		Id:        uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/triskele/triskele/eval/"+s.Name+"/"+d.ID)).String(),
		Namespace: namespace,
		Title:     d.Title,
		Content:   cmp.Or(d.Text, d.Title),
		CreatedAt: timestamppb.New(epoch.Add(time.Duration(len(s.Memories)) * time.Second)),
	}
	if m.Thread = string(d.Metadata.Session); m.Thread != "" {
		position := int64(len(s.Memories))
		if d.Metadata.Position != nil {
			position = *d.Metadata.Position
		}
		m.Position = &position
	}
	if text, ok := d.Metadata.Date.(string); ok {
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil {
				m.CreatedAt = timestamppb.New(at.UTC())
				break
			}
		}
	}
	return m
}

var markdownLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// maxLinks is the API's bound of the links of a memory.
const maxLinks = 256

// link turns Markdown links between documents of a namespace into links between their memories. The import of a folder of notes
// does the same.
func (s *Set) link() {
	type place struct{ namespace, document string }
	at := map[place]string{}
	for _, m := range s.Memories {
		at[place{m.GetNamespace(), s.Documents[m.GetId()]}] = m.GetId()
	}
	for _, m := range s.Memories {
		seen := map[string]bool{"": true, m.GetId(): true}
		for _, match := range markdownLink.FindAllStringSubmatch(m.GetContent(), -1) {
			if target := at[place{m.GetNamespace(), match[1]}]; !seen[target] && len(m.Links) < maxLinks {
				seen[target] = true
				m.Links = append(m.Links, &triskelev1.Link{Target: target, Relation: "links_to"})
			}
		}
	}
}

var notInNamespace = regexp.MustCompile(`[^a-z0-9._-]+`)

// Namespace returns the namespace for the documents of a scope: "set/scope" in lower case. It replaces characters that a
// namespace cannot have by "-".
func Namespace(set, scope string) (string, error) {
	namespace := ""
	parts := []string{set, scope}
	if scope == "" {
		parts = parts[:1]
	}
	for _, part := range parts {
		clean := strings.TrimLeft(notInNamespace.ReplaceAllString(strings.ToLower(part), "-"), "._-")
		if clean == "" {
			return "", fmt.Errorf("%q cannot be made a namespace: a letter or digit is needed", part)
		}
		namespace += "/" + clean
	}
	return namespace[1:], nil
}

// loadJudgments returns the grades of documents by query.
func loadJudgments(path string) (map[string]map[string]int, error) {
	grades := map[string]map[string]int{}
	header := true
	err := eachLine(path, func(line []byte) error {
		fields := strings.Split(string(line), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("%d columns, want query-id, corpus-id and score between tabs", len(fields))
		}
		grade, err := strconv.Atoi(fields[2])
		if header {
			header = false
			if err == nil {
				return errors.New("want a header, not a judgment")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("score %q is not a whole number", fields[2])
		}
		query, doc := fields[0], fields[1]
		if grades[query] == nil {
			grades[query] = map[string]int{}
		}
		if before, known := grades[query][doc]; known && before != grade {
			return fmt.Errorf("query %q has document %q graded %d and %d", query, doc, before, grade)
		}
		grades[query][doc] = grade
		return nil
	})
	return grades, err
}

func (s *Set) loadQueries(path string, grades map[string]map[string]int, namespaceOf map[string]string, limit int) error {
	seen := map[string]bool{}
	return eachLine(path, func(line []byte) error {
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		if err := checkID(q.ID); err != nil {
			return err
		}
		switch {
		case q.Text == "":
			return fmt.Errorf("query %q has no text", q.ID)
		case seen[q.ID]:
			return fmt.Errorf("query %q is repeated", q.ID)
		}
		seen[q.ID] = true
		namespace, err := Namespace(s.Name, string(q.Metadata.Scope))
		if err != nil {
			return err
		}
		if !slices.Contains(s.Namespaces, namespace) {
			return fmt.Errorf("query %q is for namespace %s, which has no documents", q.ID, namespace)
		}
		relevant, unreachable := 0, 0
		for id, grade := range grades[q.ID] {
			if grade > 0 {
				relevant++
				if namespaceOf[id] != namespace {
					unreachable++
				}
			}
		}
		switch {
		case relevant == 0:
			s.Unjudged++
			return nil
		case limit > 0 && len(s.Queries) == limit:
			return nil
		}
		s.Unreachable += unreachable
		query := Query{ID: q.ID, Text: q.Text, Namespace: namespace, Stratum: string(q.Metadata.Category), Grades: grades[q.ID], Stale: q.Metadata.Stale}
		if err := checkBounds(fmt.Sprintf("query %q", q.ID), query.request(nil)); err != nil {
			return err
		}
		s.Queries = append(s.Queries, query)
		return nil
	})
}

// checkBounds applies the API's bounds to a message before anything is imported.
func checkBounds(what string, message proto.Message) error {
	if err := rpc.FromViolations(what, protovalidate.Validate(message)); err != nil {
		return errors.New(status.Convert(err).Message())
	}
	return nil
}

// checkID refuses an id with white space, since it separates the columns of a run file.
func checkID(id string) error {
	if id == "" {
		return errors.New("_id is missing")
	}
	if strings.ContainsFunc(id, unicode.IsSpace) {
		return fmt.Errorf("_id %q has a space in it, which a TREC run file cannot hold", id)
	}
	return nil
}

// eachLine calls fn with every line that is not blank. It adds the file's name and the line's number to an error.
func eachLine(path string, fn func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, math.MaxInt)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))
		if len(bytes.TrimSpace(line)) > 0 {
			if err := fn(line); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

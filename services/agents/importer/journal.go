package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Position is a place in a source. All items before it are stored.
type Position struct {
	Items  int64  `json:"items"`
	Digest string `json:"digest"` // of these items
}

// Journal keeps the position of an import in a file, with a line for each batch that the server has acknowledged. If the
// program is killed while it writes a line, load recognises the torn line and drops it.
type Journal struct {
	path string
	file *os.File
}

// begins is the beginning of every journal.
const begins = `{"items":`

// OpenJournal opens or creates a journal. It refuses a file that is none, which would be overwritten. Close the journal when done.
func OpenJournal(path string) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(begins))
	n, err := file.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && !strings.HasPrefix(begins, string(head[:n])) {
		err = fmt.Errorf("%s has something else: name a file for the position alone", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Journal{path, file}, nil
}

type entry struct {
	Position
	Outcome
	// Since has the time of creation of each namespace that the import writes to for the first time.
	Since map[string]time.Time `json:"since,omitempty"`
}

// load returns the last position, and the report up to it. The position is zero in a new journal.
func (j *Journal) load() (Position, *Report, error) {
	text, err := os.ReadFile(j.path)
	if err != nil {
		return Position{}, nil, err
	}
	var last Position
	report := newReport()
	good := 0
	for line := range bytes.Lines(text) {
		var e entry
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &e) != nil || e.Items <= last.Items {
			break
		}
		last = e.Position
		report.add(e.Outcome)
		maps.Copy(report.Namespaces, e.Since)
		good += len(line)
	}
	report.Resumed = last.Items
	if good < len(text) {
		return last, report, j.file.Truncate(int64(good))
	}
	return last, report, nil
}

// append adds the outcome of a batch, and the position after it.
func (j *Journal) append(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("keep the position: %w", err)
	}
	return nil
}

// Reset forgets the position.
func (j *Journal) Reset() error { return j.file.Truncate(0) }

// finish removes the journal of a complete import.
func (j *Journal) finish() error { return os.RemoveAll(j.path) }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Package backup writes all namespaces of a database to one checksummed file and restores it into either engine.
//
// The file is JSON lines:
//  1. The first line has the format version.
//  2. Each namespace is a line with its name and its lexical settings, if they are not the defaults. It need have no memories. One
//     that has neither memories nor settings is left out.
//  3. Its memories follow, one a line, with ids, times, revisions, supersession and sensitivity.
//  4. The last line has the counts and the SHA-256 of all lines before it.
//
// Restore verifies the whole file before it stores anything. The services rebuild the indexes. A backup does not have
// the curator's decisions or the graph's facts.
package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
)

const (
	// format is the file's version. 2 has threads.
	format = 2
	// batch is the number of memories per read and write.
	batch = 500
	// maxLine bounds a line in bytes. The largest memory is well below it, even fully escaped.
	maxLine = 4 << 20
)

// Store holds the memories.
type Store interface {
	ListNamespaces(ctx context.Context, prefix, after string, n int) ([]memory.Namespace, error)
	Scan(ctx context.Context, namespace string, batch int, fn func([]record.Record) error) error
	Insert(ctx context.Context, records []record.Record) ([]memory.Inserted, error)
}

// Settings keeps the lexical settings of namespaces.
type Settings interface {
	Settings(ctx context.Context, namespace string) (lexical.Settings, error)
	Set(ctx context.Context, namespace string, s lexical.Settings) error
	// Configured returns the namespaces with settings of their own, in order. They need not exist.
	Configured(ctx context.Context) ([]string, error)
}

// line is one line of the file; exactly one of its fields is set.
type line struct {
	Backup    int             `json:"triskele_backup,omitempty"`
	Namespace *namespace      `json:"namespace,omitempty"`
	Memory    json.RawMessage `json:"memory,omitempty"`
	End       *end            `json:"end,omitempty"`
}

type namespace struct {
	Name     string            `json:"name"`
	Settings *lexical.Settings `json:"settings,omitempty"` // nil means the default
}

// end is the last line.
type end struct {
	Contents
	SHA256 string `json:"sha256"` // of all lines before, in hexadecimal
}

// Contents counts the items of a file.
type Contents struct {
	Namespaces int64 `json:"namespaces"`
	Memories   int64 `json:"memories"`
}

// Write backs up a database that is in use. Each namespace is a snapshot with all writes acknowledged before the call.
// Snapshots of two namespaces differ in time.
func Write(ctx context.Context, store Store, settings Settings, out io.Writer) (Contents, error) {
	buffered, sum := bufio.NewWriter(out), sha256.New()
	lines := json.NewEncoder(io.MultiWriter(buffered, sum))
	_ = lines.Encode(line{Backup: format}) // the encoder keeps an error of writing
	var contents Contents
	written := map[string]bool{}
	write := func(name string) error {
		if written[name] {
			return nil
		}
		written[name] = true
		if err := writeNamespace(ctx, store, settings, name, lines, &contents); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		return nil
	}
	for range 2 { // the second pass catches namespaces renamed meanwhile
		for after := ""; ; {
			list, err := store.ListNamespaces(ctx, "", after, batch)
			if err != nil {
				return contents, err
			}
			if len(list) == 0 {
				break
			}
			for _, n := range list {
				after = n.Name
				if err := write(n.Name); err != nil {
					return contents, err
				}
			}
		}
	}
	configured, err := settings.Configured(ctx) // some have no memory yet
	if err != nil {
		return contents, err
	}
	for _, name := range configured {
		if err := write(name); err != nil {
			return contents, err
		}
	}
	err = lines.Encode(line{End: &end{contents, hex.EncodeToString(sum.Sum(nil))}})
	return contents, errors.Join(err, buffered.Flush())
}

func writeNamespace(ctx context.Context, store Store, settings Settings, name string, lines *json.Encoder, contents *Contents) error {
	own, err := settings.Settings(ctx, name)
	if err != nil {
		return err
	}
	n := &namespace{Name: name}
	begin := sync.OnceValue(func() error {
		contents.Namespaces++
		return lines.Encode(line{Namespace: n})
	})
	if own != lexical.DefaultSettings() {
		n.Settings = &own
		if err := begin(); err != nil {
			return err
		}
	}
	return store.Scan(ctx, name, batch, func(records []record.Record) error {
		if err := begin(); err != nil {
			return err
		}
		for _, r := range records {
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(record.ToProto(r))
			if err != nil {
				return err
			}
			if err := lines.Encode(line{Memory: text}); err != nil {
				return err
			}
			contents.Memories++
		}
		return nil
	})
}

// DamagedError says where a file differs from a backup.
type DamagedError struct {
	Line int // from 1
	What string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the backup is damaged in line %d: %s", e.Line, e.What)
}

// Verify reads a whole file and counts its items. A file that is not a backup returns a *DamagedError.
func Verify(in io.Reader) (Contents, error) {
	return read(in, func(*namespace, *record.Record) error { return nil })
}

// Restore verifies a file and stores its memories. Identical memories in the store are left alone, so Restore can be repeated.
// A different memory with the same id returns a *memory.ConflictError.
func Restore(ctx context.Context, store Store, settings Settings, in io.ReadSeeker) (Contents, error) {
	if contents, err := Verify(in); err != nil {
		return contents, err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return Contents{}, err
	}
	var records []record.Record
	stored := 0
	flush := func() error {
		if len(records) == 0 {
			return nil
		}
		_, err := store.Insert(ctx, records)
		if conflict, ok := errors.AsType[*memory.ConflictError](err); ok {
			err = &memory.ConflictError{Index: stored + conflict.Index, ID: conflict.ID}
		}
		stored += len(records)
		records = records[:0]
		return err
	}
	contents, err := read(in, func(n *namespace, r *record.Record) error {
		switch {
		case n != nil && n.Settings != nil:
			return errors.Join(flush(), settings.Set(ctx, n.Name, *n.Settings))
		case n != nil:
			return flush() // a batch is of one namespace
		}
		if records = append(records, *r); len(records) == batch {
			return flush()
		}
		return nil
	})
	return contents, errors.Join(err, flush())
}

// read calls fn with each namespace, then its memories.
func read(in io.Reader, fn func(*namespace, *record.Record) error) (Contents, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	sum, number := sha256.New(), 0
	var contents Contents
	var last *end
	for lines.Scan() {
		number++
		damaged := func(what string) error { return &DamagedError{number, what} }
		if last != nil {
			return contents, damaged("data follows the end")
		}
		var l line
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if decoder.Decode(&l) != nil {
			return contents, damaged("it is not a line of a backup")
		}
		switch {
		case (number == 1) != (l.Backup != 0):
			return contents, damaged("the header of a backup is missing")
		case l.Backup > format:
			return contents, damaged("a newer program wrote it")
		case l.Namespace != nil:
			contents.Namespaces++
			if err := fn(l.Namespace, nil); err != nil {
				return contents, err
			}
		case l.Memory != nil:
			contents.Memories++
			r, err := decode(l.Memory)
			if err != nil {
				return contents, damaged("it does not hold a memory")
			}
			if err := fn(nil, &r); err != nil {
				return contents, err
			}
		case l.End != nil:
			if l.End.SHA256 != hex.EncodeToString(sum.Sum(nil)) || l.End.Contents != contents {
				return contents, damaged("the checksum does not match")
			}
			last = l.End
		}
		_, _ = sum.Write(lines.Bytes())
		_, _ = sum.Write([]byte{'\n'})
	}
	switch {
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return contents, &DamagedError{number + 1, "the line is too long"}
	case lines.Err() != nil:
		return contents, lines.Err()
	case last == nil:
		return contents, &DamagedError{number, "the file ends too early"}
	}
	return contents, nil
}

func decode(text []byte) (record.Record, error) {
	m := &triskelev1.Memory{}
	if err := protojson.Unmarshal(text, m); err != nil {
		return record.Record{}, err
	}
	if err := protovalidate.Validate(m); err != nil {
		return record.Record{}, err
	}
	return record.FromProto(m)
}

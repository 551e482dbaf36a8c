package importer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/lines"
)

// maxLine bounds a line of JSONL, in bytes. The largest memory is well below it, even with every character escaped.
const maxLine = 4 << 20

// JSONL reads one memory, in the API's JSON form, from each line that is not blank.
type JSONL struct {
	Name string // of the file, for positions
	Size int64  // of the file in bytes, -1 if unknown
	// Open returns the file from its start.
	Open func() (io.ReadCloser, error)
	// Namespace is the namespace of every memory, whatever its line says. Empty means the line's, or else DefaultNamespace.
	Namespace, DefaultNamespace string
}

// Total implements Source, in bytes.
func (s *JSONL) Total() int64 { return s.Size }

// Read implements Source.
func (s *JSONL) Read(_ context.Context, take func(Item) error) error {
	file, err := s.Open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	keys := occurrences{}
	for line, err := range lines.All(file, maxLine) {
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		position := fmt.Sprintf("%s:%d", s.Name, line.Number)
		item := skip(position, "line too long", fmt.Sprintf("a line has at most %d bytes", maxLine))
		if !line.Long {
			if item, err = s.item(position, line.Text, keys); err != nil {
				return fmt.Errorf("%s: %w", position, err)
			}
		}
		item.Done = line.End
		if err := take(item); err != nil {
			return err
		}
	}
	return nil
}

func (s *JSONL) item(position string, line []byte, keys occurrences) (Item, error) {
	m := &triskelev1.Memory{}
	if err := rpc.FromJSON(protojson.UnmarshalOptions{}, line, m); err != nil {
		// protojson varies the space after this prefix.
		return skip(position, "not a memory", "not a memory: "+strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))), nil
	}
	switch {
	case s.Namespace != "":
		m.Namespace = s.Namespace
	case m.GetNamespace() == "":
		m.Namespace = s.DefaultNamespace
	}
	if m.GetId() == "" && m.GetIdempotencyKey() == "" {
		if err := keys.mark(m); err != nil {
			return Item{}, err
		}
	}
	item := Item{Position: position, Memory: m}
	if rounded := roundedNumber(line); rounded != "" {
		item.note("number rounded", "metadata: "+rounded+" is kept as a floating-point number; write it as a string to keep every digit")
	}
	return item, item.check()
}

// occurrences counts memories with the same contents, by the first 64 bits of their hash. A collision is harmless: it changes
// the number in a key.
type occurrences map[uint64]uint32

// mark gives a memory an idempotency key that follows from its contents. The layout of their JSON does not matter. The second
// memory with the same contents gets another key, which is the same at each import.
func (o occurrences) mark(m *triskelev1.Memory) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	var contents any
	if err := json.Unmarshal(text, &contents); err != nil {
		return err
	}
	canonical, err := json.Marshal(contents) // with sorted keys
	if err != nil {
		return err
	}
	sum := sha256.Sum256(canonical)
	short := binary.BigEndian.Uint64(sum[:8])
	o[short]++
	m.IdempotencyKey = "import:" + hex.EncodeToString(sum[:])
	if n := o[short]; n > 1 {
		m.IdempotencyKey += fmt.Sprintf(":%d", n)
	}
	return nil
}

var manyDigits = regexp.MustCompile(`\d{16}`)

// roundedNumber returns an integer in the metadata of a line that a float64 cannot represent exactly, or "".
func roundedNumber(line []byte) string {
	if !manyDigits.Match(line) {
		return ""
	}
	var outer struct{ Metadata json.RawMessage }
	if json.Unmarshal(line, &outer) != nil {
		return "" // protojson accepts some JSON that encoding/json does not
	}
	decoder := json.NewDecoder(bytes.NewReader(outer.Metadata))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		number, _ := token.(json.Number)
		// Decimal fractions are almost always rounded, but are printed as they were written.
		if whole, ok := new(big.Int).SetString(number.String(), 10); ok {
			if _, accuracy := new(big.Float).SetInt(whole).Float64(); accuracy != big.Exact {
				return number.String()
			}
		}
	}
}

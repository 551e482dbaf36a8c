package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/cli/client"
)

type importCmd struct {
	File             string       `arg:"" help:"JSONL file with one memory, as in the API's JSON form, on each line; - reads standard input."`
	Namespace        string       `short:"n" help:"Put every memory into this namespace, whatever its line says."`
	DefaultNamespace string       `help:"Namespace of memories whose line names none." default:"default" env:"TRISKELE_NAMESPACE"`
	Wait             bool         `help:"Return only when all indexes have caught up."`
	Gateway          gatewayFlags `embed:""`
}

// Help is shown below the flags.
func (*importCmd) Help() string {
	return "A line that is no valid memory stops the import with its number; what comes before it is stored. " +
		"A memory with neither id nor idempotency_key gets a key made from its contents, so that running the same import again stores nothing twice."
}

// Run imports and says how much was new.
func (c *importCmd) Run(ctx context.Context, env *Env) error {
	in, name, size := env.In, "standard input", int64(-1)
	if c.File != "-" {
		name = c.File
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		in = file
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	return c.Gateway.with(ctx, func(s *session) error {
		bar := newProgress(env, size, "import")
		i := importer{command: c, client: s.Client, file: name, progress: bar, namespaces: map[string]bool{}}
		err := i.run(ctx, io.TeeReader(in, bar))
		bar.done()
		if printErr := env.print(fmt.Sprintf("stored %d, unchanged %d\n", i.stored, i.unchanged)); err == nil {
			err = printErr
		}
		if err != nil || !c.Wait {
			return err
		}
		for _, namespace := range slices.Sorted(maps.Keys(i.namespaces)) {
			if err := s.WaitIndexed(ctx, namespace, bar.waiting); err != nil {
				return err
			}
		}
		return env.print("indexed\n")
	})
}

// importer turns lines into batches.
type importer struct {
	command           *importCmd
	client            *client.Client
	file              string
	progress          *progress
	batch             []*triskelev1.Memory
	numbers           []int // of the batch's lines
	namespaces        map[string]bool
	stored, unchanged int64
}

func (i *importer) run(ctx context.Context, in io.Reader) error {
	err := lines(i.file, in, func(number int, line []byte) error {
		m, err := i.parse(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", i.file, number, err)
		}
		i.batch, i.numbers = append(i.batch, m), append(i.numbers, number)
		if len(i.batch) < client.BatchSize {
			return nil
		}
		return i.flush(ctx)
	})
	// What comes before a line that cannot be read is stored; after a refused batch there is nothing left to store.
	if flushErr := i.flush(ctx); flushErr != nil {
		return flushErr
	}
	return err
}

func (i *importer) parse(line []byte) (*triskelev1.Memory, error) {
	m := &triskelev1.Memory{}
	if err := protojson.Unmarshal(line, m); err != nil {
		// The prefix says nothing, and its space is not always the same.
		return nil, fmt.Errorf("not a memory: %s", strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:")))
	}
	switch {
	case i.command.Namespace != "":
		m.Namespace = i.command.Namespace
	case m.GetNamespace() == "":
		m.Namespace = i.command.DefaultNamespace
	}
	if m.GetId() == "" && m.GetIdempotencyKey() == "" {
		key, err := contentKey(m)
		if err != nil {
			return nil, err
		}
		m.IdempotencyKey = key
	}
	return m, nil
}

// contentKey is the same for the same contents, however their JSON is laid out.
func contentKey(m *triskelev1.Memory) (string, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return "", err
	}
	var contents any
	if err := json.Unmarshal(text, &contents); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(contents) // sorts the keys
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "import:" + hex.EncodeToString(sum[:]), nil
}

// flush stores the batch. If the server refuses one of its memories, those before it are stored.
func (i *importer) flush(ctx context.Context) error {
	batch, numbers := i.batch, i.numbers
	i.batch, i.numbers = nil, nil
	err := i.store(ctx, batch)
	at, reason, ok := client.Refused(err)
	if !ok || at >= len(batch) {
		return err
	}
	if err := i.store(ctx, batch[:at]); err != nil {
		return err
	}
	return fmt.Errorf("%s:%d: %s", i.file, numbers[at], reason)
}

func (i *importer) store(ctx context.Context, batch []*triskelev1.Memory) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, i.command.Gateway.Timeout)
	defer cancel()
	resp, err := i.client.Import(ctx, batch)
	if err != nil {
		return err
	}
	i.stored += resp.GetStored()
	i.unchanged += resp.GetUnchanged()
	for _, m := range batch {
		i.namespaces[m.GetNamespace()] = true
	}
	i.progress.stored(i.stored + i.unchanged)
	return nil
}

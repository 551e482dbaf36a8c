package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/triskele/triskele/services/agents/backup"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/record"
)

// kept is a store, and the settings, of one namespace in memory.
type kept struct {
	records  []record.Record
	settings lexical.Settings
}

func (k *kept) ListNamespaces(_ context.Context, _, after string, _ int) ([]memory.Namespace, error) {
	if after != "" {
		return nil, nil
	}
	return []memory.Namespace{{Name: "n"}}, nil
}

func (k *kept) Scan(_ context.Context, _ string, _ int, fn func([]record.Record) error) error {
	return fn(k.records)
}

func (k *kept) Insert(_ context.Context, records []record.Record) ([]memory.Inserted, error) {
	k.records = append(k.records, records...)
	return nil, nil
}

func (k *kept) Settings(context.Context, string) (lexical.Settings, error) { return k.settings, nil }

func (k *kept) Configured(context.Context) ([]string, error) { return nil, nil }

func (k *kept) Set(_ context.Context, _ string, s lexical.Settings) error {
	k.settings = s
	return nil
}

// FuzzRestore reads arbitrary lines, as they are and between a beginning and an end that fit. What is accepted is restored, and a
// backup of that holds the same.
func FuzzRestore(f *testing.F) {
	var valid bytes.Buffer
	if _, err := backup.Write(context.Background(), &kept{records: []record.Record{{Namespace: "n", Content: "c", Revision: 1}}}, &kept{}, &valid); err != nil {
		f.Fatal(err)
	}
	f.Add(valid.Bytes())
	f.Add([]byte(`{"memory":{"id":"01985a3c-7c1f-7000-8000-000000000001","namespace":"n","content":"c","revision":"1","metadata":{"a":[1e300,-0,null]}}}` + "\n"))
	f.Add([]byte(`{"namespace":{"name":"n","settings":{"prefix":true}}}` + "\n" + `{"memory":{}}` + "\n"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		restore(t, lines)
		text := append([]byte(`{"triskele_backup":1}`+"\n"), lines...)
		if !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		for memories := range 3 {
			for namespaces := range 2 {
				restore(t, fmt.Appendf(bytes.Clone(text), `{"end":{"namespaces":%d,"memories":%d,"sha256":"%x"}}`+"\n", namespaces, memories, sha256.Sum256(text)))
			}
		}
	})
}

func restore(t *testing.T, text []byte) {
	t.Helper()
	store := &kept{settings: lexical.DefaultSettings()}
	contents, err := backup.Restore(t.Context(), store, store, bytes.NewReader(text))
	if err != nil {
		if damaged := (*backup.DamagedError)(nil); !errors.As(err, &damaged) || len(store.records) > 0 {
			t.Fatalf("%d memories are stored, and the error is %v", len(store.records), err)
		}
		return
	}
	if int64(len(store.records)) != contents.Memories {
		t.Fatalf("%d memories are stored, the backup says %d", len(store.records), contents.Memories)
	}
	var again bytes.Buffer
	if _, err := backup.Write(t.Context(), store, store, &again); err != nil {
		t.Fatalf("what was restored cannot be backed up: %v", err)
	}
	if got, err := backup.Verify(&again); err != nil || got.Memories != contents.Memories {
		t.Fatalf("a backup of what was restored: %d memories, %v; want %d", got.Memories, err, contents.Memories)
	}
}

package importer_test

import (
	"bytes"
	"testing"

	"github.com/triskele/triskele/services/agents/importer"
	"github.com/triskele/triskele/services/store/record"
)

// FuzzJSONL reads arbitrary files: each line that is not blank is a memory or a problem, the progress goes on, and the file read again
// gives the same keys.
func FuzzJSONL(f *testing.F) {
	f.Add([]byte("\ufeff{\"content\":\"a\",\"metadata\":{\"n\":12345678901234567890}}\n\n{\"content\":\"a\"}\r\nnot JSON\n{\"namespace\":\"n\",\"content\":\"\\ud800\"}"))
	f.Add([]byte(`{"id":"01985a3c-7c1f-7000-8000-000000000001","content":"c","createdAt":"2024-01-01T00:00:00Z","revision":"9223372036854775807","links":[{"target":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func() (keys []string) {
			source := file(text, "")
			source.DefaultNamespace = "fuzz"
			done := int64(0)
			err := source.Read(t.Context(), func(item importer.Item) error {
				if (item.Memory == nil) == (item.Problem == nil) {
					t.Fatalf("neither a memory nor a problem, or both: %+v", item)
				}
				if item.Done <= done || item.Done > int64(len(text)) {
					t.Fatalf("%d of %d bytes are read, after %d", item.Done, len(text), done)
				}
				done = item.Done
				if item.Memory == nil {
					return nil
				}
				if _, err := record.FromProto(item.Memory); err != nil {
					t.Fatalf("%v: %v", err, item.Memory)
				}
				keys = append(keys, item.Memory.GetIdempotencyKey())
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return keys
		}
		first := read()
		if lines := bytes.Count(text, []byte("\n")) + 1; len(first) > lines {
			t.Fatalf("%d memories in %d lines", len(first), lines)
		}
		for i, key := range read() {
			if key != first[i] {
				t.Fatalf("key %d was %s, and is %s", i, first[i], key)
			}
		}
	})
}

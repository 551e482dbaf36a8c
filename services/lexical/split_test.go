package lexical

import (
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// What is split before the transaction is what the transaction would have split: in the language that the namespace has by then, of the
// texts that are stored.
func TestSplitBeforeTheTransaction(t *testing.T) {
	german := DefaultSettings()
	german.Language = "german"
	settings := map[string]Settings{"english": DefaultSettings(), "german": german}
	records := []record.Record{
		{Namespace: "english", ID: uuid.New(), Title: "Deploys", Content: "The houses were deployed", Keywords: []string{"housing"}, Tags: []string{"ops"}, Category: "work"},
		{Namespace: "german", ID: uuid.New(), Content: "Die Häuser wurden gebaut"},
	}
	var x Index
	for _, vectors := range []bool{true, false} {
		x.Vectors = vectors
		want, err := rowsOf(t.Context(), records, settings, vectors)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, ready split, records []record.Record, want []row) {
			t.Helper()
			got, err := ready.in(t.Context(), records, settings)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("tsvectors %v, %s: got %v, want %v", vectors, what, got, want)
			}
		}
		check("nothing ready", split{by: &Index{Vectors: vectors}}, records, want)
		check("ready", x.split(t.Context(), records), records, want)
		if got := x.split(t.Context(), records).rows; got[records[1].Key()].language != "german" || got[records[0].Key()].language != DefaultSettings().Language {
			t.Errorf("the languages are guessed as %v, want the last ones", got)
		}
		check("others", x.split(t.Context(), records[:1]), records[1:], want[1:])

		changed := records[0]
		changed.Tags = []string{"dev"}
		wantChanged, err := rowsOf(t.Context(), []record.Record{changed}, settings, vectors)
		if err != nil {
			t.Fatal(err)
		}
		check("other tags", x.split(t.Context(), records), []record.Record{changed}, wantChanged)

		x.last.Store(&map[string]Settings{"german": DefaultSettings()})
		if got := x.split(t.Context(), records).rows[records[1].Key()].language; got != DefaultSettings().Language {
			t.Errorf("the language is guessed as %q after it was the default, want the default", got)
		}
	}
}

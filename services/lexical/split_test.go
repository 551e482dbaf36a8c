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
		made := func(records []record.Record, settings map[string]Settings) split {
			t.Helper()
			rows := split{}
			if err := rows.add(t.Context(), records, settings, vectors); err != nil {
				t.Fatal(err)
			}
			return rows
		}
		guessed := func(records []record.Record) split {
			last, _ := x.last.Load().(map[string]Settings)
			return made(records, last)
		}
		want := made(records, settings)
		check := func(what string, ready split, records []record.Record, want split) {
			t.Helper()
			x.last.Store(settings)
			if err := ready.add(t.Context(), records, settings, vectors); err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if got, want := ready[r.Key()], want[r.Key()]; !reflect.DeepEqual(got, want) {
					t.Errorf("tsvectors %v, %s: got %v, want %v", vectors, what, got, want)
				}
			}
		}
		check("nothing ready", split{}, records, want)
		check("ready", guessed(records), records, want)
		if got := guessed(records); got[records[1].Key()].language != "german" || got[records[0].Key()].language != DefaultSettings().Language {
			t.Errorf("the languages are guessed as %v, want the last ones", got)
		}
		check("others", guessed(records[:1]), records[1:], want)

		changed := records[0]
		changed.Tags = []string{"dev"}
		check("other tags", guessed(records), []record.Record{changed}, made([]record.Record{changed}, settings))

		x.last.Store(map[string]Settings{"german": DefaultSettings()})
		if got := guessed(records)[records[1].Key()].language; got != DefaultSettings().Language {
			t.Errorf("the language is guessed as %q after it was the default, want the default", got)
		}
	}
}

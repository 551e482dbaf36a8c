package lexical

import (
	"testing"
)

// FuzzFrequencies reads what a database may send in place of a tsvector.
func FuzzFrequencies(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02heron\x00\x00\x02\x00\x01\xc0\x02crane\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x01heron"))
	f.Add([]byte("\x00\x00\x00\x01heron\x00\x00\x02\x00\x01"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, vector []byte) {
		length, found, err := frequenciesIn(vector, map[string]float64{"heron": 2})
		sum := 0
		for _, x := range found {
			sum += x.tf
		}
		if err == nil && (length < 0 || length < sum && length != 1<<16-1) {
			t.Errorf("got the length %d of a document with the frequencies %v, want their sum or more", length, found)
		}
	})
}

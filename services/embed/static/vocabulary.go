package static

import "iter"

// Vocabulary yields the words with a row of their own, in the order that NewModel was given: the most frequent first, for a
// trained model.
func (m *Model) Vocabulary() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range m.scales {
			if !yield(m.words[m.starts[i]:m.starts[i+1]]) {
				return
			}
		}
	}
}

package graph

// Key returns the normal form of a name, by which concepts are told apart: lower case, without accents, punctuation and
// possessive, single spaces, the last word in the singular. It is empty for a name without letters or digits.
func Key(name string) string { return key(words(name, maxDocumentWords)) }

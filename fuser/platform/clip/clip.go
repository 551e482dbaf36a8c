// Package clip shortens texts.
package clip

import "strings"

// Text returns at most the first n bytes of a text, without a broken character at the end.
func Text(text string, n int) string { return strings.ToValidUTF8(text[:min(n, len(text))], "") }

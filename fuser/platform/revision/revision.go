// Package revision has tokens for writes. A caller sends one to get an answer that includes its own write.
package revision

import (
	"errors"
	"strconv"
	"strings"
)

// Token names a write to a namespace. The database numbers writes. A write that began after another was acknowledged
// has the higher number. So a token includes all writes acknowledged before.
type Token struct {
	Namespace string
	Sequence  int64 // from 1; 0 is before every write
}

// version lets the form change, for instance to carry a replica's position as well.
const version = "1"

// String returns the form for callers, to whom it is opaque.
func (t Token) String() string {
	return version + ":" + strconv.FormatInt(t.Sequence, 36) + ":" + t.Namespace
}

// Parse is the inverse of String.
func Parse(text string) (Token, error) {
	form, rest, _ := strings.Cut(text, ":")
	number, namespace, ok := strings.Cut(rest, ":")
	sequence, err := strconv.ParseInt(number, 36, 64)
	if form != version || !ok || namespace == "" || err != nil || sequence < 0 {
		return Token{}, errors.New("not a revision token")
	}
	return Token{namespace, sequence}, nil
}

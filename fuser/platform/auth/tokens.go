package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/triskele/triskele/fuser/platform/replace"
)

// Scope is a kind of call that a token may allow.
type Scope string

// The scopes. None includes another.
const (
	Recall Scope = "recall" // recall, and the state of the indexes
	Read   Scope = "read"   // read records one by one, in lists and whole
	Write  Scope = "write"  // store, change and forget memories
	Admin  Scope = "admin"  // list, rename and delete namespaces
)

// Scopes are all scopes.
var Scopes = []Scope{Recall, Read, Write, Admin}

// Token is the record of a token. It has the token's hash only, so no reader of the file can use it.
type Token struct {
	ID   string `json:"id"`   // 12 hexadecimal digits; a part of the token
	Hash string `json:"hash"` // SHA-256 of the token, hexadecimal
	Name string `json:"name"` // for people
	// Namespaces are names, names followed by "/*" for all namespaces below, and "*" for all.
	Namespaces []string  `json:"namespaces"`
	Scopes     []Scope   `json:"scopes"`
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires,omitzero"` // zero: never
	Revoked    time.Time `json:"revoked,omitzero"` // zero: not
	// Rate is the calls per second in one namespace; 0 is the gateway's default.
	Rate float64 `json:"rate,omitempty"`
	// Quota is the memories stored per day in one namespace; 0 is the gateway's default.
	Quota float64 `json:"quota,omitempty"`
}

const (
	tokenPrefix = "trsk_"
	secretBytes = 32
	idBytes     = 6
)

var (
	namespacePattern = regexp.MustCompile(`^(\*|[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*(/\*)?)$`)
	idPattern        = regexp.MustCompile(`^[0-9a-f]{12}$`)
	hashPattern      = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// NewToken returns a new token and its record. grant gives Name, Namespaces, Scopes, Expires, Rate and Quota.
func NewToken(grant Token, now time.Time) (secret string, kept Token, err error) {
	random := make([]byte, idBytes+secretBytes)
	_, _ = rand.Read(random) // never fails
	kept = grant
	kept.ID = hex.EncodeToString(random[:idBytes])
	secret = tokenPrefix + kept.ID + "_" + base64.RawURLEncoding.EncodeToString(random[idBytes:])
	kept.Hash, kept.Created, kept.Revoked = hash(secret), now.UTC().Truncate(time.Second), time.Time{}
	return secret, kept, kept.check()
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret)) // enough for 256 random bits
	return hex.EncodeToString(sum[:])
}

func (t Token) check() error {
	switch {
	case !idPattern.MatchString(t.ID):
		return fmt.Errorf("id %q: must be 12 hexadecimal digits", t.ID)
	case !hashPattern.MatchString(t.Hash):
		return fmt.Errorf("token %s: hash must be 64 hexadecimal digits", t.ID)
	case len(t.Namespaces) == 0:
		return fmt.Errorf("token %s: namespaces must name at least one; \"*\" is all", t.ID)
	case len(t.Scopes) == 0:
		return fmt.Errorf("token %s: scopes must name at least one of %v", t.ID, Scopes)
	case t.Rate < 0 || t.Quota < 0:
		return fmt.Errorf("token %s: rate and quota must not be negative", t.ID)
	}
	for _, n := range t.Namespaces {
		if !namespacePattern.MatchString(n) {
			return fmt.Errorf("token %s: namespace %q must be a namespace, one followed by /*, or *", t.ID, n)
		}
	}
	for _, s := range t.Scopes {
		if !slices.Contains(Scopes, s) {
			return fmt.Errorf("token %s: scope %q must be one of %v", t.ID, s, Scopes)
		}
	}
	return nil
}

// State is "active", "expired" or "revoked".
func (t Token) State(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	}
	return "active"
}

type tokensFile struct {
	Tokens []Token `json:"tokens"`
}

// ParseTokens parses a tokens file. An error names the token and the field.
func ParseTokens(text []byte) ([]Token, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var file tokensFile
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("the file has data after the JSON object")
	}
	seen := map[string]bool{}
	for _, t := range file.Tokens {
		if err := t.check(); err != nil {
			return nil, err
		}
		if seen[t.ID] {
			return nil, fmt.Errorf("token %s is in the file twice", t.ID)
		}
		seen[t.ID] = true
	}
	return file.Tokens, nil
}

// ReadTokens reads a file of tokens.
func ReadTokens(path string) ([]Token, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tokens, err := ParseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tokens, nil
}

// ChangeTokens replaces a file's tokens by the result of change. A missing file has none. A lock on the file path +
// ".lock" orders changes by several processes.
func ChangeTokens(path string, change func([]Token) ([]Token, error)) (err error) {
	path = replace.Target(path) // gateways may read the file by that name
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if info, statErr := os.Stat(path); statErr == nil { // root's lock would keep the owner out
		made, err := os.Lstat(lock.Path()) // Lstat: root must not chown the target of a link in the owner's folder
		if err != nil {
			return err
		}
		if err := keepOwner(info, made, func(uid, gid int) error { return os.Lchown(lock.Path(), uid, gid) }); err != nil {
			return err
		}
	}
	tokens, err := ReadTokens(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if tokens, err = change(tokens); err != nil {
		return err
	}
	return WriteTokens(path, tokens)
}

// WriteTokens replaces a tokens file atomically. Only the owner can read a new one.
func WriteTokens(path string, tokens []Token) error {
	text, err := json.MarshalIndent(tokensFile{tokens}, "", "  ")
	if err != nil {
		return err
	}
	return replace.File(path, func(part *os.File) error {
		_, err := part.Write(append(text, '\n'))
		old, statErr := os.Stat(path)
		if statErr != nil {
			return err
		}
		made, statErr := part.Stat()
		if statErr != nil {
			return errors.Join(err, statErr)
		}
		return errors.Join(err, keepOwner(old, made, part.Chown), part.Chmod(old.Mode().Perm())) // a gateway of another user can still read it
	})
}

func verify(tokens map[string]Token, shown string, now time.Time) (Token, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(shown, tokenPrefix), "_")
	t, ok := tokens[id]
	if subtle.ConstantTimeCompare([]byte(hash(shown)), []byte(t.Hash)) != 1 || !ok {
		return Token{}, errUnknownToken
	}
	if state := t.State(now); state != "active" {
		return Token{}, fmt.Errorf("the token is %s", state)
	}
	return t, nil
}

var errUnknownToken = errors.New("the token is unknown")

func (t Token) allows(scope Scope, namespace string) bool {
	return slices.Contains(t.Scopes, scope) && slices.ContainsFunc(t.Namespaces, func(pattern string) bool { return covers(pattern, namespace) })
}

// covers reports whether a pattern includes a namespace, or all namespaces with a prefix that ends in "/" or is "".
func covers(pattern, namespace string) bool {
	above, wild := strings.CutSuffix(pattern, "*")
	if wild {
		return strings.HasPrefix(namespace, above)
	}
	return pattern == namespace
}

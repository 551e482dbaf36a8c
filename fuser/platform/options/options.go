// Package options reads the options behind a leg, a service or an embedder on a command line: ?NAME=VALUE&NAME=VALUE.
package options

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Option sets an option from its text.
type Option func(text string) error

// Parsed is an option that parse reads.
func Parsed[T any](to *T, parse func(string) (T, error)) Option {
	return func(text string) (err error) {
		*to, err = parse(text)
		return err
	}
}

// Set sets options from a URL query. The last value of an option counts.
func Set(query string, options map[string]Option) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the options cannot be read")
	}
	for name, all := range values {
		set, known := options[name]
		if !known {
			return fmt.Errorf("option %s is unknown: there are %s", name, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		if text := all[len(all)-1]; set(text) != nil {
			return fmt.Errorf("option %s: %q cannot be read", name, text)
		}
	}
	return nil
}

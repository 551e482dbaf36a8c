package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// withoutJSON are the commands that have no --json, and why.
var withoutJSON = map[string]string{
	"up": "serves", "mcp": "serves", "demo": "shows", "man": "is a page", "completion": "is a script", "version": "is a word",
	"hook": "has --format", "export": "is JSON", "graph export": "has --format", "eval": "writes report.json",
	"lexical reindex": "prints nothing", "service install": "prints nothing", "service uninstall": "prints nothing",
}

// TestGrammar: commands and flags keep to the same rules.
func TestGrammar(t *testing.T) {
	parser, err := newParser(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		command := strings.TrimPrefix(leaf.FullPath(), "triskele ")
		var flags []*kong.Flag
		for _, level := range leaf.AllFlags(false) {
			flags = append(flags, level...)
		}
		hasJSON := slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == "json" })
		if reason, exempt := withoutJSON[command]; exempt == hasJSON {
			t.Errorf("%s: --json is %t, and it is said that the command %q", command, hasJSON, reason)
		}
		if !strings.HasSuffix(leaf.Help, ".") {
			t.Errorf("%s: the help is no sentence: %q", command, leaf.Help)
		}
		for _, flag := range flags {
			if !flag.Hidden && flag.Name != "help" && !strings.HasSuffix(flag.Help, ".") {
				t.Errorf("%s --%s: the help is no sentence: %q", command, flag.Name, flag.Help)
			}
			for _, env := range flag.Envs {
				if !strings.HasPrefix(env, "TRISKELE_") {
					t.Errorf("%s --%s: %s is not called as the others are", command, flag.Name, env)
				}
			}
		}
		for _, arg := range leaf.Positional {
			if !strings.HasSuffix(arg.Help, ".") {
				t.Errorf("%s %s: the help is no sentence: %q", command, arg.Name, arg.Help)
			}
		}
	}
}

// TestOneMeaning: a variable, which is also a key at the top of the configuration file, sets flags of one kind.
func TestOneMeaning(t *testing.T) {
	parser, err := newParser(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	_ = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, env := range flag.Envs {
				kind := strings.TrimPrefix(flag.Target.Type().String(), "[]")
				if before, seen := kinds[env]; seen && before != kind {
					t.Errorf("%s sets a %s here and a %s there", env, before, kind)
				}
				kinds[env] = kind
			}
		}
		return next(nil)
	})
	if len(kinds) < 50 {
		t.Errorf("only %d variables were found", len(kinds))
	}
}

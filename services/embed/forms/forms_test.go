package forms

import (
	"slices"
	"strings"
	"testing"
)

// Acronyms are written out once, behind the text.
func TestWriteOut(t *testing.T) {
	for text, want := range map[string]string{
		"Which CRM, which crm?":                            "Which CRM, which crm? customer relationship management",
		"who flew to the database":                         "who flew to the database",
		"the customer relationship management and the CDN": "the customer relationship management and the CDN content delivery network",
		"Quais são os prazos? J'ai mal. Slå.":              "Quais são os prazos? J'ai mal. Slå.",
		"which OS, and the os":                             "which OS, and the os operating system",
		"the os and an OS":                                 "the os and an OS operating system",
		"":                                                 "",
		strings.Repeat("wood ", MaxVaried-1) + "CRM":       strings.Repeat("wood ", MaxVaried-1) + "CRM customer relationship management",
		strings.Repeat("wood ", MaxVaried) + "the CRM":     strings.Repeat("wood ", MaxVaried) + "the CRM",
	} {
		if got := WriteOut(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Each line has two forms or more, of few words in lower case, and none is there twice.
func TestLines(t *testing.T) {
	seen := map[string]bool{}
	for _, line := range Lines() {
		if whole := strings.Join(line, ", "); len(line) < 2 || whole != strings.ToLower(whole) || seen[whole] {
			t.Errorf("%q has one form, a capital, or is there twice", whole)
		} else {
			seen[whole] = true
		}
		for i, form := range line {
			if words := strings.Fields(form); len(words) < 1 || len(words) > MaxWords || strings.Join(words, " ") != form || slices.Contains(line[:i], form) {
				t.Errorf("%q of %q has no or many words, other space, or is there twice", form, line)
			}
		}
	}
}

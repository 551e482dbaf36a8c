package importer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzSplit: the sections of any text are the whole text, fit, are not many, and cut no character.
func FuzzSplit(f *testing.F) {
	f.Add("# a\n\nb\n\n## c\nd ä€ e", uint8(8), 3, 9)
	f.Add(strings.Repeat("ü", 50), uint8(5), 0, 0)
	f.Fuzz(func(t *testing.T, text string, most uint8, cut1, cut2 int) {
		if most < 16 || !utf8.ValidString(text) {
			return
		}
		var cuts []int
		for _, cut := range []int{cut1, cut2} {
			if cut > 0 && cut < len(text) && utf8.RuneStart(text[cut]) {
				cuts = append(cuts, cut)
			}
		}
		var whole strings.Builder
		sections := split(text, cuts, int(most))
		for i, s := range sections {
			part := text[s.start:s.end]
			whole.WriteString(part)
			if len(part) > int(most) || !utf8.ValidString(part) || (i < len(sections)-1 && len(part) < int(most)/4) {
				t.Errorf("section %d of %d: %q", i, len(sections), part)
			}
		}
		if whole.String() != text {
			t.Errorf("%q became %q", text, whole.String())
		}
	})
}

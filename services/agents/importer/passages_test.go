package importer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzCut: the passages of any text are the whole text, fit, are no scraps, and cut no character.
func FuzzCut(f *testing.F) {
	f.Add("# a\n\nb\n\n## c\nd ä€ e. F g.\n", uint16(80))
	f.Add("ü", uint16(5000))
	f.Add("A sentence. Another one! ", uint16(900))
	f.Add("# "+strings.Repeat("h", 3000)+"\n\n- x\n", uint16(3))
	f.Fuzz(func(t *testing.T, text string, times uint16) {
		text = strings.Repeat(text, int(times))
		if !utf8.ValidString(text) || len(text) > 1<<20 {
			return
		}
		var whole strings.Builder
		passages := cut(text, parseBody(text).blocks)
		for i, p := range passages {
			whole.WriteString(text[p.start:p.end])
			if size := p.end - p.from; size > mostPassage+leastPassage || size < leastPassage && i > 0 && i+1 < len(passages) || p.start-p.from > mostRepeated {
				t.Errorf("passage %d of %d has %d bytes, %d of them repeated", i, len(passages), size, p.start-p.from)
			}
			if part := text[p.from:p.end]; !utf8.ValidString(part) {
				t.Errorf("passage %d of %d cuts a character: %q", i, len(passages), part)
			}
		}
		if whole.String() != text {
			t.Errorf("%q became %q", text, whole.String())
		}
	})
}

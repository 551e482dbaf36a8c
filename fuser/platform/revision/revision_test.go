package revision

import "testing"

func TestRoundTrip(t *testing.T) {
	for _, token := range []Token{{"default", 0}, {"acme/assistant", 1}, {"a.b-c_d/e", 1<<63 - 1}} {
		if got, err := Parse(token.String()); err != nil || got != token {
			t.Errorf("Parse(%q) = %v, %v", token, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "1", "1:", "1:5", "1:5:", "2:5:default", "1:-5:default", "1:!:default", ":5:default", "1:zzzzzzzzzzzzzzzz:default"} {
		if token, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, token)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1:5:default")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(token.String()); err != nil || again != token {
			t.Errorf("%q: %v became %v, %v", text, token, again, err)
		}
	})
}

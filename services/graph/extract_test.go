package graph_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/store/record"
)

func TestKey(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"Projects", "project"},
		{"project", "project"},
		{"  Tide   Sensors ", "tide sensor"},
		{"Maren's", "maren"},
		{"Maren’s kitchen.", "maren kitchen"},
		{"Maren Vasterling’s", "maren vasterling"},
		{"Café Zürich", "cafe zurich"},
		{"Cafe\u0301 Zu\u0308rich", "cafe zurich"},
		{"Łódź, Straße", "lodz strasse"},
		{"Policies", "policy"},
		{"boxes", "box"},
		{"addresses", "address"},
		{"status", "status"},
		{"bus", "bus"},
		{"ties", "tie"},
		{"class", "class"},
		{"analysis", "analysis"},
		{"release-branches", "release-branch"},
		{"ERR_CONN_RESET", "err_conn_reset"},
		{"heron-db-2", "heron-db-2"},
		{"getUserById()", "getuserbyid"},
		{"v2.14.3.", "v2.14.3"},
		{"C++", "c++"},
		{"C#!", "c#"},
		{"O'Brien", "o'brien"},
		{"O’Brien", "o'brien"},
		{"AT&T", "at&t"},
		{"Marks & Spencer", "marks spencer"},
		{"“quoted” (tide)", "quoted tide"},
		{"Accel - Venture Capital", "accel venture capital"},
		{"東京", "東京"},
		{"한국어", "한국어"},
		{"...!?", ""},
		{"", ""},
		{"\xff\xfe", ""},
	} {
		if got := graph.Key(tt.name); got != tt.want {
			t.Errorf("Key(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
	if a, b := graph.Key("Marks & Spencer"), graph.Key("marks  &  spencer"); a != b {
		t.Errorf("spacing changes the key: %q, %q", a, b)
	}
}

func TestExtractNames(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"Maren Vasterling is the user. She is backend lead at Fenwright Labs, lives in Aldermouth with Teo and their two children.",
			[]string{"maren vasterling", "fenwright lab", "aldermouth", "teo"}},
		{"Teo is Maren's husband. He restores wooden boats in a shed by the canal.", []string{"teo", "maren"}},
		{"The release of v2.14.3 broke heron-db-2 with ERR_CONN_RESET in getUserById.",
			[]string{"v2.14.3", "heron-db-2", "err_conn_reset", "getuserbyid"}},
		{"We moved from Bank of Aldermouth to Vincent van Gogh Savings.", []string{"bank of aldermouth", "vincent van gogh saving"}},
		{"Caroline: Hey Mel! Good to see you! How have you been?", []string{"caroline", "mel"}},
		{"Rose: I planted a rose near the wall", []string{"rose"}},
		{"Note: never do this on Fridays or in January.", nil},
		{"Deployment failed because the deployment window had closed.", nil},
		{"However, it's fine. Don't worry. I'm here. We'll see. Running it twice helps. Recently nothing changed. Emily disagrees.",
			[]string{"emily"}},
		{"The API is slow. NASA said so. DO NOT restart.", []string{"api", "nasa"}},
		{"It took 20ms, 3rd try, a 14-day window, 100k rows, on 2025-01-06 at 12:30.", nil},
		{"Upgrade to Python 3.12 and Windows 11 by 2026.", []string{"python 3.12", "windows 11"}},
		{"See Dr. Vale and J. Okafor about it.", []string{"vale", "j okafor"}},
		{"[Mia Brown](people/mia-brown-0) founded Acme.", []string{"mia brown", "mia-brown-0", "acme"}},
		{"Write to ops@fenwright.example or edit values.yaml on 10.0.0.3, e.g. at night.", []string{"ops@fenwright.example", "values.yaml", "10.0.0.3"}},
		{"Meet Ana\nBerlin is cold", []string{"ana", "berlin"}},
		{"Ask Jean-Luc O'Neill of the Harbour Office.", []string{"jean-luc o'neill of the harbour office"}},
		{"My New Plan For A Better World Of Tides And Boats", []string{"new plan", "better world of tide", "boat"}},
		{"lower case only, nothing named", nil},
		{"東京タワーに行きました", nil},
		{"Élodie met Søren in Łódź.", []string{"elodie", "soren", "lodz"}},
		{"", nil},
		{"A", nil},
	} {
		var got []string
		for _, c := range graph.Extract(record.Record{Content: tt.text}) {
			if c.Salience == 0.3 {
				continue // a noun phrase
			}
			if c.Kind != graph.KindName || c.Salience != 0.6 {
				t.Errorf("%q: %+v is no name", tt.text, c)
			}
			got = append(got, c.Key)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q:\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

func TestExtractSources(t *testing.T) {
	got := graph.Extract(record.Record{
		Title:    "Package managers",
		Content:  "Maren prefers pnpm over npm in every JavaScript repository.",
		Tags:     []string{"JavaScript", "tools"},
		Keywords: []string{"lockfile", "Package Manager"},
	})
	want := []graph.Concept{
		{Key: "package manager", Name: "Package managers", Kind: graph.KindTitle, Salience: 1},
		{Key: "javascript", Name: "JavaScript", Kind: graph.KindTag, Salience: 0.8},
		{Key: "tool", Name: "tools", Kind: graph.KindTag, Salience: 0.8},
		{Key: "lockfile", Name: "lockfile", Kind: graph.KindKeyword, Salience: 0.8},
		{Key: "maren", Name: "Maren", Kind: graph.KindName, Salience: 0.6},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}

	t.Run("a long title is text", func(t *testing.T) {
		got := graph.Extract(record.Record{Title: "why the tide sensor of Teo in Aldermouth stopped yesterday night", Content: "Maren asked."})
		var keys []string
		for _, c := range got {
			keys = append(keys, c.Key)
		}
		if want := []string{"teo", "aldermouth", "maren", "tide sensor"}; !slices.Equal(keys, want) {
			t.Errorf("got %q, want %q", keys, want)
		}
	})
	t.Run("bounds", func(t *testing.T) {
		var text strings.Builder
		for i := range 100 {
			text.WriteString("we met ID" + strings.Repeat("x", i+1) + "7 there. ")
		}
		got := graph.Extract(record.Record{Title: "Guests", Content: text.String(), Tags: []string{"party"}})
		if len(got) != 32 || got[0].Key != "guest" || got[1].Key != "party" {
			t.Errorf("%d concepts, %+v first", len(got), got[:2])
		}
	})
}

func FuzzExtract(f *testing.F) {
	f.Add("Title", "Maren met Teo of the Harbour at heron-db-2. Dr. Vale: don't!", "tag")
	f.Add("", "\xff of The The of A. B& 'x' -- ’s C++ İstanbul ǅ ﬁ \u0301", "İ")
	f.Add("a b c d e f g h I", "É\u0301 99.9.9 @@ a@b.c __x__ …", "'s")
	f.Fuzz(func(t *testing.T, title, content, tag string) {
		concepts := graph.Extract(record.Record{Title: title, Content: content, Tags: []string{tag}, Keywords: []string{content}})
		if len(concepts) > 32 {
			t.Fatalf("%d concepts", len(concepts))
		}
		seen := map[string]bool{}
		for i, c := range concepts {
			switch {
			case c.Key == "" || c.Name == "":
				t.Fatalf("%+v has no name", c)
			case seen[c.Key]:
				t.Fatalf("%q twice", c.Key)
			case graph.Key(c.Name) != c.Key:
				t.Fatalf("Key(%q) = %q, not %q", c.Name, graph.Key(c.Name), c.Key)
			case len(strings.Fields(c.Key)) > 8:
				t.Fatalf("%q is too long", c.Key)
			case i > 0 && c.Salience > concepts[i-1].Salience, c.Salience <= 0, c.Salience > 1:
				t.Fatalf("salience %v", c.Salience)
			}
			seen[c.Key] = true
		}
	})
}

func TestExtractPhrases(t *testing.T) {
	var got []string
	for _, c := range graph.Extract(record.Record{Content: "the tide sensor, a brass bell and the very long wooden harbour bridge cable"}) {
		got = append(got, c.Key)
	}
	if want := []string{"tide sensor", "brass bell"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExtractAliases(t *testing.T) {
	for _, tt := range []struct {
		title, content, alias, of string
	}{
		{"Accel - Venture Capital", "", "accel", "accel venture capital"},
		{"Heat (1995)", "", "heat", "heat 1995"},
		{"Accel - a firm whose name is too long to be one of anything", "", "accel", ""},
		{"", "The American Psychological Association (APA) publishes it.", "apa", "american psychological association"},
		{"", "The Bank of Aldermouth (BA) opened.", "ba", "bank of aldermouth"},
		{"", "The Bank of Aldermouth (XY) opened.", "xy", ""},
		{"The plan: more boats", "", "the plan", "the plan more boat"},
		{"Update: more boats", "", "update", ""},
	} {
		found := false
		for _, c := range graph.Extract(record.Record{Title: tt.title, Content: tt.content}) {
			if c.Key != tt.alias {
				continue
			}
			found = true
			if c.AliasOf != tt.of {
				t.Errorf("%q %q: %q is another name of %q, want %q", tt.title, tt.content, c.Key, c.AliasOf, tt.of)
			}
		}
		if !found && tt.of != "" {
			t.Errorf("%q %q: no %q", tt.title, tt.content, tt.alias)
		}
	}
}

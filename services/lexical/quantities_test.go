package lexical

import (
	"slices"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/leg"
)

// A number, an amount, a time or a date counts as its other forms, too.
func TestQuantities(t *testing.T) {
	texts := []string{
		"batches of 10,000 rows", "batches of 10000", "some 10k batches", "a 2,500,000 euro grant", "a disk of 25MB", "25 MB in all", "planning at 15:00", "the train at 9:30",
		"since 2026-03-31", "on the 31st of March", "March 1", "version 3.14", "12:00 for lunch", "00:30 and dark", "a plan at 3 PM", "tea at 3:15 pm",
		"dinner 2026-12-12", "leave on 2026-05-05", "leave on 2019-03-31", "25 megabytes", "the 12th of June",
	}
	m := imageOf(DefaultSettings(), texts...)
	for query, want := range map[string][]int{
		"10,000":       {0, 1, 2},
		"10000":        {0, 1, 2},
		"10k":          {0, 1, 2},
		"2500000":      {3},
		"2,500k":       {3},
		"25 megabytes": {4, 5, 19},
		"25MB":         {4, 5, 19},
		"June 12":      {20},
		"3 pm":         {6, 14, 15}, // words of the last
		"3PM":          {6, 14},
		"15:00":        {6, 14},
		"15:15":        {15},
		"09:30":        {7},
		"12 pm":        {12},
		"12:30 am":     {13},
		"31 March":     {8, 9, 18},
		"March 31st":   {8, 9, 18},
		"Mar. 31":      {8, 9, 18},
		"2026-03-31":   {8, 9}, // of no other year
		"March 14":     nil,
		"12 decisions": nil, // no month
		"mark 31":      nil,
		"may 5":        nil,
		"May 5":        {17},
		"5 of May":     {17},
		"33 pm":        nil,
	} {
		got := m.search(t, leg.Query{Text: query, Depth: 30})
		var found []int
		for _, hit := range got.Hits {
			if hit.Matched > 0.99 { // others have a part, such as the month alone
				found = append(found, slices.Index(texts, m.records[hit.ID].Content))
			}
		}
		if slices.Sort(found); !slices.Equal(found, want) {
			t.Errorf("%q finds %v, want %v", query, found, want)
		}
	}
	english := languages["english"]
	for text, want := range map[string]int{"": 0, "wood": 0, "10 wood": 0, "999": 0, "1000": 1, "2000000000": 0, strings.Repeat("9", 30): 0, "May 32": 0, "26-13-01": 0, "24:10": 0, "3:61": 0, "$3:15": 0, "10.0.12:30": 0, "1:25:3": 0, "3.14": 0, "12.03.2026": 1} {
		if got := english.quantities(text); len(got) != want {
			t.Errorf("%q has the quantities %v, want %d", text, got, want)
		}
	}
}

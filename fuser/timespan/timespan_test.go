package timespan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/timespan"
)

// now is a Thursday.
var now = time.Date(2026, 3, 12, 10, 30, 0, 0, time.UTC)

// show writes spans as "text: from/before", with dates only where that is exact.
func show(spans []timespan.Span) string {
	var out []string
	for _, s := range spans {
		from, before := strings.TrimSuffix(s.From.Format(time.RFC3339), "T00:00:00Z"), strings.TrimSuffix(s.Before.Format(time.RFC3339), "T00:00:00Z")
		out = append(out, s.Text+": "+from+"/"+before)
	}
	return strings.Join(out, ", ")
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		"What did we decide last week?":               "last week: 2026-03-02/2026-03-09",
		"this week":                                   "this week: 2026-03-09/2026-03-16",
		"last weekend?":                               "last weekend: 2026-03-07/2026-03-09",
		"What was said in May 2023?":                  "May 2023: 2023-05-01/2023-06-01",
		"in early may 2023":                           "May 2023: 2023-05-01/2023-06-01",
		"invoices of Sept. 2024":                      "Sept. 2024: 2024-09-01/2024-10-01",
		"What did I say yesterday about the crane":    "yesterday: 2026-03-11/2026-03-12",
		"the day before yesterday":                    "day before yesterday: 2026-03-10/2026-03-11",
		"what happened today?":                        "today: 2026-03-12/2026-03-13",
		"in May":                                      "May: 2025-05-01/2025-06-01",
		"in February we met":                          "February: 2026-02-01/2026-03-01",
		"last June":                                   "last June: 2025-06-01/2025-07-01",
		"the trip on 7 May 2023":                      "7 May 2023: 2023-05-07/2023-05-08",
		"on October 13th, 2023, and on 2024-02-29":    "October 13th, 2023: 2023-10-13/2023-10-14, 2024-02-29: 2024-02-29/2024-03-01",
		"the 3rd of June 2024":                        "3rd of June 2024: 2024-06-03/2024-06-04",
		"on May 7":                                    "May 7: 2025-05-07/2025-05-08",
		"retro from the 5th of November":              "5th of November: 2025-11-05/2025-11-06",
		"retro on Nov 5, or on 6 nov":                 "Nov 5: 2025-11-05/2025-11-06, 6 nov: 2025-11-06/2025-11-07",
		"since 1 March":                               "since 1 March: 2026-03-01/2026-03-12T10:30:00Z",
		"since last month":                            "since last month: 2026-02-01/2026-03-12T10:30:00Z",
		"before 2024":                                 "before 2024: 0001-01-01/2024-01-01",
		"after June 2024":                             "after June 2024: 2024-07-01/2026-03-12T10:30:00Z",
		"remind me what we did last week...":          "last week: 2026-03-02/2026-03-09",
		"(\"I was there yesterday.\")":                "yesterday: 2026-03-11/2026-03-12",
		"what came out of last week's review?":        "last week: 2026-03-02/2026-03-09",
		"yesterday’s meeting":                         "yesterday: 2026-03-11/2026-03-12",
		"in the last week of May 2023":                "May 2023: 2023-05-01/2023-06-01",
		"until yesterday":                             "until yesterday: 0001-01-01/2026-03-12",
		"what happened in 2021, and in summer 2022?":  "2021: 2021-01-01/2022-01-01, summer 2022: 2022-06-01/2022-09-01",
		"How many books did she read in 2023?":        "2023: 2023-01-01/2024-01-01",
		"three days ago":                              "three days ago: 2026-03-09/2026-03-10",
		"about 2 weeks ago":                           "2 weeks ago: 2026-02-23/2026-03-02",
		"a month ago":                                 "a month ago: 2026-02-01/2026-03-01",
		"4 years ago":                                 "4 years ago: 2022-01-01/2023-01-01",
		"in the last 3 months":                        "last 3 months: 2025-12-12T10:30:00Z/2026-03-12T10:30:00Z",
		"last Friday":                                 "last Friday: 2026-03-06/2026-03-07",
		"last Thursday":                               "last Thursday: 2026-03-05/2026-03-06",
		"the board meeting of Q3 2025":                "Q3 2025: 2025-07-01/2025-10-01",
		"last quarter, last year":                     "last quarter: 2025-10-01/2026-01-01, last year: 2025-01-01/2026-01-01",
		"What did April say in June, and June in May": "June: 2025-06-01/2025-07-01, May: 2025-05-01/2025-06-01",
	} {
		got := show(timespan.Find(text, now))
		if !strings.EqualFold(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// Months have different lengths.
func TestEndsOfMonths(t *testing.T) {
	for _, x := range []struct{ day, text, want string }{
		{"2026-03-31", "a month ago", "a month ago: 2026-02-01/2026-03-01"},
		{"2026-05-31", "three months ago", "three months ago: 2026-02-01/2026-03-01"},
		{"2024-02-29", "in the last year", "last year: 2023-01-01/2024-01-01"},
		{"2026-12-31", "in the last 1 month", "last 1 month: 2026-11-30/2026-12-31"},
	} {
		now, err := time.Parse(time.DateOnly, x.day)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(timespan.Find(x.text, now)); got != x.want {
			t.Errorf("%s on %s: got %s, want %s", x.text, x.day, got, x.want)
		}
	}
}

// What looks like a time and is none.
func TestTraps(t *testing.T) {
	for _, text := range []string{
		"May I use the crane?", "may the best win", "march to the harbour", "a march in the park", "the second one", "wait a second", "what is my second name", "sun protection", "the sun",
		"April and June went to Kiel", "What does April think?", "by June", "Ask May about it", "August is her brother", "in April's office", "since June’s wedding",
		"what do we know now", "now or never", "version 1.2.3", "Go 1.26", "upgrade to 2.10.2023", "v2023.05.01", "release-2023-05-01", "log/2023-05-01.txt", "port 8080", "in 2000 lines", "in 2024 bytes", "after 1999 requests",
		"a 5 minute walk", "the mon process", "sat on a chair", "wed in white", "dec 5 bytes", "mar the surface", "is it on?", "call 555-1234", "ticket 2023-11", "at 3", "RFC 3339", "RFC 2026",
		"the first of them", "today's special", "Friday the cat", "can we deploy on Friday?", "the 90s", "autumn leaves", "how many days ago did I buy it?", "next to the door", "last but not least", "at last",
		"this one", "last call", "fall of man", "spring boot", "on 2023-13-45", "on 30 February 2024", "on May the force", "in the last resort", "1.5.2023", "http://x/2023-05-01/y", "in marching order",
		strings.Repeat("word ", 1000) + "in May 2023",
	} {
		if got := timespan.Find(text, now); len(got) > 0 {
			t.Errorf("%.60q: got %s, want none", text, show(got))
		}
	}
}

func TestEvents(t *testing.T) {
	for text, want := range map[string]string{
		"What changed since the harbour release?": "since the harbour release: 2024-05-03/2026-03-12T10:30:00Z",
		"Before our move did we own a cello?":     "Before our move: 0001-01-01/2024-05-03",
		"what broke after the release last week":  "after the release: 2024-05-04/2026-03-12T10:30:00Z",
		"since the":                               "", "since May 2023": "", "the release": "", "after the last one": "", "before the": "",
	} {
		got := ""
		if event, ok := timespan.FindEvent(text); ok {
			got = show([]timespan.Span{event.Span(time.Date(2024, 5, 3, 9, 0, 0, 0, time.UTC), now)})
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestWithout(t *testing.T) {
	for text, want := range map[string]string{
		"Which incident did we have last month?":                           "Which incident did we have ?",
		"What was done  in early May 2023 and since the 7th of June 2024?": "What was done and ?",
		"What happened since the release?":                                 "What happened since the release?",
		"what happened yesterday":                                          "what happened",
		"news of last week":                                                "news of last week",
		"Anything last week?":                                              "Anything last week?",
		"last month":                                                       "last month",
		"":                                                                 "",
	} {
		if got := timespan.Without(text, timespan.Find(text, now)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("since May 7, 2023 and 3 weeks ago, last Friday in 2024")
	f.Fuzz(func(t *testing.T, text string) {
		spans := timespan.Find(text, now)
		if left := timespan.Without(text, spans); len(left) > len(text) {
			t.Errorf("%q without its times is %q", text, left)
		}
		for _, s := range spans {
			if s.Text == "" || !s.From.Before(s.Before) && !s.Before.After(now) && s.From.Before(now) {
				t.Errorf("%q: got %s", text, show([]timespan.Span{s}))
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	for b.Loop() {
		timespan.Find("What did Melanie and her family see during their camping trip in July 2023?", now)
	}
}

// Package timespan finds the times that an English question names: "last week", "in May 2023", "yesterday", "since 7 May". It
// imports nothing but the standard library. The process is:
//
//  1. Go to each word that may begin a time: a number, a month, "last", "yesterday".
//  2. Match the kinds of expressions there, the longest first.
//  3. Skip what is no time: "May I", "march", a version, a name. A month without a year counts only behind "in", "during",
//     "since", "until", "last" or "this", a weekday only behind "last", and a short name of a month only beside a year or a day.
//  4. Compute the span in UTC, relative to a moment. A month or day without a year is the last one that has begun.
//  5. Extend the span by the word in front of it: "since" to the moment, "before" to the beginning of time.
package timespan

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Span is a time that a text names.
type Span struct {
	Text   string    // as the text has it, such as "May 2023" or "since last week"
	place  [2]int    // in the text, in bytes, with the word in front
	From   time.Time // inclusive; the zero time is no bound
	Before time.Time // exclusive
}

// Contains reports whether a moment is in the span.
func (s Span) Contains(at time.Time) bool { return !at.Before(s.From) && at.Before(s.Before) }

// Without returns a text without the times that Find found in it. If that leaves too little to ask for anything, it returns all of it.
func Without(text string, spans []Span) string {
	var left strings.Builder
	end := 0
	for _, s := range spans {
		left.WriteString(text[end:max(end, s.place[0])])
		end = s.place[1]
	}
	left.WriteString(text[end:])
	if len(spans) == 0 || len(word.FindAllString(left.String(), leastLeft)) < leastLeft {
		return text
	}
	return strings.Join(strings.Fields(left.String()), " ")
}

// leastLeft words are a question still: "What happened?", but not "news".
const leastLeft = 2

// most bounds the text that Find reads, in bytes. A longer text is no question.
const most = 4 << 10

const (
	longMonths = `January|February|March|April|May|June|July|August|September|October|November|December`
	months     = longMonths + `|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec`
	weekdays   = `Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday`
	units      = `day|week|month|year`
	spelled    = `one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve`
	numbers    = `\d{1,3}|an?|` + spelled
	year       = `(?:19|20)\d\d`
	day        = `\d{1,2}(?:st|nd|rd|th)?`
	// ends are behind a number that is a year: "in 2023, we", "in 2023 when we", but not "in 2000 lines".
	ends = `\s*(?:$|[?!,;:)"]|\.(?:\s|$)|(?:and|or|with|at|on|for|by|to|did|was|were|is|has|had|do|does|about|when|what|who|where|how|we|I|he|she|they|the|a|my|our|that)\b)`
)

// expression is one kind of time. at returns its span, or false if there is no such time.
type expression struct {
	pattern *regexp.Regexp
	at      func(match []string, now time.Time) (Span, bool)
	behind  string // words of which one must stand in front, if any
}

func kind(pattern, behind string, at func(match []string, now time.Time) (Span, bool)) expression {
	return expression{regexp.MustCompile(`^(?i:` + pattern + `)`), at, behind}
}

// expressions are tried in their order wherever one of the triggers begins a word.
var expressions = []expression{
	kind(`(`+year+`)-(\d\d)-(\d\d)\b`, "", func(m []string, _ time.Time) (Span, bool) { return dayOf(m[1], m[2], m[3]) }),
	kind(`(`+months+`)\.?\s+(`+day+`),?\s+(`+year+`)\b`, "", func(m []string, _ time.Time) (Span, bool) { return dayOf(m[3], m[1], m[2]) }),
	kind(`(`+day+`)\s+(?:of\s+)?(`+months+`)\.?,?\s+(`+year+`)\b`, "", func(m []string, _ time.Time) (Span, bool) { return dayOf(m[3], m[2], m[1]) }),
	kind(`(`+months+`)\.?,?\s+(?:of\s+)?(`+year+`)\b`, "", func(m []string, _ time.Time) (Span, bool) { return monthOf(number(m[2]), month(m[1])), true }),
	kind(`Q([1-4])\s+(`+year+`)\b`, "", func(m []string, _ time.Time) (Span, bool) {
		return spanOf(date(number(m[2]), time.Month(3*number(m[1])-2), 1), 0, 3, 0), true
	}),
	kind(`(spring|summer|autumn|fall|winter)\s+(?:of\s+)?(`+year+`)\b`, "", func(m []string, _ time.Time) (Span, bool) {
		return spanOf(date(number(m[2]), map[string]time.Month{"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}[strings.ToLower(m[1])], 1), 0, 3, 0), true
	}),
	kind(`(`+numbers+`)\s+(`+units+`)s?\s+ago\b`, "", ago),
	kind(`(?:last|past|previous)\s+(`+numbers+`)\s+(`+units+`)s?\b`, "", func(m []string, now time.Time) (Span, bool) {
		return Span{From: back(now, m[2], number(m[1])), Before: now}, true
	}),
	kind(`(last|past|previous|this)\s+(week|month|quarter|year|weekend)\b`, "", relative),
	kind(`last\s+(`+weekdays+`)\b`, "", lastWeekday),
	kind(`(day before yesterday|yesterday|last night|today|this morning|this afternoon|tonight)\b`, "", func(m []string, now time.Time) (Span, bool) {
		days := map[string]int{"day before yesterday": -2, "yesterday": -1, "last night": -1}[strings.ToLower(m[1])]
		return spanOf(midnight(now).AddDate(0, 0, days), 0, 0, 1), true
	}),
	kind(`(`+months+`)\.?\s+(`+day+`)\b`, "on from since before after until", func(m []string, now time.Time) (Span, bool) { return lastDay(now, m[1], m[2]) }),
	kind(`(`+day+`)\s+(?:of\s+)?(`+months+`)\b`, "on from since before after until", func(m []string, now time.Time) (Span, bool) { return lastDay(now, m[2], m[1]) }),
	kind(`(?:last|this)\s+(`+longMonths+`)\b`, "", lastMonth),
	kind(`(`+longMonths+`)\b`, "in during since until", lastMonth),
	kind(`(`+year+`)`+ends, "in during since before after until of", func(m []string, _ time.Time) (Span, bool) { return spanOf(date(number(m[1]), 1, 1), 1, 0, 0), true }),
}

var (
	word     = regexp.MustCompile(`[\pL\pN]+`)
	triggers = words(months + `|spring|summer|autumn|fall|winter|last|past|previous|this|day|yesterday|today|tonight|q1|q2|q3|q4|a|an|` + spelled)
	// front is what may stand between a word that extends a span, or belongs to it, and the span.
	front = regexp.MustCompile(`(?i)\b(since|before|after|until|in|during|on|of|from)\s+(?:the\s+)?(?:(?:early|mid|late|end of|beginning of)\s+)?$`)
)

// words returns the words of an alternation in lower case.
func words(alternation string) map[string]bool {
	set := map[string]bool{"sept": true, "sep": true}
	for w := range strings.SplitSeq(strings.ToLower(alternation), "|") {
		set[w] = true
	}
	return set
}

// longestFront is more than the longest match of front, in bytes.
const longestFront = 40

// Find returns the times that a text names, in their order, relative to a moment.
func Find(text string, now time.Time) (spans []Span) {
	if len(text) > most {
		return nil
	}
	now = now.UTC()
	end := 0 // of the expression before
	for _, at := range word.FindAllStringIndex(text, -1) {
		start := at[0]
		if start < end || text[start] > '9' && !triggers[strings.ToLower(text[start:at[1]])] {
			continue
		}
		for _, e := range expressions {
			found := e.pattern.FindStringSubmatchIndex(text[start:])
			if found == nil {
				continue
			}
			stop := start + found[1]
			if strings.HasSuffix(e.pattern.String(), ends+`)`) {
				stop = start + found[3] // what ends a year is not part of it
			}
			begin, behind := start, ""
			if before := front.FindStringSubmatchIndex(text[max(0, start-longestFront):start]); before != nil {
				begin = max(0, start-longestFront) + before[2]
				behind = strings.ToLower(text[begin : begin+before[3]-before[2]])
			}
			if e.behind != "" && (behind == "" || !slices.Contains(strings.Fields(e.behind), behind)) || partOfMore(text, start, stop) {
				continue
			}
			end = stop // also of 30 February 2024, which is none, and hides February 2024
			groups := make([]string, len(found)/2)
			for i := range groups {
				if found[2*i] >= 0 {
					groups[i] = text[start+found[2*i] : start+found[2*i+1]]
				}
			}
			if span, ok := e.at(groups, now); ok {
				span.place = [2]int{begin, stop}
				if !extend(&span, behind, now) {
					begin = start
				}
				span.Text = strings.Join(strings.Fields(text[begin:stop]), " ")
				spans = append(spans, span)
			}
			break
		}
	}
	return spans
}

// Event is a thing by which a text names a time, as in "since the release".
type Event struct {
	Text string // such as "since the release"
	Name string // such as "release"
	word string
}

var eventText = regexp.MustCompile(`(?i)\b((since|before|after)\s+(?:the|our|my))\s+([\pL\pN'’-]+(?:\s+[\pL\pN'’-]+){0,4})`)

// endOfName are words that no name of an event has.
var endOfName = words("did|was|were|is|are|has|have|had|do|does|what|who|where|how|when|which|we|i|he|she|they|you|it|and|or|that|in|on|at|of|to|by|for|with|last|this|please")

// FindEvent returns the first event by which a text names a time. Whether there is such an event is for the caller to know.
func FindEvent(text string) (Event, bool) {
	if len(text) > most {
		return Event{}, false
	}
	match := eventText.FindStringSubmatch(text)
	if match == nil {
		return Event{}, false
	}
	name := strings.Fields(match[3])
	if end := slices.IndexFunc(name, func(w string) bool { return endOfName[strings.ToLower(w)] || triggers[strings.ToLower(w)] }); end >= 0 {
		name = name[:end]
	}
	joined := strings.Join(name, " ")
	return Event{strings.Join(strings.Fields(match[1]), " ") + " " + joined, joined, strings.ToLower(match[2])}, joined != ""
}

// Span returns the span that the event bounds if it happened on a day.
func (e Event) Span(on, now time.Time) Span {
	s := spanOf(midnight(on.UTC()), 0, 0, 1)
	extend(&s, e.word, now)
	s.Text = e.Text
	return s
}

var (
	// joint matches what goes on behind a match that is a part of something longer. A possessive may be somebody's.
	joint      = regexp.MustCompile(`^(?:[-./_:@#][\pL\pN]|\s+of\b)`)
	possessive = regexp.MustCompile(`^(?i:` + longMonths + `|today)['’]s`)
)

// partOfMore reports whether a match is a part of something longer, as 2023-05-01 is in log-2023-05-01.txt, "last week" in "the last
// week of May 2023", and April in "April's".
func partOfMore(text string, start, end int) bool {
	return start > 0 && strings.ContainsRune("-./_:@#", rune(text[start-1])) || joint.MatchString(text[end:]) || possessive.MatchString(text[start:])
}

// extend changes a span by the word in front of it, and reports whether it does.
func extend(s *Span, word string, now time.Time) bool {
	switch word {
	case "since":
		s.Before = now
	case "after":
		s.From, s.Before = s.Before, now
	case "before":
		s.From, s.Before = time.Time{}, s.From
	case "until":
		s.From = time.Time{}
	default:
		return false
	}
	return true
}

func month(name string) time.Month {
	return time.Month(strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", strings.ToLower(name[:3]))/3 + 1)
}

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

func midnight(at time.Time) time.Time { return date(at.Year(), at.Month(), at.Day()) }

// spanOf returns the span from a day on of so many years, months and days.
func spanOf(from time.Time, years, months, days int) Span {
	return Span{From: from, Before: from.AddDate(years, months, days)}
}

func monthOf(y int, m time.Month) Span { return spanOf(date(y, m, 1), 0, 1, 0) }

// dayOf returns a day, or false if there is none. The month is a name or two digits.
func dayOf(y, m, d string) (Span, bool) {
	yy, _ := strconv.Atoi(y)
	mm, err := strconv.Atoi(m)
	if err != nil {
		mm = int(month(m))
	}
	dd, _ := strconv.Atoi(strings.TrimRight(strings.ToLower(d), "stndrh"))
	from := date(yy, time.Month(mm), dd)
	return spanOf(from, 0, 0, 1), int(from.Month()) == mm && from.Day() == dd
}

// lastDay returns the last such day of a month that has begun.
func lastDay(now time.Time, m, d string) (Span, bool) {
	for y := now.Year(); y >= now.Year()-8; y-- { // 29 February may be eight years away
		if s, ok := dayOf(strconv.Itoa(y), m, d); ok && !s.From.After(now) {
			return s, true
		}
	}
	return Span{}, false
}

func number(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return max(0, slices.Index(strings.Split(spelled, "|"), strings.ToLower(text))) + 1 // 1 for "a"
}

// back returns the moment so many days, weeks, months or years before.
func back(now time.Time, unit string, n int) time.Time {
	switch strings.ToLower(unit) {
	case "day":
		return now.AddDate(0, 0, -n)
	case "week":
		return now.AddDate(0, 0, -7*n)
	case "month":
		return monthsBack(now, n)
	}
	return monthsBack(now, 12*n)
}

// monthsBack keeps the day, or else takes the month's last: a month before 31 March is 28 February, not 3 March.
func monthsBack(now time.Time, n int) time.Time {
	at := now.AddDate(0, -n, 0)
	if at.Day() != now.Day() {
		at = at.AddDate(0, 0, -at.Day())
	}
	return at
}

// ago is as exact as its unit: a day, the days around a day some weeks ago, a month, a year.
func ago(m []string, now time.Time) (Span, bool) {
	at := midnight(back(now, m[2], number(m[1])))
	switch strings.ToLower(m[2]) {
	case "day":
		return spanOf(at, 0, 0, 1), true
	case "week":
		return spanOf(at.AddDate(0, 0, -3), 0, 0, 7), true
	case "month":
		return monthOf(at.Year(), at.Month()), true
	}
	return spanOf(date(at.Year(), 1, 1), 1, 0, 0), true
}

// relative is a week from Monday on, a weekend, a month, a quarter or a year: this one or the one before.
func relative(m []string, now time.Time) (Span, bool) {
	n := -1
	if strings.EqualFold(m[1], "this") {
		n = 0
	}
	monday := midnight(now).AddDate(0, 0, -(int(now.Weekday())+6)%7)
	switch strings.ToLower(m[2]) {
	case "week":
		return spanOf(monday.AddDate(0, 0, 7*n), 0, 0, 7), true
	case "weekend":
		return spanOf(monday.AddDate(0, 0, 7*n+5), 0, 0, 2), true
	case "month":
		return spanOf(date(now.Year(), now.Month(), 1).AddDate(0, n, 0), 0, 1, 0), true
	case "quarter":
		return spanOf(date(now.Year(), (now.Month()-1)/3*3+1, 1).AddDate(0, 3*n, 0), 0, 3, 0), true
	}
	return spanOf(date(now.Year()+n, 1, 1), 1, 0, 0), true
}

// lastMonth returns the last such month that has begun.
func lastMonth(m []string, now time.Time) (Span, bool) {
	y := now.Year()
	if month(m[1]) > now.Month() {
		y--
	}
	return monthOf(y, month(m[1])), true
}

func lastWeekday(m []string, now time.Time) (Span, bool) {
	wanted := slices.IndexFunc([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, func(d string) bool { return strings.HasPrefix(strings.ToLower(m[1]), d) })
	days := (int(now.Weekday()) - wanted + 6) % 7
	return spanOf(midnight(now).AddDate(0, 0, -days-1), 0, 0, 1), true
}

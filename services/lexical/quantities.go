package lexical

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// quantity is a number, an amount, a time or a date of a text, with other forms of it.
type quantity struct {
	span
	forms []string
}

var (
	numbers = regexp.MustCompile(`(?i)\b(\d{1,3}(?:,\d{3})+|\d+)(k\b)?`)
	amounts = regexp.MustCompile(`(?i)\b(\d+)[- ]?([a-z]{1,12})\b`)
	times   = regexp.MustCompile(`(?i)\b(\d\d?)(?::(\d\d))?(?: ?([ap])\.?m)?\b`)
	dates   = func() []*regexp.Regexp {
		const month = `\b(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|(?-i:May)|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b`
		const day = `\b(?P<day>\d\d?)(?:st|nd|rd|th)?\b`
		return []*regexp.Regexp{
			regexp.MustCompile(`(?i)` + month + `\.? (?:the )?` + day),
			regexp.MustCompile(`(?i)` + day + ` (?:of )?` + month),
			regexp.MustCompile(`\b\d{4}-(?P<month>\d\d)-(?P<day>\d\d)\b`),
		}
	}()
)

// quantities returns what of a text has other forms: 10,000 is 10000 and 10k, 25 MB is 25MB, 3 pm is 15:00, and March 31 is in 2026-03-31.
func (l language) quantities(text string) (found []quantity) {
	if !strings.ContainsAny(text, "0123456789") {
		return nil
	}
	add := func(at []int, forms ...string) {
		if len(forms) > 0 {
			found = append(found, quantity{span{at[0], at[1]}, forms})
		}
	}
	part := func(at []int, group int) string {
		if at[2*group] < 0 {
			return ""
		}
		return strings.ToLower(text[at[2*group]:at[2*group+1]])
	}
	for _, at := range numbers.FindAllStringSubmatchIndex(text, -1) {
		digits := strings.ReplaceAll(part(at, 1), ",", "")
		if part(at, 2) != "" {
			digits += "000"
		}
		add(at, numberForms(digits)...)
	}
	for _, at := range amounts.FindAllStringSubmatchIndex(text, -1) {
		number, unit := part(at, 1), part(at, 2)
		var forms []string
		for _, other := range listed(l.stem(unit), unit) {
			if !strings.Contains(other, " ") {
				forms = append(forms, number+other, number+" "+other)
			}
		}
		add(at, forms...)
	}
	for _, at := range times.FindAllStringSubmatchIndex(text, -1) {
		if at[0] > 0 && strings.IndexByte(`.:-/$`, text[at[0]-1]) >= 0 || at[1] < len(text) && text[at[1]] == ':' {
			continue // a part of an address, a version or an amount
		}
		add(at, timeForms(part(at, 1), part(at, 2), part(at, 3))...)
	}
	for _, pattern := range dates {
		for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
			month, day := part(at, pattern.SubexpIndex("month")), part(at, pattern.SubexpIndex("day"))
			for m := time.January; m <= time.December; m++ {
				switch forms := l.dateForms(m, day); {
				case len(forms) == 0:
				case month == fmt.Sprintf("%02d", m): // with its year
					add(at, forms...)
				case strings.HasPrefix(month, strings.ToLower(m.String()[:3])):
					add(at, append(forms, fmt.Sprintf("%02d %02s", m, day))...)
				}
			}
		}
	}
	return found
}

// numberForms returns the forms of a number of a thousand or more.
func numberForms(digits string) []string {
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1000 || n >= 1e9 {
		return nil
	}
	var groups []string
	for rest := digits; rest != ""; {
		cut := (len(rest)-1)%3 + 1
		groups, rest = append(groups, rest[:cut]), rest[cut:]
	}
	forms := []string{digits, strings.Join(groups, " ")}
	if thousands, round := strings.CutSuffix(digits, "000"); round {
		forms = append(forms, thousands+"k")
	}
	return forms
}

// timeForms returns the forms of a time of day.
func timeForms(hours, minutes, half string) []string {
	h, _ := strconv.Atoi(hours)
	m, _ := strconv.Atoi(minutes)
	if h > 23 || m > 59 || half != "" && (h < 1 || h > 12) || half == "" && minutes == "" {
		return nil
	}
	if half == "p" {
		h = h%12 + 12
	} else if half == "a" {
		h %= 12
	}
	at, short := time.Date(1, time.January, 1, h, m, 0, 0, time.UTC), "3"
	if m > 0 {
		short = "3 04" // the parts of 3:15
	}
	clock := at.Format("15:04")
	return []string{strings.TrimPrefix(clock, "0"), clock, at.Format(short + "pm"), at.Format(short + " pm")}
}

// dateForms returns the forms of a day of the year in words.
func (l language) dateForms(month time.Month, day string) []string {
	d, _ := strconv.Atoi(day)
	if d < 1 || d > 31 {
		return nil
	}
	name := l.stem(strings.ToLower(month.String()))
	day = strconv.Itoa(d)
	ordinal := day + "th"
	if d/10 != 1 && d%10 >= 1 && d%10 <= 3 {
		ordinal = day + [...]string{"st", "nd", "rd"}[d%10-1]
	}
	return []string{name + " " + day, day + " " + name, name + " " + ordinal, ordinal + " " + name, ordinal + " of " + name}
}

package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// moment is a date (UTC), a time, or a duration relative to now.
type moment struct {
	at       time.Time
	distance time.Duration
	set      bool
}

var errMoment = errors.New("must be a date such as 2026-03-01, a time such as 2026-03-01T08:30:00Z, or a span such as 36h, 7d or 2w")

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	s := string(text)
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, s); err == nil {
			*m = moment{at: at, set: true}
			return nil
		}
	}
	for suffix, days := range map[string]int{"d": 1, "w": 7} {
		number, ok := strings.CutSuffix(s, suffix)
		if n, err := strconv.Atoi(number); ok && err == nil && n >= 0 && n <= 10_000 {
			*m = moment{distance: time.Duration(n*days) * 24 * time.Hour, set: true}
			return nil
		}
	}
	distance, err := time.ParseDuration(s)
	if err != nil || distance < 0 {
		return errMoment
	}
	*m = moment{distance: distance, set: true}
	return nil
}

// ago returns the time; a duration counts back from now.
func (m moment) ago(now time.Time) time.Time {
	if m.at.IsZero() {
		return now.Add(-m.distance)
	}
	return m.at
}

// ahead returns the time; a duration counts from now.
func (m moment) ahead(now time.Time) time.Time {
	if m.at.IsZero() {
		return now.Add(m.distance)
	}
	return m.at
}

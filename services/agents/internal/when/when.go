// Package when reads points in time as people and agents give them: a date, a time of RFC 3339, or a span from now.
package when

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Moment is a date (UTC), a time, or a span from now.
type Moment struct {
	at       time.Time
	distance *time.Duration // nil for a date or time
	set      bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Moment) UnmarshalText(text []byte) error {
	s := string(text)
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, s); err == nil {
			*m = Moment{at: at, set: true}
			return nil
		}
	}
	for suffix, days := range map[string]int{"d": 1, "w": 7} {
		number, ok := strings.CutSuffix(s, suffix)
		if n, err := strconv.Atoi(number); ok && err == nil && n >= 0 && n <= 10_000 {
			*m = Moment{distance: new(time.Duration(n*days) * 24 * time.Hour), set: true}
			return nil
		}
	}
	distance, err := time.ParseDuration(s)
	if err != nil || distance < 0 {
		return errors.New("must be a date such as 2026-03-01, a time such as 2026-03-01T08:30:00Z, or a span such as 36h, 7d or 2w")
	}
	*m = Moment{distance: &distance, set: true}
	return nil
}

// Ago returns the time; a span counts back from now. It returns nil if the moment was not given.
func (m Moment) Ago(now time.Time) *timestamppb.Timestamp { return m.from(now, -1) }

// Ahead returns the time; a span counts from now. It returns nil if the moment was not given.
func (m Moment) Ahead(now time.Time) *timestamppb.Timestamp { return m.from(now, 1) }

func (m Moment) from(now time.Time, direction time.Duration) *timestamppb.Timestamp {
	switch {
	case !m.set:
		return nil
	case m.distance != nil:
		return timestamppb.New(now.Add(direction * *m.distance))
	}
	return timestamppb.New(m.at)
}

// Set reports whether the moment was given.
func (m Moment) Set() bool { return m.set }

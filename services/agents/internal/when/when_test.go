package when_test

import (
	"testing"
	"time"

	"github.com/triskele/triskele/services/agents/internal/when"
)

func TestMoments(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string][2]string{
		"2026-03-01":                {"2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		"2026-03-01T08:30:00+02:00": {"2026-03-01T06:30:00Z", "2026-03-01T06:30:00Z"},
		"0001-01-01":                {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		"7d":                        {"2026-03-01T12:00:00Z", "2026-03-15T12:00:00Z"},
		"2w":                        {"2026-02-22T12:00:00Z", "2026-03-22T12:00:00Z"},
		"36h":                       {"2026-03-07T00:00:00Z", "2026-03-10T00:00:00Z"},
	} {
		var m when.Moment
		if err := m.UnmarshalText([]byte(text)); err != nil || !m.Set() {
			t.Errorf("%s: %v, set %v", text, err, m.Set())
			continue
		}
		if ago, ahead := m.Ago(now).AsTime().Format(time.RFC3339), m.Ahead(now).AsTime().Format(time.RFC3339); ago != want[0] || ahead != want[1] {
			t.Errorf("%s: got %s and %s, want %s and %s", text, ago, ahead, want[0], want[1])
		}
	}
	for _, text := range []string{"", "-7d", "-1h", "10001d", "march", "May I", "second", "last week", "2026-02-30", "7 d"} {
		var m when.Moment
		if err := m.UnmarshalText([]byte(text)); err == nil || m.Set() {
			t.Errorf("%q: got %v, want an error", text, m.Ago(now))
		}
	}
}

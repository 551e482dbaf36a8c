package measure

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Times are durations of the same thing.
type Times []time.Duration

// At returns a percentile, 0 if there are no times.
func (t Times) At(percent int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

// Milliseconds writes a duration with two decimals.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
}

// LoadAverage is the machine's of the last minute.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

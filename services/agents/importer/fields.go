package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a memory can have at most; see the API.
const (
	maxTags     = 64
	maxKeywords = 128
	maxWord     = 128 // bytes of a tag or keyword
)

// list returns texts that differ, and notes which ones a memory cannot have.
func (i *Item) list(what string, texts []string, most int) []string {
	seen := map[string]bool{}
	out := slices.DeleteFunc(slices.Clone(texts), func(s string) bool {
		twice := seen[s]
		seen[s] = true
		return twice || s == ""
	})
	if slices.ContainsFunc(out, func(s string) bool { return len(s) > maxWord }) {
		i.note(what+" left out", fmt.Sprintf("those that are longer than %d bytes", maxWord))
		out = slices.DeleteFunc(out, func(s string) bool { return len(s) > maxWord })
	}
	if len(out) > most {
		i.note(what+" left out", fmt.Sprintf("all but the first %d", most))
		out = out[:most]
	}
	return out
}

// sensitive understands what sources say of sensitivity. What it does not understand is sensitive.
func (i *Item) sensitive(value any) bool {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(value))) {
	case "true", "yes", "on", "t", "y", "1":
		return true
	case "false", "no", "off", "f", "n", "0", "", "<nil>":
		return false
	}
	i.note("taken as sensitive", "what it says of that is not understood")
	return true
}

// layouts are the ways in which sources write times; without a zone they mean UTC.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly, "2006/01/02",
}

// parseTime understands a time, a text, and seconds or fractions of them since 1970.
func parseTime(value any) (time.Time, bool) {
	switch v := value.(type) {
	case time.Time:
		return v, true
	case int:
		return parseUnix(float64(v))
	case float64:
		return parseUnix(v)
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return time.Time{}, false
		}
		return parseUnix(f)
	case string:
		text := strings.TrimSpace(v)
		for _, layout := range layouts {
			if at, err := time.Parse(layout, text); err == nil {
				return at, true
			}
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && len(text) > 8 {
			return parseUnix(f)
		}
	}
	return time.Time{}, false
}

// parseUnix tells seconds, milliseconds and microseconds apart: as seconds, the latter would lie beyond the year 5000.
func parseUnix(n float64) (time.Time, bool) {
	switch {
	case n <= 0 || n >= 1e17:
		return time.Time{}, false
	case n >= 1e14:
		return time.UnixMicro(int64(n)).UTC(), true
	case n >= 1e11:
		return time.UnixMicro(int64(n * 1e3)).UTC(), true
	}
	return time.UnixMicro(int64(n * 1e6)).UTC(), true
}

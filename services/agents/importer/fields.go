package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// The API's bounds of a memory.
const (
	maxTags     = 64
	maxKeywords = 128
	maxWord     = 128 // bytes of a tag or keyword
)

// list removes repeated and empty texts. It also removes texts beyond the bounds of a memory, with a note.
func (i *Item) list(what string, texts []string, most int) []string {
	seen := map[string]bool{}
	out := slices.DeleteFunc(slices.Clone(texts), func(s string) bool {
		twice := seen[s]
		seen[s] = true
		return twice || s == ""
	})
	if slices.ContainsFunc(out, func(s string) bool { return len(s) > maxWord }) {
		i.note(what+" left out", fmt.Sprintf("those longer than %d bytes", maxWord))
		out = slices.DeleteFunc(out, func(s string) bool { return len(s) > maxWord })
	}
	if len(out) > most {
		i.note(what+" left out", fmt.Sprintf("all but the first %d", most))
		out = out[:most]
	}
	return out
}

// sensitive parses a source's value for sensitivity. An unknown value counts as sensitive, with a note.
func (i *Item) sensitive(value any) bool {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(value))) {
	case "true", "yes", "on", "t", "y", "1":
		return true
	case "false", "no", "off", "f", "n", "0", "", "<nil>":
		return false
	}
	i.note("taken as sensitive", "the value for sensitivity is neither yes nor no")
	return true
}

// layouts are the forms of times in sources. A time without a zone is in UTC.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly, "2006/01/02",
}

// listOf parses a text with a list: as JSON, in PostgreSQL's braces, or separated by commas. A text without commas is split at the
// separator.
func listOf(text, separator string) []string {
	text = strings.TrimSpace(text)
	var list []any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // 20240115 is a tag, not 2.0240115e+07
	switch {
	case strings.HasPrefix(text, "[") && decoder.Decode(&list) == nil && !decoder.More():
		var out []string
		for _, x := range list {
			if x != nil {
				out = append(out, strings.TrimSpace(fmt.Sprint(x)))
			}
		}
		return out
	case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}"):
		return slice.Map(splitTrimmed(text[1:len(text)-1], ","), func(part string) string { return strings.Trim(part, `"`) })
	case strings.Contains(text, ","):
		return splitTrimmed(text, ",")
	}
	return splitTrimmed(text, separator)
}

// link adds a link, unless there is an equal one. It reports whether there was room.
func (i *Item) link(target, relation string) bool {
	m := i.Memory
	switch {
	case slices.ContainsFunc(m.GetLinks(), func(l *triskelev1.Link) bool { return l.GetTarget() == target && l.GetRelation() == relation }):
	case len(m.GetLinks()) == maxLinks:
		i.note("too many links", fmt.Sprintf("a memory has at most %d links", maxLinks))
		return false
	default:
		m.Links = append(m.Links, &triskelev1.Link{Target: target, Relation: relation})
	}
	return true
}

// parseTime parses a time, a text in one of the layouts, or a number since 1970 (see parseUnix).
func parseTime(value any) (time.Time, bool) {
	switch v := value.(type) {
	case time.Time:
		return v, true
	case int:
		return parseUnix(float64(v))
	case float64:
		return parseUnix(v)
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

// parseUnix converts seconds, milliseconds or microseconds since 1970. A number that would be beyond the year 5000 in one unit
// is in the next smaller unit.
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

package importer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/slice"
)

// frontMatter is the YAML at the start of a note, with keys in lower case.
type frontMatter map[string]any

// parseFrontMatter separates a note's front matter, between two lines of three dashes, from its text. The error for front matter
// that cannot be parsed has the note's text.
func parseFrontMatter(note []byte) (frontMatter, string, *noteError) {
	if !utf8.Valid(note) {
		return nil, "", &noteError{reason: "not UTF-8", detail: "the note is not UTF-8"}
	}
	head, text, wrong := cutFrontMatter(strings.TrimPrefix(string(note), "\ufeff"))
	text = strings.TrimRight(strings.TrimLeft(text, "\r\n"), " \t\r\n")
	if wrong != nil {
		wrong.text = text
		return nil, "", wrong
	}
	var raw map[string]any
	if err := yaml.Unmarshal([]byte(head), &raw); err != nil {
		detail := "the front matter is not a YAML mapping"
		if line := lineOfError.FindString(err.Error()); line != "" { // the rest of the error may quote the note
			detail += ", " + line
		}
		return nil, "", &noteError{"front matter is not YAML", detail, text}
	}
	matter := frontMatter{}
	for key, value := range raw {
		key = strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(key))
		if _, twice := matter[key]; twice {
			return nil, "", &noteError{"front matter contradicts itself", "two keys differ only in case, spaces or dashes", text}
		}
		matter[key] = value
	}
	return matter, text, nil
}

var lineOfError = regexp.MustCompile(`line \d+`)

// cutFrontMatter separates a note's front matter from the rest, which is all of the note if there is none, or one that has an error.
func cutFrontMatter(note string) (head, rest string, err *noteError) {
	first, body, _ := strings.Cut(note, "\n")
	switch strings.TrimRight(first, " \t\r") {
	case "---":
	case "+++":
		return "", note, &noteError{reason: "front matter is not YAML", detail: "the front matter is TOML, as it begins with +++"}
	default:
		return "", note, nil
	}
	at := 0
	for line := range strings.Lines(body) {
		switch strings.TrimRight(line, " \t\r\n") {
		case "---", "...":
			return body[:at], body[at+len(line):], nil
		}
		at += len(line)
	}
	return "", note, &noteError{reason: "front matter has no end", detail: "the note begins with a line of three dashes, but has no second one"}
}

// text returns, as text, the first of the keys' values that is not a list or a mapping.
func (f frontMatter) text(keys ...string) string {
	for _, key := range keys {
		switch v := f[key].(type) {
		case nil, []any, map[string]any:
		default:
			return strings.TrimSpace(fmt.Sprint(plainValue(v)))
		}
	}
	return ""
}

// texts returns the keys' values as a list of texts. A single value is split at commas.
func (f frontMatter) texts(keys ...string) []string {
	var out []string
	for _, key := range keys {
		switch v := f[key].(type) {
		case nil:
		case []any:
			for _, x := range v {
				out = append(out, strings.TrimSpace(fmt.Sprint(plainValue(x))))
			}
		default:
			out = append(out, splitTrimmed(f.text(key), ",")...)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func splitTrimmed(text, separator string) []string {
	parts := slice.Map(strings.Split(text, separator), strings.TrimSpace)
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

// apply sets the item's fields from the front matter, and returns the links in it. An unknown key is a relation if its values
// are wikilinks. All other unknown keys become metadata.
func (f frontMatter) apply(item *Item) []noteLink {
	m := item.Memory
	used := map[string]bool{}
	use := func(keys ...string) []string {
		for _, key := range keys {
			used[key] = true
		}
		return keys
	}
	for _, field := range []struct {
		name  string
		value *string
		most  int
	}{{"title", &m.Title, maxTitle}, {"category", &m.Category, maxCategory}, {"source", &m.Source, maxSource}} {
		text := cmp.Or(f.text(use(field.name)...), *field.value)
		if *field.value = clip.Text(text, field.most); len(text) > field.most {
			item.note(field.name+" cut off", fmt.Sprintf("a %s has at most %d bytes", field.name, field.most))
		}
	}
	for _, tag := range f.texts(use("tags", "tag")...) {
		for _, t := range strings.Fields(tag) {
			m.Tags = append(m.Tags, strings.TrimLeft(t, "#"))
		}
	}
	m.Tags = item.list("tags", m.GetTags(), maxTags)
	m.ExpandedKeywords = item.list("keywords", f.texts(use("aliases", "alias", "keywords", "expanded_keywords")...), maxKeywords)
	for _, key := range use("sensitive", "private") {
		if v, ok := f[key]; ok {
			m.Sensitive = m.GetSensitive() || item.sensitive(v)
		}
	}
	if v, err := strconv.ParseFloat(f.text("importance"), 64); err == nil && v >= 0 && v <= 1 {
		use("importance")
		m.Importance = &v
	} else if err == nil {
		item.note("importance not understood", "it is no number from 0 to 1, and is kept as metadata")
	}
	f.times(item, use)
	return f.others(item, used)
}

// others adds the keys that are not used to the metadata, but for those whose values are wikilinks. It returns these links.
func (f frontMatter) others(item *Item, used map[string]bool) (links []noteLink) {
	metadata := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if used[key] {
			continue
		}
		if targets, only := wikilinks(f[key]); only {
			for _, target := range targets {
				links = append(links, noteLink{at: -1, relation: cmp.Or(key, linksTo), target: target, wiki: true})
			}
			continue
		}
		metadata[key] = plainValue(f[key])
	}
	if len(metadata) > 0 {
		s, err := structpb.NewStruct(metadata)
		if err != nil {
			item.note("metadata left out", "it is not UTF-8")
		}
		item.Memory.Metadata = s
	}
	return links
}

// times sets the memory's times. Values that cannot be parsed stay metadata.
func (f frontMatter) times(item *Item, use func(...string) []string) {
	m := item.Memory
	for _, field := range []struct {
		to   **timestamppb.Timestamp
		keys []string
	}{
		{&m.CreatedAt, []string{"created", "created_at"}},
		{&m.UpdatedAt, []string{"updated", "updated_at", "modified", "lastmod"}},
		{&m.OccurredAt, []string{"occurred", "occurred_at", "date"}},
		{&m.ExpiresAt, []string{"expires", "expires_at"}},
	} {
		for _, key := range field.keys {
			v, ok := f[key]
			if !ok {
				continue
			}
			at, ok := parseTime(v)
			if !ok {
				item.note("time not understood", key+" is kept as metadata")
				continue
			}
			use(key)
			*field.to = timestamppb.New(at)
		}
	}
	if _, given := f["created"]; !given && f["created_at"] == nil && m.GetOccurredAt() != nil {
		m.CreatedAt = m.GetOccurredAt() // a note with a single date was written then
	}
}

var wikilinkText = regexp.MustCompile(`\[\[([^\[\]]+)\]\]`)

// wikilinks returns the targets of wikilinks in a value, and whether the value has nothing else. YAML parses [[a note]] without
// quotes as a list in a list.
func wikilinks(value any) (targets []string, only bool) {
	switch v := value.(type) {
	case string:
		for _, match := range wikilinkText.FindAllStringSubmatch(v, -1) {
			targets = append(targets, linkTarget(match[1]))
		}
		return targets, len(targets) > 0 && strings.Trim(wikilinkText.ReplaceAllString(v, ""), " ,;\t\n") == ""
	case []any:
		if len(v) == 1 {
			if inner, ok := v[0].([]any); ok && len(inner) == 1 {
				if text, ok := inner[0].(string); ok {
					return []string{linkTarget(text)}, true
				}
			}
		}
		for _, x := range v {
			more, alone := wikilinks(x)
			if !alone {
				return nil, false
			}
			targets = append(targets, more...)
		}
		return targets, len(targets) > 0
	}
	return nil, false
}

func linkTarget(text string) string {
	target, _, _ := strings.Cut(text, "|")
	target, _, _ = strings.Cut(target, "#")
	return strings.TrimSpace(target)
}

func plainValue(value any) any {
	switch v := value.(type) {
	case time.Time:
		if v.Equal(v.Truncate(24 * time.Hour)) {
			return v.Format(time.DateOnly)
		}
		return v.Format(time.RFC3339Nano)
	case int, int64, uint64:
		return exactNumber(fmt.Sprint(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case []any:
		return slice.Map(v, plainValue)
	case map[string]any:
		return plainMap(v)
	case map[any]any:
		return plainMap(v)
	}
	return value
}

func plainMap[K comparable](m map[K]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		out[fmt.Sprint(plainValue(key))] = plainValue(value)
	}
	return out
}

// exactNumber returns a whole number as a float64, or as a text if a float64 would round it.
func exactNumber(digits string) any {
	if f, err := strconv.ParseFloat(digits, 64); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == digits && math.Abs(f) <= 1<<53 {
		return f
	}
	return digits
}

package render

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Memory draws one memory in full.
func (s Style) Memory(m *triskelev1.Memory) string {
	var b strings.Builder
	const column = 15
	field := func(name, value string) {
		if value == "" {
			return
		}
		for _, line := range wrap(value, s.width()-column, 0) {
			b.WriteString(s.Dim(fit(name, column)) + line + "\n")
			name = ""
		}
	}
	at := func(name string, t *timestamppb.Timestamp) {
		if t != nil {
			field(name, t.AsTime().Format("2006-01-02 15:04:05 MST"))
		}
	}
	field("id", m.GetId())
	field("namespace", m.GetNamespace())
	field("title", m.GetTitle())
	name := "content"
	for paragraph := range strings.SplitSeq(strings.TrimSpace(Lines(m.GetContent())), "\n") {
		field(name, paragraph)
		name = ""
	}
	field("keywords", strings.Join(m.GetExpandedKeywords(), ", "))
	field("tags", strings.Join(m.GetTags(), ", "))
	field("category", m.GetCategory())
	if len(m.GetMetadata().GetFields()) > 0 {
		if text, err := protojson.Marshal(m.GetMetadata()); err == nil {
			field("metadata", string(text))
		}
	}
	field("importance", fmt.Sprintf("%.2f", m.GetImportance()))
	if m.GetSensitive() {
		field("sensitive", "yes: found by its words only")
	}
	field("source", m.GetSource())
	if thread := Plain(m.GetThread()); thread != "" && m.Position != nil {
		field("thread", fmt.Sprintf("%s, at %d", thread, m.GetPosition()))
	} else {
		field("thread", thread)
	}
	at("created", m.GetCreatedAt())
	at("updated", m.GetUpdatedAt())
	at("occurred", m.GetOccurredAt())
	at("expires", m.GetExpiresAt())
	field("supersedes", m.GetSupersedes())
	field("superseded by", m.GetSupersededBy())
	field("revision", fmt.Sprint(m.GetRevision()))
	return b.String()
}

// Line draws a memory with a line or two of its text.
func (s Style) Line(m *triskelev1.Memory) string {
	marks := []string{m.GetCreatedAt().AsTime().Format("2006-01-02"), m.GetId()}
	if m.GetCategory() != "" {
		marks = append(marks, Plain(m.GetCategory()))
	}
	if m.GetSupersededBy() != "" {
		marks = append(marks, "superseded")
	}
	if m.GetSensitive() {
		marks = append(marks, "sensitive")
	}
	text := s.Dim(strings.Join(marks, "  ")) + "\n"
	for _, line := range wrap(headline(m), s.width()-2, snippetLines) {
		text += "  " + line + "\n"
	}
	return text
}

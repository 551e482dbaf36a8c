package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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
	var b strings.Builder
	b.WriteString(s.Dim(strings.Join(marks, "  ")) + "\n")
	s.block(&b, headline(m), 2, snippetLines, nil)
	return b.String()
}

// Action returns a curator's action as one word.
func Action(a triskelev1.CurationAction) string {
	return strings.ToLower(strings.TrimPrefix(a.String(), "CURATION_ACTION_"))
}

// Decision draws a curator's decision about one memory, in two lines.
func (s Style) Decision(d *triskelev1.Decision) string {
	marks := []string{d.GetDecidedAt().AsTime().Format("2006-01-02 15:04:05"), d.GetId()}
	if d.GetModel() != "" {
		marks = append(marks, Plain(d.GetModel()))
	}
	if d.GetRevertedAt() != nil {
		marks = append(marks, "reverted")
	}
	return s.Dim(strings.Join(marks, "  ")) + "\n  " + sentence(d) + "\n"
}

func sentence(d *triskelev1.Decision) string {
	memory, target := d.GetMemoryId(), d.GetTargetId()
	switch d.GetAction() {
	case triskelev1.CurationAction_CURATION_ACTION_ADD:
		return fmt.Sprintf("add: %s says something new", memory)
	case triskelev1.CurationAction_CURATION_ACTION_UPDATE:
		return fmt.Sprintf("update: %s was rewritten to say what %s says as well", target, memory)
	case triskelev1.CurationAction_CURATION_ACTION_SUPERSEDE:
		return fmt.Sprintf("supersede: %s replaces %s", memory, target)
	case triskelev1.CurationAction_CURATION_ACTION_NOOP:
		return fmt.Sprintf("noop: %s says nothing that %s does not", memory, target)
	}
	return fmt.Sprintf("%s: %s and %s", Action(d.GetAction()), memory, target)
}

// DecisionInFull draws a decision with the present text of its memories.
func (s Style) DecisionInFull(d *triskelev1.Decision, memories []*triskelev1.Memory) string {
	var b strings.Builder
	b.WriteString(s.Decision(d))
	paragraph := func(name, text string) {
		b.WriteString(s.Dim("  "+name) + "\n")
		s.block(&b, text, 4, 0, nil)
	}
	for _, m := range memories {
		paragraph(m.GetId(), headline(m))
	}
	if d.GetPreviousContent() != "" {
		paragraph(d.GetTargetId()+" before", d.GetPreviousContent())
	}
	return b.String()
}

// Namespace draws a namespace with its statistics.
func (s Style) Namespace(n *triskelev1.GetNamespaceResponse) string {
	var b strings.Builder
	field := func(name, value string) { b.WriteString(s.Dim(fit(name, len("extraction index  "))) + value + "\n") }
	st := n.GetStatistics()
	field("namespace", Plain(n.GetNamespace()))
	field("created", n.GetCreatedAt().AsTime().Format("2006-01-02 15:04:05 MST"))
	field("memories", fmt.Sprintf("%d: %d live, %d superseded, %d expired", n.GetMemories(), st.GetLive(), st.GetSuperseded(), st.GetExpired()))
	field("sensitive", fmt.Sprint(st.GetSensitive()))
	field("size", Bytes(st.GetBytes()))
	for _, i := range st.GetIndexes() {
		state := s.Good("up to date")
		if i.GetPending() > 0 {
			state = s.Warn(fmt.Sprintf("%s waiting, the oldest for %s", Count(i.GetPending(), "memory", "memories"), Duration(i.GetLag().AsDuration())))
		}
		if i.GetDead() > 0 {
			state += ", " + s.Bad(Count(i.GetDead(), "memory", "memories")+" given up on")
		}
		field(Plain(i.GetIndex())+" index", state)
	}
	return b.String()
}

// Bytes formats an amount of data in binary units with one decimal.
func Bytes(n int64) string {
	size, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, larger
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// JSONLine formats a message as one line of JSON, with the field names of the .proto files. Equal messages give equal lines:
// protojson alone varies the white space.
func JSONLine(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

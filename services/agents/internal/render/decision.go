package render

import (
	"fmt"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

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

// sentence says a decision in words.
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
		for _, line := range wrap(text, s.width()-4, 0) {
			b.WriteString("    " + line + "\n")
		}
	}
	for _, m := range memories {
		paragraph(m.GetId(), headline(m))
	}
	if d.GetPreviousContent() != "" {
		paragraph(d.GetTargetId()+" before", d.GetPreviousContent())
	}
	return b.String()
}

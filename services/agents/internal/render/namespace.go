package render

import (
	"fmt"
	"strings"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// Namespace draws a namespace with its statistics.
func (s Style) Namespace(n *triskelev1.GetNamespaceResponse) string {
	var b strings.Builder
	field := func(name, value string) { b.WriteString(s.Dim(fit(name, 15)) + value + "\n") }
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

package criticalpath_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/traces/criticalpath"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// TestTree has a span without its parent, and one that is its own parent: each is drawn once.
func TestTree(t *testing.T) {
	span := func(name, id, parent string, at int64) *triskelev1.Span {
		return &triskelev1.Span{Name: name, Id: id, ParentId: parent, Start: timestamppb.New(time.Unix(at, 0))}
	}
	spans := []*triskelev1.Span{
		span("late", "4", "2", 9), span("early", "3", "2", 5), span("below", "2", "1", 4), span("lost", "5", "none", 3), span("own parent", "1", "1", 2), span("root", "1", "", 1),
	}
	var got []string
	for depth, s := range criticalpath.Tree(spans) {
		got = append(got, fmt.Sprint(depth, " ", s.GetName()))
	}
	if want := []string{"0 root", "1 own parent", "1 lost", "1 below", "2 early", "2 late"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range criticalpath.Tree(spans) {
		break
	}
	for range criticalpath.Tree(nil) {
		t.Error("no spans have a tree")
	}
}

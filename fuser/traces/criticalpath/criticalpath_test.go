package criticalpath_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/traces/criticalpath"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// span is "id<parent@service from-to" in milliseconds, the service and the parent as far as they are given.
func span(t *testing.T, text string) *triskelev1.Span {
	t.Helper()
	name, times, _ := strings.Cut(text, " ")
	name, service, _ := strings.Cut(name, "@")
	id, parent, _ := strings.Cut(name, "<")
	var from, to float64
	if _, err := fmt.Sscanf(times, "%f-%f", &from, &to); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	at := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	return &triskelev1.Span{
		Id: id, ParentId: parent, Name: id, Service: service,
		Start: timestamppb.New(time.Unix(1_700_000_000, 0).Add(at(from))), Duration: durationpb.New(at(to) - at(from)),
	}
}

func TestPath(t *testing.T) {
	for name, test := range map[string]struct {
		spans []string
		want  string // "id from-to" in milliseconds
	}{
		"a root alone":                  {[]string{"r 0-10"}, "r 0-10"},
		"the last to end is waited for": {[]string{"r 0-10", "a<r 1-4", "b<r 1-9"}, "r 0-1, b 1-9, r 9-10"},
		"one after the other":           {[]string{"r 0-10", "a<r 1-4", "b<r 5-9"}, "r 0-1, a 1-4, r 4-5, b 5-9, r 9-10"},
		"what overlaps cost nothing":    {[]string{"r 0-10", "a<r 0-6", "b<r 5-10"}, "r 0-5, b 5-10"},
		"down the tree":                 {[]string{"r 0-10", "a<r 2-8", "b<a 3-5", "c<b 3-4"}, "r 0-2, a 2-3, c 3-4, b 4-5, a 5-8, r 8-10"},
		"of two that end at once the longer": {
			[]string{"r 0-10", "a<r 3-9", "b<r 1-9"}, "r 0-1, b 1-9, r 9-10",
		},
		"not waited for":                {[]string{"r@x 0-10", "a<r@x 1-12", "b<r@x 1-6"}, "r 0-1, b 1-6, r 6-10"},
		"Jaeger's rounding is no delay": {[]string{"r@x 0-10", "a<r@x 1-10.005"}, "r 0-1, a 1-10"},
		"another clock, a little ahead": {[]string{"r@x 0-10", "a<r@y 2-11"}, "r 0-2, a 2-10"},
		"another clock, hours off":      {[]string{"r@x 0-10", "a<r@y 9000-9006", "b<a@y 9001-9003"}, "r 0-4, a 4-5, b 5-7, a 7-10"},
		"another clock, hours before":   {[]string{"r@x 0-10", "a<r@y -9000--8994"}, "a 0-6, r 6-10"},
		"longer than its parent":        {[]string{"r@x 0-10", "a<r@y 100-200"}, "a 0-10"},
		"its own parent":                {[]string{"r<r 0-10", "a<r 1-9", "a<a 2-3"}, "r 0-1, a 1-2, a 2-3, a 3-9, r 9-10"},
		"nothing took any time":         {[]string{"r 0-0", "a<r 0-0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spans := make([]*triskelev1.Span, len(test.spans))
			for i, text := range test.spans {
				spans[i] = span(t, text)
			}
			var got []string
			for _, s := range criticalpath.Path(spans[0], spans) {
				ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
				got = append(got, fmt.Sprintf("%s %g-%g", s.Span.GetId(), ms(s.Start), ms(s.Start+s.Took)))
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

// FuzzPath makes traces of any shape: each three bytes are a span's parent, beginning and length.
func FuzzPath(f *testing.F) {
	f.Add([]byte{0, 1, 5, 1, 2, 2, 0, 200, 3, 3, 0, 255})
	f.Fuzz(func(t *testing.T, shape []byte) {
		const total = 100 * time.Millisecond
		origin := time.Unix(1_700_000_000, 0)
		spans := []*triskelev1.Span{{Id: "0", Start: timestamppb.New(origin), Duration: durationpb.New(total)}}
		for i := 0; i+2 < len(shape); i += 3 {
			spans = append(spans, &triskelev1.Span{
				Id: fmt.Sprint(i/3 + 1), ParentId: fmt.Sprint(shape[i]), Service: fmt.Sprint(shape[i] % 2),
				Start:    timestamppb.New(origin.Add(time.Duration(shape[i+1]) * time.Millisecond)),
				Duration: durationpb.New(time.Duration(shape[i+2]) * time.Millisecond),
			})
		}
		end := time.Duration(0)
		for _, s := range criticalpath.Path(spans[0], spans) {
			if s.Start != end || s.Took <= 0 {
				t.Fatalf("a segment from %v of %v follows one that ended at %v", s.Start, s.Took, end)
			}
			end = s.Start + s.Took
		}
		if end != total {
			t.Fatalf("the path covers %v of %v", end, total)
		}
	})
}

package cli

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/when"
)

// filterFlags narrow a recall or a list.
type filterFlags struct {
	Tag               []string    `help:"Only memories with one of these tags." placeholder:"TAG" group:"Which memories:"`
	TagsAll           []string    `help:"Only memories with all of these tags." placeholder:"TAG" group:"Which memories:"`
	Category          []string    `help:"Only memories of one of these categories." placeholder:"CATEGORY" group:"Which memories:"`
	Since             when.Moment `help:"Only memories created since: a date (UTC), a time, or an age such as 36h, 7d, 2w." placeholder:"WHEN" group:"Which memories:"`
	Before            when.Moment `help:"Only memories created before then." placeholder:"WHEN" group:"Which memories:"`
	OccurredSince     when.Moment `help:"Only memories of what happened since: a date (UTC), a time, or an age such as 36h, 7d, 2w. Without such a time, when they were created counts." placeholder:"WHEN" group:"Which memories:"`
	OccurredBefore    when.Moment `help:"Only memories of what happened before then." placeholder:"WHEN" group:"Which memories:"`
	IncludeSuperseded bool        `help:"Also memories that have been superseded." group:"Which memories:"`
}

func (f filterFlags) filter(now time.Time) *triskelev1.Filter {
	out := &triskelev1.Filter{TagsAny: f.Tag, TagsAll: f.TagsAll, Categories: f.Category, IncludeSuperseded: f.IncludeSuperseded}
	if f.Since.Set() {
		out.CreatedFrom = timestamppb.New(f.Since.Ago(now))
	}
	if f.Before.Set() {
		out.CreatedBefore = timestamppb.New(f.Before.Ago(now))
	}
	if f.OccurredSince.Set() {
		out.OccurredFrom = timestamppb.New(f.OccurredSince.Ago(now))
	}
	if f.OccurredBefore.Set() {
		out.OccurredBefore = timestamppb.New(f.OccurredBefore.Ago(now))
	}
	return out
}

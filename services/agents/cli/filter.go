package cli

import (
	"time"

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
	return &triskelev1.Filter{
		TagsAny: f.Tag, TagsAll: f.TagsAll, Categories: f.Category, IncludeSuperseded: f.IncludeSuperseded,
		CreatedFrom: f.Since.Ago(now), CreatedBefore: f.Before.Ago(now), OccurredFrom: f.OccurredSince.Ago(now), OccurredBefore: f.OccurredBefore.Ago(now),
	}
}

package cli

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// filterFlags narrow a recall or a list.
type filterFlags struct {
	Tag               []string `help:"Only memories with one of these tags." placeholder:"TAG" group:"Which memories:"`
	TagsAll           []string `help:"Only memories with all of these tags." placeholder:"TAG" group:"Which memories:"`
	Category          []string `help:"Only memories of one of these categories." placeholder:"CATEGORY" group:"Which memories:"`
	Since             moment   `help:"Only memories created since: a date (UTC), a time, or an age such as 36h, 7d, 2w." placeholder:"WHEN" group:"Which memories:"`
	Before            moment   `help:"Only memories created before then." placeholder:"WHEN" group:"Which memories:"`
	IncludeSuperseded bool     `help:"Also memories that have been superseded." group:"Which memories:"`
}

func (f filterFlags) filter(now time.Time) *triskelev1.Filter {
	out := &triskelev1.Filter{TagsAny: f.Tag, TagsAll: f.TagsAll, Categories: f.Category, IncludeSuperseded: f.IncludeSuperseded}
	if f.Since.set {
		out.CreatedFrom = timestamppb.New(f.Since.ago(now))
	}
	if f.Before.set {
		out.CreatedBefore = timestamppb.New(f.Before.ago(now))
	}
	return out
}

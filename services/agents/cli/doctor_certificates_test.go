package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/fuser/platform/auth/authtest"
)

func TestCheckCertificates(t *testing.T) {
	t.Parallel()
	authority, other := authtest.NewAuthority(t), authtest.NewAuthority(t)
	good := authority.Issue(t, "fuser")
	authority.Renew(t, good, "fuser", 30*24*time.Hour)
	brief := authority.Issue(t, "fuser")
	authority.Renew(t, brief, "fuser", 24*time.Hour)
	stranger := good
	stranger.CA = other.Issue(t, "fuser").CA
	mixed := good
	mixed.Key = brief.Key
	gone := good
	gone.Key += ".gone"
	now := time.Now()
	for name, tc := range map[string]struct {
		files auth.TLS
		at    time.Time
		want  []verdict
		says  string
	}{
		"none":               {auth.TLS{}, now, nil, ""},
		"a good one":         {good, now, []verdict{ok}, ""},
		"soon expired":       {brief, now, []verdict{warn}, ""},
		"expired":            {brief, now.Add(48 * time.Hour), []verdict{fail}, ""},
		"not yet":            {good, now.Add(-48 * time.Hour), []verdict{fail}, ""},
		"another's key":      {mixed, now, []verdict{fail}, "are not a pair"},
		"no key":             {auth.TLS{Cert: good.Cert}, now, nil, ""}, // the check of the gateway says so
		"a key that is gone": {gone, now, []verdict{fail}, "must name files that this user can read"},
		"another authority":  {stranger, now, []verdict{ok, fail}, ""},
		"no authority":       {auth.TLS{CA: good.Key}, now, []verdict{fail}, ""},
	} {
		var found findings
		checkCertificates(tc.files, tc.at, &found)
		same := len(found) == len(tc.want)
		for i := range found {
			same = same && found[i].Verdict == tc.want[i] && strings.Contains(found[i].Detail, tc.says)
		}
		if !same {
			t.Errorf("%s: %+v, want %v", name, found, tc.want)
		}
	}
}

package cli

import (
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
	now := time.Now()
	for name, tc := range map[string]struct {
		files auth.TLS
		at    time.Time
		want  []verdict
	}{
		"none":              {auth.TLS{}, now, nil},
		"a good one":        {good, now, []verdict{ok}},
		"soon expired":      {brief, now, []verdict{warn}},
		"expired":           {brief, now.Add(48 * time.Hour), []verdict{fail}},
		"not yet":           {good, now.Add(-48 * time.Hour), []verdict{fail}},
		"another's key":     {mixed, now, []verdict{fail}},
		"another authority": {stranger, now, []verdict{ok, fail}},
		"no authority":      {auth.TLS{CA: good.Key}, now, []verdict{fail}},
	} {
		var found findings
		checkCertificates(tc.files, tc.at, &found)
		same := len(found) == len(tc.want)
		for i := range found {
			same = same && found[i].Verdict == tc.want[i]
		}
		if !same {
			t.Errorf("%s: %+v, want %v", name, found, tc.want)
		}
	}
}

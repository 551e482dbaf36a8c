package cli_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

func TestNamespaceCommands(t *testing.T) {
	t.Parallel()
	to := "--address=" + serve(t)
	must(t, "", "remember", "tea at four", "--namespace=acme/bot", to)
	must(t, "", "remember", "coffee at ten", "--namespace=acme/bot", "--sensitive", to)
	must(t, "", "remember", "milk", "--namespace=other", to)
	if out := must(t, "", "namespace", "list", to); out != "acme/bot\ndefault\nother\n" {
		t.Errorf("list:\n%s", out)
	}
	if out := must(t, "", "namespace", "list", "acme/", "--json", to); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"namespace":"acme/bot"`) {
		t.Errorf("list --json:\n%s", out)
	}
	wantContains(t, "list of none", must(t, "", "namespace", "list", "zzz", to), "nothing found")
	wantContains(t, "stats", must(t, "", "namespace", "stats", "acme/bot", to), "2: 2 live, 0 superseded, 0 expired", "sensitive         1\n", "dense index")
	stats := &triskelev1.GetNamespaceResponse{}
	if err := protojson.Unmarshal([]byte(must(t, "", "namespace", "stats", "acme/bot", "--json", to)), stats); err != nil || stats.GetStatistics().GetBytes() == 0 {
		t.Errorf("stats --json: %v, %v", stats, err)
	}
	if got := run("", "namespace", "rename", "acme/bot", "other", to); got.code != 1 || !strings.Contains(got.err, `"other" exists already: delete it first, if nothing in it is needed`) {
		t.Errorf("rename to a name that is taken: %+v", got)
	}
	wantContains(t, "rename", must(t, "", "namespace", "rename", "acme/bot", "acme/robot", to), "renamed acme/bot to acme/robot with 2 memories")
	wantContains(t, "recall", must(t, "", "recall", "tea", "--namespace=acme/robot", budget, to), "tea at four")

	for _, typed := range []string{"", "y\n", "acme\n"} {
		if got := run(typed, "namespace", "delete", "acme/robot", to); got.code != 1 || !strings.Contains(got.err, "nothing was deleted") {
			t.Errorf("delete after %q: %+v", typed, got)
		}
	}
	if got := run("acme/robot\n", "namespace", "delete", "acme/robot", to); got.code != 0 || got.out != "deleted acme/robot with 2 memories\n" {
		t.Errorf("delete: %+v", got)
	}
	wantContains(t, "delete --yes", must(t, "", "namespace", "delete", "other", "--yes", to), "deleted other with 1 memory")
	if got := run("", "namespace", "delete", "defualt", "--yes", to); got.code != 1 || !strings.Contains(got.err, `"defualt" is unknown`) && !strings.Contains(got.err, "no such namespace") {
		t.Errorf("delete a name that is mistyped: %+v", got)
	}
	if out := must(t, "", "namespace", "list", to); out != "default\n" {
		t.Errorf("list after the deletions:\n%s", out)
	}
	must(t, "", "namespace", "delete", "default", "--yes", to)
	must(t, "", "remember", "back again", to)
	wantContains(t, "default", must(t, "", "recall", "back again", budget, to), "back again")
}

package importer

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRefused(t *testing.T) {
	for _, test := range []struct {
		code   codes.Code
		text   string
		index  int
		reason string
		ok     bool
	}{
		{codes.InvalidArgument, "memories[17].importance: must be at most 1 (and 1 more)", 17, "importance: must be at most 1 (and 1 more)", true},
		{codes.AlreadyExists, "memories[0]: its id is taken", 0, "its id is taken", true},
		{codes.InvalidArgument, "memories: must have at most 1000 items", 0, "", false},
		{codes.Unavailable, "memories[0]: no", 0, "", false},
		{codes.InvalidArgument, "memories[99999999999999999999]: x", 0, "", false},
	} {
		index, reason, ok := refused(status.Error(test.code, test.text))
		if ok != test.ok || (ok && (index != test.index || reason != test.reason)) {
			t.Errorf("%q: %d, %q, %t", test.text, index, reason, ok)
		}
	}
	if _, _, ok := refused(nil); ok {
		t.Error("no error is no refusal")
	}
}

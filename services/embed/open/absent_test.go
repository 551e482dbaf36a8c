//go:build !onnx

package open_test

import (
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed/open"
)

// A build without ONNX Runtime says how to get one with it.
func TestONNXAbsent(t *testing.T) {
	t.Parallel()
	_, err := open.Open("onnx:"+t.TempDir(), func(string) string { return "" })
	if err == nil || !strings.Contains(err.Error(), "-tags onnx") {
		t.Errorf("the error is %v", err)
	}
}

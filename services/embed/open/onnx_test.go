//go:build onnx

package open_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed/open"
)

// The path of the library and the folder reach the runtime.
func TestONNXOptions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"model.onnx": "x", "vocab.txt": "[UNK]\n[CLS]\n[SEP]\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := open.Open("onnx:"+folder+"?library=/nowhere/library.so", func(string) string { return "" })
	if err == nil || !strings.Contains(err.Error(), "/nowhere/library.so") {
		t.Errorf("the error is %v", err)
	}
}

package open_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/embed/open"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]embed.Model{
		"builtin":                      {Provider: "builtin", Name: "static-en-v3", Dimensions: 384, QueryDimensions: 383, Local: true},
		"hashed":                       {Provider: "builtin", Name: "hashed-ngrams-v1", Dimensions: 256, Local: true},
		"voyage:voyage-4?dims=1024":    {Provider: "voyage", Name: "voyage-4", Dimensions: 1024},
		"cohere:embed-v4.0?dims=1536":  {Provider: "cohere", Name: "embed-v4.0", Dimensions: 1536},
		"openai:text-embedding?dims=3": {Provider: "openai", Name: "text-embedding", Dimensions: 3},
		"openai:http://127.0.0.1:11434#nomic?dims=768&query_prefix=search_query:%20&document_prefix=search_document:%20&batch=8&concurrency=2&max_bytes=2000": {
			Provider: "openai", Name: "nomic", Dimensions: 768, QueryPrefix: "search_query: ", DocumentPrefix: "search_document: ", Local: true},
		"tei:https://tei.example.org/x#BAAI/bge?dims=384": {Provider: "tei", Name: "BAAI/bge", Dimensions: 384},
		"voyage:voyage-4?dims=512&shorten=true":           {Provider: "voyage", Name: "voyage-4", Dimensions: 512},
	} {
		e, err := open.Open(spec, func(string) string { return "key" })
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if got := e.Model(); got != want {
			t.Errorf("%s: %+v, want %+v", spec, got, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"", "static", "builtin:x", "hashed:x", "model2vec:", "model2vec:" + t.TempDir(), "openai:", "openai:m", "openai:m?dims=x", "openai:m?dims=0",
		"openai:m?dims=3&shorten=perhaps", "openai:m?dims=3&colour=red", "tei:m?dims=3", "tei:http://x?dims=3", "openai:http://127.0.0.1:11434?dims=3", "openai://127.0.0.1:11434?dims=3", "openai:m?dims=3&batch=5000", "openai:m?dims=%zz", "transformer:?colour=red", "transformer:?%zz", "onnx:x",
	} {
		if e, err := open.Open(spec, func(string) string { return "key" }); err == nil {
			t.Errorf("%q is opened as %+v", spec, e.Model())
		}
	}
}

// A key comes from the file, else from our variable, else from the provider's; it never shows in an error.
func TestKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("canary-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string {
		return map[string]string{"TRISKELE_EMBEDDER_KEY": "", "OPENAI_API_KEY": "canary-variable"}[name]
	}
	// With a key, plain HTTP to another host is refused: that shows whether there was one.
	for _, c := range []struct {
		flags open.Flags
		fails bool
	}{
		{open.Flags{Embedder: "openai:http://192.0.2.1#m?dims=3"}, true},
		{open.Flags{Embedder: "tei:http://192.0.2.1#m?dims=3"}, false},
		{open.Flags{Embedder: "tei:http://192.0.2.1#m?dims=3", KeyFile: file}, true},
		{open.Flags{Embedder: "builtin", Fallback: "openai:http://192.0.2.1#m?dims=3"}, true},
		{open.Flags{Embedder: "builtin", KeyFile: file + ".absent"}, true},
		{open.Flags{Embedder: "openai:m?dims=3"}, false},
		{open.Flags{Embedder: "cohere:m?dims=3"}, true}, // its service needs a key
		{open.Flags{Embedder: "cohere:http://127.0.0.1#m?dims=3"}, false},
	} {
		_, _, err := c.flags.Open(getenv)
		if (err != nil) != c.fails {
			t.Errorf("%+v: %v", c.flags, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	_, fallback, err := open.Flags{Embedder: "builtin"}.Open(getenv)
	if err != nil || fallback != nil {
		t.Errorf("without a fallback: %v, %v", fallback, err)
	}
}

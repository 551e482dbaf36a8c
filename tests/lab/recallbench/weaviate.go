package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/triskele/triskele/services/embed/static"
)

// weaviate is a class in a Weaviate server that has the same memories, with vectors of the built-in model.
type weaviate struct {
	http    string // HOST:PORT
	version string
	class   string
	conn    *grpc.ClientConn
	model   *static.Model
	stored  time.Duration // what load took
}

// newWeaviate makes an empty class in the server at "HTTP,GRPC", two addresses HOST:PORT.
func newWeaviate(ctx context.Context, addresses string) (*weaviate, error) {
	web, calls, two := strings.Cut(addresses, ",")
	if !two {
		return nil, fmt.Errorf("-weaviate: %q is not two addresses, HTTP,GRPC", addresses)
	}
	model, err := static.Builtin()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(calls, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	w := &weaviate{http: web, class: fmt.Sprintf("Recallbench%d", time.Now().UnixNano()), conn: conn, model: model}
	var meta struct{ Version string }
	if err := w.rest(ctx, http.MethodGet, "/v1/meta", nil, &meta); err != nil {
		return nil, err
	}
	w.version = meta.Version
	text := func(name, kind, tokens string) map[string]any {
		return map[string]any{"name": name, "dataType": []string{kind}, "tokenization": tokens}
	}
	return w, w.rest(ctx, http.MethodPost, "/v1/schema", map[string]any{"class": w.class, "vectorizer": "none", "properties": []any{
		text("title", "text", "word"), text("content", "text", "word"), text("tags", "text[]", "field"),
	}}, nil)
}

// stop deletes the class.
func (w *weaviate) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = w.rest(ctx, http.MethodDelete, "/v1/schema/"+w.class, nil, nil)
	_ = w.conn.Close()
}

// rest makes a request with a JSON body. The answer goes into to, unless it is nil.
func (w *weaviate) rest(ctx context.Context, method, path string, body, to any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.http+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("weaviate: %s %s: %s: %.200s", method, path, resp.Status, answer)
	}
	if err == nil && to != nil {
		err = json.Unmarshal(answer, to)
	}
	return err
}

// load stores the memories. Weaviate indexes them before it answers.
func (w *weaviate) load(ctx context.Context, texts []note) error {
	const batch = 500
	for from := 0; from < len(texts); from += batch {
		part := texts[from:min(from+batch, len(texts))]
		whole := make([]string, len(part))
		for i, t := range part {
			whole[i] = t.title + "\n" + t.content
		}
		vectors, err := w.model.EmbedDocuments(ctx, whole)
		if err != nil {
			return err
		}
		objects := make([]any, len(part))
		for i, t := range part {
			objects[i] = map[string]any{"class": w.class, "vector": vectors[i], "properties": map[string]any{"title": t.title, "content": t.content, "tags": t.tags}}
		}
		var answers []struct {
			Result struct{ Errors json.RawMessage }
		}
		if err := w.rest(ctx, http.MethodPost, "/v1/batch/objects", map[string]any{"objects": objects}, &answers); err != nil {
			return err
		}
		for _, a := range answers {
			if len(a.Result.Errors) > 0 && string(a.Result.Errors) != "null" {
				return fmt.Errorf("weaviate: %s", a.Result.Errors)
			}
		}
	}
	return nil
}

// The numbers of fields in weaviate.v1.SearchRequest and what it holds.
const (
	searchCollection, searchProperties, searchLimit, searchFilters, searchHybrid, searchTyped = 1, 20, 30, 40, 41, 102

	propertiesNames                                             = 1
	filterOperator, filterTexts, filterTarget                   = 1, 9, 20
	hybridQuery, hybridAlpha, hybridFusion, hybridVector        = 1, 4, 5, 6
	containsAny, relativeScore                           uint64 = 12, 2
)

// ask searches for a question by hybrid search with as much weight for words as for vectors, which are Weaviate's defaults
// but for the weight. It reports whether the question's source is among ten answers.
func (w *weaviate) ask(tag string) func(context.Context, question) (found bool, err error) {
	text := func(b []byte, field protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
	}
	number := func(b []byte, field protowire.Number, value uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
	}
	var fixed []byte
	fixed = text(fixed, searchCollection, w.class)
	fixed = text(fixed, searchProperties, string(text(text(text(nil, propertiesNames, "title"), propertiesNames, "content"), propertiesNames, "tags")))
	fixed = number(number(fixed, searchLimit, 10), searchTyped, 1)
	if tag != "" {
		filter := number(nil, filterOperator, containsAny)
		filter = text(filter, filterTexts, string(text(nil, 1, tag)))
		fixed = text(fixed, searchFilters, string(text(filter, filterTarget, string(text(nil, 1, "tags")))))
	}
	return func(ctx context.Context, q question) (bool, error) {
		vector, err := w.model.EmbedQuery(ctx, q.text)
		if err != nil {
			return false, err
		}
		floats := make([]byte, 0, 4*len(vector))
		for _, x := range vector {
			floats = protowire.AppendFixed32(floats, math.Float32bits(x))
		}
		hybrid := number(text(nil, hybridQuery, q.text), hybridFusion, relativeScore)
		hybrid = protowire.AppendFixed32(protowire.AppendTag(hybrid, hybridAlpha, protowire.Fixed32Type), math.Float32bits(.5))
		request := text(fixed[:len(fixed):len(fixed)], searchHybrid, string(text(hybrid, hybridVector, string(floats))))
		var answer []byte
		err = w.conn.Invoke(ctx, "/weaviate.v1.Weaviate/Search", &request, &answer, grpc.ForceCodecV2(wire{}))
		return bytes.Contains(answer, []byte(q.source)), err
	}
}

// wire is a gRPC codec of messages that are encoded already, each a *[]byte.
type wire struct{}

var _ encoding.CodecV2 = wire{}

// Name implements encoding.CodecV2.
func (wire) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

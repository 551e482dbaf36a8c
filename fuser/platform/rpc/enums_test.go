package rpc_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/rpc"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

func TestFromJSON(t *testing.T) {
	t.Parallel()
	for short, long := range map[string]string{
		`{"fusion": {"method": "rrf", "k": 12345678901234567}, "query": "rrf"}`:          `{"fusion": {"method": "FUSION_METHOD_RRF", "k": 12345678901234567}, "query": "rrf"}`,
		`{"sortBy": "recency", "min_score": {"scale": "Probability", "value": 0.5}}`:     `{"sort_by": "SORT_BY_RECENCY", "minScore": {"scale": "SCORE_SCALE_PROBABILITY", "value": 0.5}}`,
		`{"legs": {"lexical": {"scorer": "bm25"}}, "fusion": {"method": "unspecified"}}`: `{"legs": {"lexical": {"scorer": "SCORER_BM25"}}, "fusion": {}}`,
		`{"fusion": {"method": 1}, "on_error": "MISS_POLICY_FAIL"}`:                      `{"fusion": {"method": "FUSION_METHOD_RRF"}, "onError": "MISS_POLICY_FAIL"}`,
	} {
		var got, want triskelev1.RecallRequest
		if err := rpc.FromJSON(protojson.UnmarshalOptions{}, []byte(short), &got); err != nil {
			t.Errorf("%s: %v", short, err)
		}
		if err := protojson.Unmarshal([]byte(long), &want); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&got, &want) {
			t.Errorf("%s: got %v, want %v", short, &got, &want)
		}
	}
	for broken, want := range map[string]string{
		`{"fusion": {"method": "rrf"}, "query": "\ud800"}`:                            `byte 41: \ud800 is half of a surrogate pair`,
		`{"query": "\\\ud83d\ude00\udead x"}`:                                         `byte 26: \udead is half`,
		`{"query": "\ud83d\`:                                                          `byte 12: \ud83d is half`,
		`{"fusion": {"method": "rrf"}, "query": "` + "\xff" + `"}`:                    "byte 41: must be UTF-8",
		`{"fusion": {"method": "rrf"}, "filter": {"tags_any": ["[{"]}, "filter": {}}`: `byte 70: duplicate field "filter"`,
		`{"fusion": {"method": "rrf", "method": "rrf"}}`:                              `duplicate field "method"`,
		`{"sort_by": "recency", "legs": {"dense": {}, "graph": {}, "dense": {}}}`:     `duplicate field "dense"`,
	} {
		if err := rpc.FromJSON(protojson.UnmarshalOptions{}, []byte(broken), &triskelev1.RecallRequest{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", broken, err, want)
		}
	}
	const deep = 20_000
	if err := rpc.Misread([]byte(strings.Repeat(`{"a":`, deep) + `{"a":1,"a":2}` + strings.Repeat("}", deep))); err != nil {
		t.Errorf("a text that encoding/json refuses: %v", err)
	}
	for _, wrong := range []string{`{"fusion": {"method": "rrf"}, "query": "` + strings.Repeat("x", 1<<20) + `"}`, `{"fusion": {"method": "psychic"}}`, `{"sort_by": "rrf"}`, `{"fusion": "rrf"}`, `{"method": "rrf"}`, `[]`, `{`} {
		var got triskelev1.RecallRequest
		err, want := rpc.FromJSON(protojson.UnmarshalOptions{}, []byte(wrong), &got), protojson.Unmarshal([]byte(wrong), &triskelev1.RecallRequest{})
		if err == nil || len(err.Error()) != len(want.Error()) { // spaces vary
			t.Errorf("%s: got %v, want %v", wrong, err, want)
		}
	}
}

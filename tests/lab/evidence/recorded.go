package evidence

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// recorded asks a leg each question once and gives the same answer to whoever asks again, so that a sweep over settings
// of the gateway costs the gateway's time only. Its answers are shared: nobody may change one.
type recorded struct {
	triskelev1.LegServiceClient
	mu      sync.Mutex
	answers map[string]proto.Message
}

func record(leg triskelev1.LegServiceClient) *recorded {
	return &recorded{LegServiceClient: leg, answers: map[string]proto.Message{}}
}

// Search implements triskelev1.LegServiceClient.
func (r *recorded) Search(ctx context.Context, req *triskelev1.SearchRequest, options ...grpc.CallOption) (*triskelev1.SearchResponse, error) {
	return answer(r, req, func() (*triskelev1.SearchResponse, error) { return r.LegServiceClient.Search(ctx, req, options...) })
}

// ScoreByIds implements triskelev1.LegServiceClient.
func (r *recorded) ScoreByIds(ctx context.Context, req *triskelev1.ScoreByIdsRequest, options ...grpc.CallOption) (*triskelev1.ScoreByIdsResponse, error) {
	return answer(r, req, func() (*triskelev1.ScoreByIdsResponse, error) {
		return r.LegServiceClient.ScoreByIds(ctx, req, options...)
	})
}

func answer[T proto.Message](r *recorded, req proto.Message, ask func() (T, error)) (T, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		var none T
		return none, err
	}
	key := string(req.ProtoReflect().Descriptor().Name()) + string(text)
	r.mu.Lock()
	known, ok := r.answers[key].(T)
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	resp, err := ask()
	if err == nil {
		r.mu.Lock()
		r.answers[key] = resp
		r.mu.Unlock()
	}
	return resp, err
}

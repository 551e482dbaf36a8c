package trust

import (
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// burstTime is how much of its rate a caller may use at once after a pause.
	burstTime = 2 * time.Second
	// limiters bounds how many pairs of token and namespace are remembered; one that is forgotten starts afresh.
	limiters = 10_000
)

// limits hold each token to its rate, namespace by namespace: a token bucket each.
type limits struct {
	perSecond float64 // for tokens without a rate of their own; 0 is no limit
	buckets   *lru.Cache[string, *rate.Limiter]
}

func newLimits(perSecond float64) (*limits, error) {
	buckets, err := lru.New[string, *rate.Limiter](limiters)
	return &limits{perSecond, buckets}, err
}

// take counts a call. One too many is RESOURCE_EXHAUSTED, with the time after which to try again.
func (l *limits) take(token Token, namespace string) error {
	perSecond := l.perSecond
	if token.Rate > 0 {
		perSecond = token.Rate
	}
	if perSecond == 0 {
		return nil
	}
	key := fmt.Sprintf("%s %g %s", token.ID, perSecond, namespace)
	bucket, ok := l.buckets.Get(key)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond*burstTime.Seconds())))
		if other, ok, _ := l.buckets.PeekOrAdd(key, bucket); ok { // of a call at the same time
			bucket = other
		}
	}
	reservation := bucket.Reserve()
	wait := reservation.Delay()
	if wait == 0 {
		return nil
	}
	reservation.Cancel()
	st, err := status.Newf(codes.ResourceExhausted, "the token makes more than %g calls a second in this namespace", perSecond).
		WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		return err
	}
	return st.Err()
}

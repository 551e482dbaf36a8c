package auth

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
	day      = 24 * time.Hour
)

// limits hold each token to a rate, namespace by namespace: a token bucket each.
type limits struct {
	amount  float64             // in a period, for tokens without one of their own; 0 is no limit
	own     func(Token) float64 // a token's own, 0 if it has none
	period  time.Duration
	burst   time.Duration // what may be used at once is the amount of this time
	what    string        // the token does too much of, with a verb for the amount
	buckets *lru.Cache[string, *rate.Limiter]
}

// newRates limits calls a second.
func newRates(amount float64) (*limits, error) {
	return newLimits(limits{amount: amount, own: func(t Token) float64 { return t.Rate }, period: time.Second, burst: burstTime,
		what: "makes more than %g calls a second"})
}

// newQuotas limits memories stored a day.
func newQuotas(amount float64) (*limits, error) {
	return newLimits(limits{amount: amount, own: func(t Token) float64 { return t.Quota }, period: day, burst: day,
		what: "stores more than its quota of %g memories a day"})
}

func newLimits(l limits) (_ *limits, err error) {
	l.buckets, err = lru.New[string, *rate.Limiter](limiters)
	return &l, err
}

// take counts n. What is too much is RESOURCE_EXHAUSTED, with the time after which to try again, unless n is too much at
// any time.
func (l *limits) take(token Token, namespace string, n int) error {
	amount := l.amount
	if own := l.own(token); own > 0 {
		amount = own
	}
	if amount == 0 || n == 0 {
		return nil
	}
	key := fmt.Sprintf("%s %g %s", token.ID, amount, namespace)
	bucket, ok := l.buckets.Get(key)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(amount/l.period.Seconds()), max(1, int(amount*l.burst.Seconds()/l.period.Seconds())))
		if other, ok, _ := l.buckets.PeekOrAdd(key, bucket); ok { // of a call at the same time
			bucket = other
		}
	}
	st := status.Newf(codes.ResourceExhausted, "the token "+l.what+" in this namespace", amount)
	reservation := bucket.ReserveN(time.Now(), n)
	if !reservation.OK() {
		return st.Err()
	}
	wait := reservation.Delay()
	if wait == 0 {
		return nil
	}
	reservation.Cancel()
	st, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		return err
	}
	return st.Err()
}

package auth

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// burstTime is the time whose calls may come at once after a pause.
	burstTime = 2 * time.Second
	day       = 24 * time.Hour
	// mostNamespaces bounds the buckets of a token, and mostBuckets those of all tokens, some 30 MB. Further
	// namespaces of a token share one.
	mostNamespaces = 10_000
	mostBuckets    = 100_000
	// mostTokens bounds the tokens, since an issuer may sign any number. Further ones act as one token.
	mostTokens = 20_000
	// between is the least time between two searches for full buckets.
	between = time.Second
)

// limits are rate limiters, with a token bucket for each token and namespace. Only full buckets are forgotten, since
// a new one is full. So no caller gets a fresh bucket by naming other namespaces.
type limits struct {
	amount float64             // in a period, if a token has none of its own; 0 is no limit
	own    func(Token) float64 // a token's own amount, or 0
	period time.Duration
	burst  time.Duration // the amount of this time may come at once
	what   string        // of the error, with a verb for the amount

	mu      sync.Mutex // of what follows
	tokens  map[holder]*buckets
	kept    int // buckets of namespaces, all tokens
	cleared time.Time
}

// holder is a token with its amount, which may change.
type holder struct {
	token  string
	amount float64
}

// buckets are of a token.
type buckets struct {
	namespaces map[string]*rate.Limiter
	rest       *rate.Limiter // shared by further namespaces
}

// newRates limits calls per second.
func newRates(amount float64) *limits {
	return &limits{amount: amount, own: func(t Token) float64 { return t.Rate }, period: time.Second, burst: burstTime,
		what: "makes more than %g calls a second", tokens: map[holder]*buckets{}}
}

// newQuotas limits memories stored per day.
func newQuotas(amount float64) *limits {
	return &limits{amount: amount, own: func(t Token) float64 { return t.Quota }, period: day, burst: day,
		what: "stores more than its quota of %g memories a day", tokens: map[holder]*buckets{}}
}

// take takes n from a bucket. RESOURCE_EXHAUSTED means too little is left. It says when to try again, unless n
// exceeds the burst.
func (l *limits) take(token Token, namespace string, n int) error {
	amount := cmp.Or(l.own(token), l.amount)
	if amount == 0 || n == 0 {
		return nil
	}
	wait, ever := l.reserve(holder{token.ID, amount}, namespace, n, time.Now())
	if ever && wait == 0 {
		return nil
	}
	text := fmt.Sprintf("the token "+l.what+" in this namespace", amount)
	if !ever {
		return status.Error(codes.ResourceExhausted, text)
	}
	st := status.Newf(codes.ResourceExhausted, "%s: try again in %v", text, wait.Truncate(time.Second)+time.Second)
	st, _ = st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}) // never fails
	return st.Err()
}

// reserve takes n from a bucket, or returns the time to wait. ever is false if n exceeds the burst.
func (l *limits) reserve(by holder, namespace string, n int, now time.Time) (wait time.Duration, ever bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reservation := l.bucket(by, namespace, now).ReserveN(now, n)
	if wait = reservation.DelayFrom(now); wait > 0 {
		reservation.CancelAt(now)
	}
	return wait, reservation.OK()
}

// bucket returns the bucket of a token's namespace.
func (l *limits) bucket(by holder, namespace string, now time.Time) *rate.Limiter {
	of := l.tokens[by]
	if of != nil && of.namespaces[namespace] != nil {
		return of.namespaces[namespace]
	}
	if len(l.tokens) >= mostTokens || l.kept >= mostBuckets || of != nil && len(of.namespaces) >= mostNamespaces {
		l.clear(now)
		of = l.tokens[by]
	}
	if of == nil && len(l.tokens) >= mostTokens && by.token != "" {
		return l.bucket(holder{"", by.amount}, namespace, now)
	}
	if of == nil {
		of = &buckets{namespaces: map[string]*rate.Limiter{}, rest: l.full(by.amount)}
		l.tokens[by] = of
	}
	if l.kept >= mostBuckets || len(of.namespaces) >= mostNamespaces {
		return of.rest
	}
	bucket := l.full(by.amount)
	of.namespaces[namespace] = bucket
	l.kept++
	return bucket
}

func (l *limits) full(amount float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(amount/l.period.Seconds()), max(1, int(amount*l.burst.Seconds()/l.period.Seconds())))
}

// clear forgets full buckets.
func (l *limits) clear(now time.Time) {
	if now.Sub(l.cleared) < between {
		return
	}
	l.cleared = now
	isFull := func(b *rate.Limiter) bool { return b.TokensAt(now) >= float64(b.Burst()) }
	for by, of := range l.tokens {
		l.kept -= len(of.namespaces)
		maps.DeleteFunc(of.namespaces, func(_ string, b *rate.Limiter) bool { return isFull(b) })
		l.kept += len(of.namespaces)
		if len(of.namespaces) == 0 && isFull(of.rest) {
			delete(l.tokens, by)
		}
	}
}

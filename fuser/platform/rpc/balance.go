package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/grpclog"
	_ "google.golang.org/grpc/health" // registers the client's side of health checking
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/dns"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/resilience"
)

const (
	balancerName = "triskele_round_robin"
	// leastPatience is the least time of a call whose timeout says something about the address.
	leastPatience = 20 * time.Millisecond
	// resolveEvery is the interval of DNS look-ups, which find new pods.
	resolveEvery = 3 * time.Second
)

// serviceConfig spreads calls over all serving addresses of a name, such as the pods of a headless service. Methods
// that only read are retried once after UNAVAILABLE, usually at another address.
const serviceConfig = `{
	"loadBalancingConfig": [{"` + balancerName + `": {}}],
	"healthCheckConfig": {"serviceName": ""},
	"methodConfig": [{
		"name": [
			{"service": "triskele.v1.LegService"},
			{"service": "triskele.v1.MemoryService", "method": "Get"},
			{"service": "triskele.v1.MemoryService", "method": "GetNamespace"}
		],
		"retryPolicy": {
			"maxAttempts": 2, "initialBackoff": "0.002s", "maxBackoff": "0.002s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]
}`

// gRPC finds policies by name in a registry, and the least interval of its DNS resolver in a variable. Its log, and that of
// grpc-gateway, has a line for each caller who sends nonsense or goes: a program's own log says what matters.
func init() {
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}
	balancer.Register(builder{})
	dns.SetMinResolutionInterval(resolveEvery)
}

// builder makes balancers over the ready addresses. Calls go to them in turn, or by Near. An address is skipped while its circuit
// breaker is open. gRPC's own policies have no such breaker without its xDS client.
type builder struct{}

func (builder) Name() string { return balancerName }

func (builder) Build(cc balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	b := &roundRobin{ClientConn: cc, replicas: resolver.NewEndpointMap[*replica]()}
	b.Balancer = endpointsharding.NewBalancer(b, options, balancer.Get(pickfirst.Name).Build, endpointsharding.Options{})
	return b
}

// roundRobin replaces the picker of its embedded balancer, which has a connection for each address.
type roundRobin struct {
	balancer.Balancer
	balancer.ClientConn
	mu       sync.Mutex
	replicas *resolver.EndpointMap[*replica]
}

// replica is what is known of an address as long as it is resolved.
type replica struct {
	address string
	breaker *resilience.Breaker
	running atomic.Int64 // calls
}

func (b *roundRobin) UpdateClientConnState(state balancer.ClientConnState) error {
	return b.Balancer.UpdateClientConnState(balancer.ClientConnState{ResolverState: pickfirst.EnableHealthListener(state.ResolverState)})
}

// UpdateState implements balancer.ClientConn, for the embedded balancer.
func (b *roundRobin) UpdateState(state balancer.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	replicas := resolver.NewEndpointMap[*replica]()
	picker := &picker{}
	for _, child := range endpointsharding.ChildStatesFromPicker(state.Picker) {
		known, ok := b.replicas.Get(child.Endpoint)
		if !ok {
			known = &replica{address: child.Endpoint.Addresses[0].Addr, breaker: resilience.NewBreaker(nil)}
		}
		replicas.Set(child.Endpoint, known)
		if child.State.ConnectivityState == connectivity.Ready {
			picker.endpoints = append(picker.endpoints, endpoint{picker: child.State.Picker, replica: known})
		}
	}
	b.replicas = replicas
	if len(picker.endpoints) > 0 {
		state.Picker = picker
	}
	b.ClientConn.UpdateState(state)
}

type endpoint struct {
	picker balancer.Picker
	*replica
	weight uint64 // by ranked
}

type picker struct {
	endpoints []endpoint // all ready
	next      atomic.Uint64
}

// near is the key of a call that prefers a replica.
type near struct {
	key   string
	picks atomic.Uint64
}

type nearKey struct{}

// Near returns a context whose calls prefer one replica of each name: all gateways agree on it, and it keeps what it has in memory
// for the key. A retry, and a second call with the context, prefer the next one. So does a call whose replica is busy.
func Near(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, nearKey{}, &near{key: key})
}

// spareCalls is how many calls a replica runs at least before calls that prefer it go elsewhere.
const spareCalls = 16

// ranked returns the endpoints by their weights for a key, and how many calls each may run. Weights are hashes of key and address:
// when a replica comes or goes, only the keys that prefer it move (Thaler and Ravishankar, A name-based mapping scheme for
// rendezvous, 1996). No replica runs more than twice its share (Mirrokni et al., Consistent hashing with bounded loads, 2016).
func (p *picker) ranked(key string) (endpoints []endpoint, limit int64) {
	endpoints = slices.Clone(p.endpoints)
	for i := range endpoints {
		e := &endpoints[i]
		e.weight = xxhash.Sum64String(key + "\x00" + e.address)
		limit += e.running.Load()
	}
	slices.SortFunc(endpoints, func(a, b endpoint) int { return cmp.Compare(b.weight, a.weight) })
	return endpoints, spareCalls + 2*limit/int64(len(endpoints))
}

func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	n := uint64(len(p.endpoints))
	endpoints, first, limit := p.endpoints, uint64(0), int64(math.MaxInt64)
	if prefers, ok := info.Ctx.Value(nearKey{}).(*near); ok {
		endpoints, limit = p.ranked(prefers.key)
		first = prefers.picks.Add(1) - 1
	} else {
		first = p.next.Add(1)
	}
	for i := range n {
		e := endpoints[(first+i)%n]
		if e.running.Load() >= limit {
			continue
		}
		done, err := e.breaker.Allow()
		if err != nil {
			continue
		}
		result, err := e.picker.Pick(info)
		if err != nil {
			done(resilience.ErrIgnored)
			return result, err
		}
		e.running.Add(1)
		given := time.Duration(math.MaxInt64)
		if deadline, ok := info.Ctx.Deadline(); ok {
			given = time.Until(deadline)
		}
		tell := result.Done
		result.Done = func(end balancer.DoneInfo) {
			e.running.Add(-1)
			outcome := Outcome(end.Err, given, leastPatience)
			if end.Err == nil && !end.BytesSent { // the connection was not ready: gRPC picks again
				outcome = resilience.ErrIgnored
			}
			done(outcome)
			if tell != nil {
				tell(end)
			}
		}
		return result, nil
	}
	return endpoints[first%n].picker.Pick(info) // all circuit breakers are open: try one
}

// Outcome is that of a call for its circuit breaker. given is the time that the call had: a timeout after less than patience says
// nothing about the service.
func Outcome(err error, given, patience time.Duration) error {
	code := status.Code(err)
	switch {
	case IsPartAway(err):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	switch code {
	case codes.DeadlineExceeded:
		if given < patience {
			return resilience.ErrIgnored
		}
		return resilience.ErrFailure
	case codes.Canceled:
		return resilience.ErrIgnored
	case codes.Unavailable, codes.Internal, codes.Unknown:
		return resilience.ErrFailure
	}
	return nil
}

// refreshing resolves names every resolveEvery. gRPC does so only when it loses a connection.
type refreshing struct{ resolver.Builder }

func (r refreshing) Build(target resolver.Target, cc resolver.ClientConn, options resolver.BuildOptions) (resolver.Resolver, error) {
	inner, err := r.Builder.Build(target, cc, options)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	go every(ctx, resolveEvery, func() { inner.ResolveNow(resolver.ResolveNowOptions{}) })
	return &refreshed{inner, stop}, nil
}

type refreshed struct {
	resolver.Resolver
	stop func()
}

func (r *refreshed) Close() {
	r.stop()
	r.Resolver.Close()
}

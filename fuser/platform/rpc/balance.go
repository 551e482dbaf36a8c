package rpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	_ "google.golang.org/grpc/health" // registers the client's side of health checking
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/dns"
	"google.golang.org/grpc/status"

	"github.com/triskele/triskele/fuser/platform/resilience"
)

const (
	// balancerName is the policy's name in a service config.
	balancerName = "triskele_round_robin"
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

// gRPC finds policies by name in a registry, and the least interval of its DNS resolver in a variable.
func init() {
	balancer.Register(builder{})
	dns.SetMinResolutionInterval(resolveEvery)
}

// builder makes round-robin balancers over the ready addresses. They skip an address while its circuit breaker is
// open. gRPC's own policy for that comes only with its xDS client.
type builder struct{}

func (builder) Name() string { return balancerName }

func (builder) Build(cc balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	b := &roundRobin{ClientConn: cc, breakers: resolver.NewEndpointMap[*resilience.Breaker]()}
	b.Balancer = endpointsharding.NewBalancer(b, options, balancer.Get(pickfirst.Name).Build, endpointsharding.Options{})
	return b
}

// roundRobin replaces the picker of its embedded balancer, which has a connection for each address.
type roundRobin struct {
	balancer.Balancer
	balancer.ClientConn
	mu       sync.Mutex
	breakers *resolver.EndpointMap[*resilience.Breaker]
}

// UpdateClientConnState implements balancer.Balancer.
func (b *roundRobin) UpdateClientConnState(state balancer.ClientConnState) error {
	return b.Balancer.UpdateClientConnState(balancer.ClientConnState{ResolverState: pickfirst.EnableHealthListener(state.ResolverState)})
}

// UpdateState implements balancer.ClientConn, for the embedded balancer.
func (b *roundRobin) UpdateState(state balancer.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	breakers := resolver.NewEndpointMap[*resilience.Breaker]()
	picker := &picker{}
	for _, child := range endpointsharding.ChildStatesFromPicker(state.Picker) {
		breaker, ok := b.breakers.Get(child.Endpoint)
		if !ok {
			breaker = resilience.NewBreaker(resilience.DefaultBreaker(), nil)
		}
		breakers.Set(child.Endpoint, breaker)
		if child.State.ConnectivityState == connectivity.Ready {
			picker.endpoints = append(picker.endpoints, endpoint{child.State.Picker, breaker})
		}
	}
	b.breakers = breakers
	if len(picker.endpoints) > 0 {
		state.Picker = picker
	}
	b.ClientConn.UpdateState(state)
}

type endpoint struct {
	picker  balancer.Picker
	breaker *resilience.Breaker
}

type picker struct {
	endpoints []endpoint // all ready
	next      atomic.Uint64
}

// Pick implements balancer.Picker.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	n := uint64(len(p.endpoints))
	first := p.next.Add(1)
	for i := range n {
		e := p.endpoints[(first+i)%n]
		done, ok := e.breaker.Allow()
		if !ok {
			continue
		}
		result, err := e.picker.Pick(info)
		if err != nil {
			done(resilience.Ignored)
			return result, err
		}
		tell := result.Done
		result.Done = func(end balancer.DoneInfo) {
			done(resultOf(end.Err))
			if tell != nil {
				tell(end)
			}
		}
		return result, nil
	}
	return p.endpoints[first%n].picker.Pick(info) // all circuit breakers are open: try one
}

// resultOf is a call's outcome for its circuit breaker.
func resultOf(err error) resilience.Result {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss:
		return resilience.Failure
	case codes.Canceled:
		return resilience.Ignored
	}
	return resilience.Success
}

// refreshing resolves names every resolveEvery. gRPC does so only when it loses a connection.
type refreshing struct{ resolver.Builder }

// Build implements resolver.Builder.
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

// Close implements resolver.Resolver.
func (r *refreshed) Close() {
	r.stop()
	r.Resolver.Close()
}

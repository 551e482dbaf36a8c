package auth

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestBucketsAreNotFlushed: a token that has used up its rate in a namespace cannot get it back by naming many others, and
// takes nothing from other tokens by that.
func TestBucketsAreNotFlushed(t *testing.T) {
	t.Parallel()
	rates := newRates(0.001)
	mine, other := Token{ID: "mine"}, Token{ID: "other"}
	for _, token := range []Token{mine, other} {
		if err := rates.take(token, "a", 1); err != nil {
			t.Fatalf("the first call of %s: %v", token.ID, err)
		}
	}
	for i := range mostNamespaces + 1000 {
		_ = rates.take(mine, fmt.Sprint("n", i), 1) // refused or not: either is right
	}
	for _, token := range []Token{mine, other} {
		if err := rates.take(token, "a", 1); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second call of %s: got %v, want %v", token.ID, err, codes.ResourceExhausted)
		}
	}
	if err := rates.take(other, "b", 1); err != nil {
		t.Errorf("another token's first call elsewhere: %v", err)
	}
}

// TestFullBucketsAreForgotten, so that those who named many namespaces once can name others later, and memory is bounded whatever
// comes.
func TestFullBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rates := newRates(1)
		take := func(token, namespace string) error { return rates.take(Token{ID: token}, namespace, 1) }
		for i := range mostBuckets / mostNamespaces {
			for j := range mostNamespaces {
				if err := take(fmt.Sprint("token", i), fmt.Sprint(j)); err != nil {
					t.Fatalf("namespace %d of token %d: %v", j, i, err)
				}
			}
		}
		for j := range 4 {
			if err := take("one more", fmt.Sprint(j)); (err != nil) != (j >= 2) { // a bucket has two, and so has the one that is shared
				t.Errorf("namespace %d beyond the bound: %v", j, err)
			}
		}
		if rates.kept != mostBuckets {
			t.Errorf("kept %d buckets, want %d", rates.kept, mostBuckets)
		}
		time.Sleep(burstTime)
		for i := range mostNamespaces {
			if err := take("token0", fmt.Sprint("later", i)); err != nil {
				t.Fatalf("namespace %d after a pause: %v", i, err)
			}
		}
		if rates.kept != mostNamespaces || len(rates.tokens) != 1 {
			t.Errorf("kept %d buckets of %d tokens, want %d of 1", rates.kept, len(rates.tokens), mostNamespaces)
		}
	})
}

// TestManyTokens: an issuer signs any number of tokens. Those beyond the bound share a bucket, and those known keep theirs.
func TestManyTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rates := newRates(0.1) // one at a time
		refused := 0
		for i := range mostTokens + 100 {
			if rates.take(Token{ID: fmt.Sprint(i)}, "a", 1) != nil {
				refused++
			}
		}
		if len(rates.tokens) > mostTokens+1 || refused != 99 {
			t.Errorf("got %d tokens and %d refusals, want at most %d and %d", len(rates.tokens), refused, mostTokens+1, 99)
		}
		if err := rates.take(Token{ID: "0"}, "a", 1); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the first token again: got %v, want %v", err, codes.ResourceExhausted)
		}
	})
}

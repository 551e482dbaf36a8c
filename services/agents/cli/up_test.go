package cli

import (
	"net"
	"strings"
	"testing"
)

// TestWelcome: the commands that a gateway recommends when it starts get through to it.
func TestWelcome(t *testing.T) {
	t.Parallel()
	var open, closed upCmd
	closed.Listener.TLS.Cert, closed.Access.Tokens = "gateway.pem", "tokens.json"
	for want, c := range map[string]upCmd{
		"\n  triskele remember \"":                                      open,
		"\n  triskele remember --tls-ca FILE --token-file FILE \"":      closed,
		"\n  triskele recall --tls-ca FILE --token-file FILE \"when do": closed,
	} {
		if got := c.welcome(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7400}, nil, target{}); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

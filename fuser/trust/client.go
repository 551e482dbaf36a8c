package trust

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
)

// Bearer is the token that a program shows to a gateway.
type Bearer struct {
	TokenFile string `help:"File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any." env:"TRISKELE_TOKEN_FILE" placeholder:"FILE"`
	// Token is for the environment: others can see a command line.
	Token string `hidden:"" env:"TRISKELE_TOKEN"`
}

// Dial returns what a connection to target needs to be encrypted and to show the token. A token is sent in plain text to
// this machine only.
func (b Bearer) Dial(t TLS, target string) ([]grpc.DialOption, error) {
	creds, err := t.Client()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	secret := b.Token
	if b.TokenFile != "" {
		text, err := os.ReadFile(b.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		secret = strings.TrimSpace(string(text))
	}
	if secret == "" {
		return options, nil
	}
	if t.CA == "" && !loopback(target) {
		return nil, errors.New("a token is not sent in plain text to another machine: give --tls-ca FILE, or --tls-ca system")
	}
	return append(options, grpc.WithPerRPCCredentials(shown(secret))), nil
}

// loopback says whether target is certain to be on this machine.
func loopback(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(target)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// shown is a token as a call's metadata.
type shown string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s shown) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(s)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials; Dial has seen to it.
func (shown) RequireTransportSecurity() bool { return false }

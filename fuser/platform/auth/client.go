package auth

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/proto/client"
)

// Bearer is the token that a program sends to a gateway.
type Bearer struct {
	TokenFile string `help:"File with the token for the gateway. If not given, the token in TRISKELE_TOKEN is used, if any." env:"TRISKELE_TOKEN_FILE" placeholder:"FILE"`
	// Token is set by the environment only: others can see flags.
	Token string `hidden:"" env:"TRISKELE_TOKEN"`
}

// Dial returns the dial options for TLS and the token. A token is sent in plain text to this machine only.
func (b Bearer) Dial(t TLS, target string) ([]grpc.DialOption, error) {
	creds, err := t.Client()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	secret, err := settings.Secret(b.TokenFile, b.Token)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	if secret == "" {
		return options, nil
	}
	shown, err := client.SendToken(secret, target, t.CA != "")
	if err != nil {
		return nil, fmt.Errorf("%w: give --tls-ca FILE, or --tls-ca system", err)
	}
	return append(options, shown), nil
}

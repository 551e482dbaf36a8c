// Package auth decides which callers a server admits and what each may do. It also keeps an audit log of writes and
// refusals.
//
// A call is decided in these steps:
//
//  1. Listener.Open sets up TLS. With names of clients, a caller must have a certificate from the authorities with one of the names.
//  2. byCertificate checks the name and admits the caller, if tokens are not configured.
//  3. byToken.admit verifies the bearer token otherwise: one of the tokens file, or a JWT that the OIDC issuer
//     signed.
//  4. The token must have the scope that scopes lists for the method.
//  5. call.Allow checks each message: its namespaces, the token's rate limit and its write quota.
//  6. The audit log gets refusals at once, and writes with their outcome.
//
// The tokens file holds hashes, and is read again when it changes.
package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/tls/certprovider"
	"google.golang.org/grpc/credentials/tls/certprovider/pemfile"
	"google.golang.org/grpc/security/advancedtls"

	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/proto/client"
)

// SystemRoots, in place of a file, means the system's authorities.
const SystemRoots = "system"

// TLS is a program's certificate and the authorities it accepts. The zero value is plain text.
type TLS struct {
	Cert   string        `name:"tls-cert" help:"PEM file with this program's certificate and its chain." env:"TRISKELE_TLS_CERT" placeholder:"FILE"`
	Key    string        `name:"tls-key" help:"PEM file with the certificate's private key." env:"TRISKELE_TLS_KEY" placeholder:"FILE"`
	CA     string        `name:"tls-ca" help:"PEM file of the authorities that must have issued a peer's certificate, or \"system\". It turns on TLS for outgoing calls." env:"TRISKELE_TLS_CA" placeholder:"FILE"`
	Reload time.Duration `name:"tls-reload" help:"How often certificate and token files are checked for changes." default:"10s" hidden:"" env:"TRISKELE_TLS_RELOAD"`
}

// check reads the files once, since an error at the start is better than one in each handshake.
func (t TLS) check() (err error) {
	defer func() { err = settings.Wrong(err) }()
	if (t.Cert == "") != (t.Key == "") {
		return errors.New("--tls-cert and --tls-key belong together")
	}
	if t.Cert != "" {
		if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
	}
	if t.CA != "" && t.CA != SystemRoots {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return fmt.Errorf("--tls-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("--tls-ca: no certificate in %s", t.CA)
		}
	}
	if t.Reload <= 0 {
		return errors.New("--tls-reload must be more than 0")
	}
	return nil
}

// concern says what is wrong with the files, or "" for nothing.
func (t TLS) concern() string {
	if err := t.check(); err != nil {
		return "the TLS files cannot be read, so what was read before is used, until it expires: " + err.Error()
	}
	return ""
}

// server returns a server's configuration, nil for plain text. With askClients, a caller must have a certificate.
func (t TLS) server(askClients bool) (*tls.Config, error) {
	if err := t.check(); err != nil || t.Cert == "" {
		return nil, err
	}
	own, err := t.watch(pemfile.Options{CertFile: t.Cert, KeyFile: t.Key})
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		material, err := own.KeyMaterial(hello.Context())
		if err != nil {
			return nil, err
		}
		return &material.Certs[0], nil
	}}
	if !askClients {
		return config, nil
	}
	if t.CA == "" || t.CA == SystemRoots {
		return nil, settings.Wrong(errors.New("--tls-clients needs --tls-ca FILE, the authorities that issue callers' certificates"))
	}
	authorities, err := t.watch(pemfile.Options{RootFile: t.CA})
	if err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.SessionTicketsDisabled = true // a resumed session would skip the current authorities
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		material, err := authorities.KeyMaterial(hello.Context())
		if err != nil {
			return nil, err
		}
		now := config.Clone()
		now.ClientCAs = material.Roots
		return now, nil
	}
	return config, nil
}

// Client returns the credentials for calls, plain text if CA is empty. A peer must have a certificate from one of the
// authorities for the name it is called by.
func (t TLS) Client() (credentials.TransportCredentials, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.CA == "" {
		return insecure.NewCredentials(), nil
	}
	options := &advancedtls.Options{MinTLSVersion: tls.VersionTLS13, MaxTLSVersion: tls.VersionTLS13}
	var err error
	if t.CA != SystemRoots {
		if options.RootOptions.RootProvider, err = t.watch(pemfile.Options{RootFile: t.CA}); err != nil {
			return nil, err
		}
	}
	if t.Cert != "" {
		if options.IdentityOptions.IdentityProvider, err = t.watch(pemfile.Options{CertFile: t.Cert, KeyFile: t.Key}); err != nil {
			return nil, err
		}
	}
	return advancedtls.NewClientCreds(options)
}

// watch returns the files' contents, at most Reload old. It runs until the program ends.
func (t TLS) watch(files pemfile.Options) (certprovider.Provider, error) {
	files.RefreshDuration = t.Reload
	return pemfile.NewProvider(files)
}

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

// Package authtest makes certificates and signed tokens for tests.
package authtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/triskele/triskele/fuser/platform/auth"
)

// Authority issues certificates.
type Authority struct {
	File        string // its certificate
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issued      int64
}

// NewAuthority returns a new authority, with its file in a temporary folder.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = key(t)
	var der []byte
	var err error
	if der, err = x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key); err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	write(t, a.File, "CERTIFICATE", der)
	return a
}

// Issue returns the TLS flags for a fresh certificate for 127.0.0.1 and name, and its authority.
func (a *Authority) Issue(t *testing.T, name string) auth.TLS {
	t.Helper()
	folder := t.TempDir()
	tls := auth.TLS{Cert: filepath.Join(folder, name+".pem"), Key: filepath.Join(folder, name+".key"), CA: a.File, Reload: 20 * time.Millisecond}
	a.Renew(t, tls, name, time.Hour)
	return tls
}

// Renew replaces the certificate by one that is valid for the given time.
func (a *Authority) Renew(t *testing.T, tls auth.TLS, name string, valid time.Duration) {
	t.Helper()
	a.issued++
	k := key(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.issued), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, k.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	write(t, tls.Key, "PRIVATE KEY", private)
	write(t, tls.Cert, "CERTIFICATE", der)
}

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func write(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

package cli

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"time"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/services/agents/internal/render"
)

// soonExpired is how long before expiry the doctor warns.
const soonExpired = 14 * 24 * time.Hour

// checkCertificates checks that the key matches the certificate, that the certificate is valid, and that the authority
// signed it.
func checkCertificates(files auth.TLS, now time.Time, found *findings) {
	var roots *x509.CertPool
	if files.CA != "" && files.CA != auth.SystemRoots {
		text, err := os.ReadFile(files.CA)
		roots = x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(text) {
			found.add(fail, "authorities", "%s has no readable certificate: --tls-ca must name a PEM file", files.CA)
			return
		}
	}
	if files.Cert == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		found.add(fail, "certificate", "%s and %s are not a pair: %v; issue the certificate again for this key", files.Cert, files.Key, err)
		return
	}
	var chain []*x509.Certificate
	between := x509.NewCertPool()
	for i, der := range pair.Certificate {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			found.add(fail, "certificate", "%s: %v", files.Cert, err)
			return
		}
		if chain = append(chain, parsed); i > 0 {
			between.AddCert(parsed)
		}
	}
	checkExpiry("certificate", chain, now, found)
	if roots == nil {
		return
	}
	// Verify at the time of issue: checkExpiry already reported expiry.
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: chain[0].NotBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		found.add(fail, "certificate", "%s was not issued by the authorities in %s: %v; append the intermediate certificates to the file", files.Cert, files.CA, err)
	}
}

// checkExpiry reports the earliest expiry in a chain.
func checkExpiry(name string, chain []*x509.Certificate, now time.Time, found *findings) {
	if len(chain) == 0 {
		return
	}
	first := chain[0]
	for _, c := range chain {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	left := first.NotAfter.Sub(now)
	switch {
	case left <= 0:
		found.add(fail, name, "%s expired %s ago: replace the files; running programs reload them", first.Subject, render.Duration(-left))
	case now.Before(chain[0].NotBefore):
		found.add(fail, name, "%s is valid only from %s: is this host's clock right?", chain[0].Subject, chain[0].NotBefore.Format(time.RFC3339))
	case left < soonExpired:
		found.add(warn, name, "%s expires in %s: replace the files; running programs reload them", first.Subject, render.Duration(left))
	default:
		found.add(ok, name, "%s is valid until %s", chain[0].Subject, first.NotAfter.Format(time.DateOnly))
	}
}

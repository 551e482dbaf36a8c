package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/fuser/platform/auth"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/wiring/backend"
)

const (
	// Skew above skewShown can misorder memories. Skew above skewBad also affects expiry.
	skewShown, skewBad = time.Second, time.Minute
	// longStandbyLag causes a warning.
	longStandbyLag = 30 * time.Second
	// skewedBy is how many times the mean a node may hold.
	skewedBy = 2
	// lowDisk is about what a busy file grows by in hours.
	lowDisk = 256 << 20
)

func checkExamined(e backend.Examination, server bool, found *findings) {
	if len(e.TooOld) > 0 {
		found.add(fail, "versions", "%s: upgrade the server, then its extensions with ALTER EXTENSION ... UPDATE", strings.Join(e.TooOld, "; "))
	} else if server {
		found.add(ok, "versions", "the server and its extensions are new enough")
	}
	checkDisk(e, found)
	for _, damage := range e.Damage {
		found.add(fail, "file", "the file is damaged (%s): stop what uses it and restore a backup", damage)
	}
	if server {
		checkClock(e.Clock, found)
		checkStandbys(e, found)
		checkNodes(e, found)
	}
	for _, name := range e.Invalid {
		found.add(fail, "indexes", "index %s is unfinished, so searches do not use it: REINDEX INDEX CONCURRENTLY %[1]s", name)
	}
	if e.NoVectorIndex {
		found.add(fail, "indexes", "a namespace is too large for memory (--search-memory), and the active model's vectors have no index, so every one of them is compared: triskele reembed builds it")
	}
	for _, namespace := range e.UnindexedIn {
		found.add(fail, "words", "namespace %s has memories that cannot be found by words: triskele lexical reindex %[1]s", namespace)
	}
	if e.Vectorless > 0 {
		found.add(warn, "vectors", "%s without a vector or a place in the queue: the model finds nothing in them, or the vectors were lost; `triskele reembed` with another model and back makes all anew",
			render.Count(e.Vectorless, "memory", "memories"))
	}
	if len(e.Damage)+len(e.Invalid)+len(e.UnindexedIn) == 0 && !e.NoVectorIndex && e.Vectorless == 0 {
		found.add(ok, "index health", "all indexes are valid and have all their memories")
	}
}

func checkDisk(e backend.Examination, found *findings) {
	switch {
	case errors.Is(e.WriteError, diskerr.ErrFull):
		found.add(fail, "disk", "%s: nothing can be stored, recall still works; free space, or move the database to a larger disk", e.WriteError)
	case e.WriteError != nil:
		found.add(fail, "disk", "%s: nothing can be stored, recall still works; the system's log and the database's have the cause", e.WriteError)
	case e.Free >= 0 && e.Free < lowDisk:
		found.add(warn, "disk", "%s left: free space before writes fail", render.Bytes(e.Free))
	case !e.IsStandby:
		found.add(ok, "disk", "a probe was written and rolled back")
	}
}

func checkClock(ahead time.Duration, found *findings) {
	v, advice := ok, ""
	switch off := ahead.Abs(); {
	case off > skewBad:
		v, advice = fail, ": synchronise both by NTP"
	case off > skewShown:
		v, advice = warn, ": synchronise both by NTP"
	}
	found.add(v, "clock", "the database's clock and this host's differ by %s%s", render.Duration(ahead.Abs()), advice)
}

func checkStandbys(e backend.Examination, found *findings) {
	if e.IsStandby {
		found.add(warn, "standby", "this is a standby: nothing can be written here; give services the primary as --postgres and this one as --postgres-read")
	}
	for _, s := range e.Standbys {
		switch {
		case s.State != "" && s.State != "streaming":
			found.add(warn, "standby", "%s is in state %s: see its log", s.Name, s.State)
		case s.Lag > longStandbyLag:
			found.add(warn, "standby", "%s is %s behind: is it short of disk or CPU, or does a long query hold up its replay?", s.Name, render.Duration(s.Lag))
		default:
			found.add(ok, "standby", "%s is %s behind", s.Name, render.Duration(s.Lag))
		}
	}
}

// checkNodes reports which nodes of a Citus cluster hold how much.
func checkNodes(e backend.Examination, found *findings) {
	if len(e.Nodes) == 0 {
		return
	}
	if len(e.Whole) > 0 {
		found.add(fail, "nodes", "not distributed: %s; stop all programs and run `triskele migrate up --distributed`", strings.Join(e.Whole, ", "))
		return
	}
	var total int64
	for _, n := range e.Nodes {
		total += n.Bytes
	}
	for _, n := range e.Nodes {
		v, advice := ok, ""
		switch {
		case !n.Active:
			v, advice = fail, ": it is not active; its namespaces are searched in memory and cannot be written"
		case n.Shards == 0:
			v, advice = warn, ": SELECT citus_rebalance_start() gives it some"
		case len(e.Nodes) > 1 && n.Bytes*int64(len(e.Nodes)) > skewedBy*total:
			v, advice = warn, ": more than twice its share; SELECT citus_rebalance_start() on the coordinator, or a node of its own for a large namespace"
		}
		found.add(v, "nodes", "%s holds %s with %s%s", n.Name, render.Count(n.Shards, "shard of namespaces", "shards of namespaces"), render.Bytes(n.Bytes), advice)
	}
}

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
	if files.Cert == "" || files.Key == "" { // one without the other is what the check of the gateway says
		return
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if unread, ok := errors.AsType[*fs.PathError](err); ok {
		found.add(fail, "certificate", "%v: --tls-cert and --tls-key must name files that this user can read", unread)
		return
	}
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

func checkExpiry(name string, chain []*x509.Certificate, now time.Time, found *findings) {
	if len(chain) == 0 {
		return
	}
	first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
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

package postgres_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/triskele/triskele/fuser/platform/auth/authtest"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/sqldb"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// TestNoStatementOutlivesItsClient cuts the line to a statement that waits for a lock, so that no cancellation gets through,
// and before any statement_timeout holds: pgx is preparing it.
func TestNoStatementOutlivesItsClient(t *testing.T) {
	database := pgtest.Empty(t)
	watcher, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Close(t.Context()) }()
	for _, statement := range []string{"CREATE TABLE locked (id int)", "BEGIN", "LOCK TABLE locked IN ACCESS EXCLUSIVE MODE"} {
		if _, err := watcher.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	line, cut := wire(t, database)
	pool, err := postgres.Open(t.Context(), line, storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := pool.Exec(t.Context(), "SELECT FROM locked WHERE id = $1", 1)
		ended <- err
	}()
	await := func(when string, statements int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			var n int
			if err := watcher.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE relation = 'locked'::regclass AND NOT granted").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n == statements {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d statements wait, want %d", when, n, statements)
			}
		}
	}
	await("before the cut", 1)
	cut()
	if err := <-ended; err == nil {
		t.Error("a statement has succeeded over a line that was cut")
	}
	await("after the cut", 0)
}

// TestWritesKeepPlans: a foreign key to a partitioned table is checked by a plan that is kept, and no other transaction's plans are.
func TestWritesKeepPlans(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), pgtest.New(t), storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	mode := func(db interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}) (got string) {
		t.Helper()
		if err := db.QueryRow(t.Context(), "SHOW plan_cache_mode").Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if err := (sqldb.Store{Pool: pool}).Write(t.Context(), "", func(tx sqldb.Tx) error {
		if got, want := mode(tx.Postgres), "force_generic_plan"; got != want {
			t.Errorf("got %q in a write, want %q", got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := mode(pool), "auto"; got != want {
		t.Errorf("got %q after it, want %q", got, want)
	}
}

// wire returns a URL that leads to the database through a socket of the test's own, and what cuts all connections there and
// lets no further one through.
func wire(t *testing.T, database string) (string, func()) {
	t.Helper()
	config, err := pgconn.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(folder, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ends := []io.Closer{listener}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(pgconn.NetworkAddress(config.Host, config.Port))
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			ends = append(ends, client, server)
			mu.Unlock()
			go func() { _, _ = io.Copy(server, client) }()
			go func() { _, _ = io.Copy(client, server) }()
		}
	}()
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, end := range ends {
			_ = end.Close()
		}
	}
	t.Cleanup(cut)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", folder)
	query.Set("port", "5432")
	u.Host, u.RawQuery = "", query.Encode()
	return u.String(), cut
}

// TestFilesAreReadAgain: the database gets a certificate of another authority and another password, and their files change. A new
// connection trusts the one and shows the other.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	roots, passwords := filepath.Join(folder, "roots.pem"), filepath.Join(folder, "passwords")
	replace := func(authority *authtest.Authority, password string) {
		t.Helper()
		root, err := os.ReadFile(authority.File)
		if err := errors.Join(err, os.WriteFile(roots, root, 0o600), os.WriteFile(passwords, []byte("*:*:*:*:"+password), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	replace(authtest.NewAuthority(t), "former")
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	pool, err := postgres.Open(t.Context(), "postgres://ada@"+server.Addr().String()+"/triskele?sslmode=verify-full&sslrootcert="+roots+"&passfile="+passwords,
		storetest.Telemetry(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	authority := authtest.NewAuthority(t)
	replace(authority, "latter")
	files := authority.Issue(t, "database")
	certificate, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan pgproto3.FrontendMessage, 1)
	go func() {
		defer close(shown)
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = pgproto3.NewBackend(conn, conn).ReceiveStartupMessage() // it asks for TLS
		_, _ = conn.Write([]byte{'S'})
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}})
		backend := pgproto3.NewBackend(secure, secure)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			t.Errorf("the connection with the latter authority: %v", err)
			return
		}
		backend.Send(&pgproto3.AuthenticationCleartextPassword{})
		_ = backend.SetAuthType(pgproto3.AuthTypeCleartextPassword)
		_ = backend.Flush()
		message, _ := backend.Receive()
		shown <- message
	}()
	_ = pool.Ping(t.Context()) // there is no database
	if got, ok := (<-shown).(*pgproto3.PasswordMessage); !ok || got.Password != "latter" {
		t.Errorf("the password shown is %+v, want latter", got)
	}
}

package dense

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/triskele/triskele/services/store/sqldb"
)

// A server that does not answer holds a search up until its own deadline, and not until that of another one.
func TestLookingForAnIndexHoldsNoOtherUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@"+silent.Addr().String()+"/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l := &Leg{models: NewModels(sqldb.Store{Pool: pool})}
	patient, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := l.hasIndex(patient)
		ended <- err
	}()
	conn, err := silent.Accept() // of the patient search
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	hurried, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	answered := make(chan error, 1)
	go func() {
		_, err := l.hasIndex(hurried)
		answered <- err
	}()
	select {
	case err := <-answered:
		if err == nil {
			t.Error("an index was found in a server that does not answer")
		}
	case <-time.After(10 * time.Second):
		t.Error("the hurried search waits for the patient one")
	}
	cancel()
	<-ended
}

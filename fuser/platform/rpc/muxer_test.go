package rpc

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestClosedDuringHandshakes: a server that is closed while connections come does not touch what a handshake makes of them. The race
// detector looks.
func TestClosedDuringHandshakes(t *testing.T) {
	t.Parallel()
	for range 500 {
		m := newMuxer()
		m.http = make(chan net.Conn)
		caller, conn := net.Pipe()
		go func() {
			_, _ = caller.Write([]byte(preface))
			_ = caller.Close()
		}()
		go m.close()
		_, _, _ = m.ServerHandshake(conn)
		_ = conn.Close()
	}
}

// TestClosedAfterHandOff: a connection that HTTP has is HTTP's, however soon the server is closed.
func TestClosedAfterHandOff(t *testing.T) {
	t.Parallel()
	for range 100 {
		m := newMuxer()
		m.http = make(chan net.Conn)
		caller, conn := net.Pipe()
		go func() { _, _ = caller.Write([]byte("GET / HTTP/1.1\r\n\r\n")) }()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = m.ServerHandshake(&handoffConn{Conn: conn})
		}()
		time.Sleep(time.Millisecond) // so that the handshake waits, and goes on after the close
		got := <-m.http
		m.close()
		<-done
		time.Sleep(time.Millisecond)
		if _, err := io.ReadFull(got, make([]byte, len("GET / HTTP/1.1\r\n\r\n"))); err != nil {
			t.Fatalf("reading what was sent: %v", err)
		}
		_, _ = caller.Close(), conn.Close()
	}
}

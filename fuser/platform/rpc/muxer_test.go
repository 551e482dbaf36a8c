package rpc

import (
	"net"
	"testing"
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

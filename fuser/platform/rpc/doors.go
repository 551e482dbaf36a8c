package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// doors are a server's transport credentials and its protocol muxer. ServerHandshake does TLS if config is set. It
// then sends HTTP/1.1 connections to http, if set. ALPN tells the protocol over TLS, and the HTTP/2 preface in plain
// text.
type doors struct {
	config  *tls.Config // nil for plain text
	http    chan net.Conn
	closing context.Context
	close   context.CancelFunc
}

func newDoors() *doors {
	d := &doors{}
	d.closing, d.close = context.WithCancel(context.Background())
	return d
}

// preface is the start of HTTP/2 connections. No method of HTTP/1.1 starts with it.
const preface = "PRI"

// ServerHandshake implements credentials.TransportCredentials.
func (d *doors) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if d.config == nil && d.http == nil {
		return insecure.NewCredentials().ServerHandshake(raw)
	}
	conn := raw
	if a, ok := raw.(*accepted); ok {
		conn = a.Conn
	}
	defer context.AfterFunc(d.closing, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // idle browsers must not delay it
	var info credentials.AuthInfo
	var speaksHTTP2 bool
	if d.config != nil {
		encrypted := tls.Server(conn, d.config)
		if err := encrypted.Handshake(); err != nil {
			return nil, nil, err
		}
		state := encrypted.ConnectionState()
		conn, speaksHTTP2 = encrypted, state.NegotiatedProtocol == "h2"
		info = credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	} else {
		begun := &begun{Conn: conn, head: make([]byte, len(preface))}
		if _, err := io.ReadFull(conn, begun.head); err != nil {
			return nil, nil, err
		}
		speaksHTTP2 = string(begun.head) == preface
		var err error
		if conn, info, err = insecure.NewCredentials().ServerHandshake(begun); err != nil {
			return nil, nil, err
		}
	}
	if speaksHTTP2 {
		return conn, info, nil
	}
	if a, ok := raw.(*accepted); ok && d.http != nil {
		return nil, nil, d.give(a, conn)
	}
	return nil, nil, errors.New("the connection does not speak HTTP/2")
}

// give hands a connection to HTTP.
func (d *doors) give(a *accepted, conn net.Conn) error {
	a.given.Store(true)
	if err := a.Conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	select {
	case d.http <- conn:
		return credentials.ErrConnDispatched
	case <-d.closing.Done():
		return net.ErrClosed
	}
}

// Info implements credentials.TransportCredentials.
func (d *doors) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone implements credentials.TransportCredentials.
func (d *doors) Clone() credentials.TransportCredentials { return d }

// OverrideServerName implements credentials.TransportCredentials.
func (d *doors) OverrideServerName(string) error { return nil }

// ClientHandshake implements credentials.TransportCredentials.
func (d *doors) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("only servers have doors")
}

// begun is a connection whose first bytes have been read.
type begun struct {
	net.Conn
	head []byte // read ahead, to be read again
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}

// accepting is gRPC's listener if HTTP/1.1 is served, too.
type accepting struct{ net.Listener }

// Accept implements net.Listener.
func (l accepting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &accepted{Conn: conn}, nil
}

// accepted is a connection that may be handed over. gRPC clears its deadline even then, which SetDeadline ignores.
type accepted struct {
	net.Conn
	given atomic.Bool
}

// SetDeadline implements net.Conn.
func (a *accepted) SetDeadline(t time.Time) error {
	if a.given.Load() {
		return nil
	}
	return a.Conn.SetDeadline(t)
}

// given is the listener of the HTTP/1.1 connections.
type given struct{ *doors }

// Accept implements net.Listener.
func (g given) Accept() (net.Conn, error) {
	select {
	case conn := <-g.http:
		return conn, nil
	case <-g.closing.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (g given) Close() error {
	g.close()
	return nil
}

// Addr implements net.Listener. The connections have the real address.
func (g given) Addr() net.Addr { return &net.TCPAddr{} }

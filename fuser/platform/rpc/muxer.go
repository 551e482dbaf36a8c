package rpc

import (
	"bytes"
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

// muxer is a server's transport credentials. It hands each connection to gRPC or to HTTP/1.1:
//
//  1. ServerHandshake does TLS if config is set. ALPN then names the protocol. In plain text, it reads the first bytes
//     and compares them with the HTTP/2 preface.
//  2. gRPC gets HTTP/2 connections, whose first bytes sniffedConn returns once more.
//  3. HTTP/1.1 connections go to http, if set, which httpListener accepts. gRPC then leaves them alone.
type muxer struct {
	config  *tls.Config // nil for plain text
	http    chan net.Conn
	closing context.Context
	close   context.CancelFunc
}

func newMuxer() *muxer {
	m := &muxer{}
	m.closing, m.close = context.WithCancel(context.Background())
	return m
}

// preface is the start of HTTP/2 connections. No method of HTTP/1.1 starts with it.
const preface = "PRI"

func (m *muxer) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if m.config == nil && m.http == nil {
		return insecure.NewCredentials().ServerHandshake(raw)
	}
	conn := raw
	if a, ok := raw.(*handoffConn); ok {
		conn = a.Conn
	}
	plain := conn
	patient := context.AfterFunc(m.closing, func() { _ = plain.SetDeadline(time.Unix(1, 0)) }) // idle browsers must not delay it
	defer patient()
	var info credentials.AuthInfo
	var speaksHTTP2 bool
	if m.config != nil {
		encrypted := tls.Server(conn, m.config)
		if err := encrypted.Handshake(); err != nil {
			return nil, nil, err
		}
		state := encrypted.ConnectionState()
		conn, speaksHTTP2 = encrypted, state.NegotiatedProtocol == "h2"
		info = credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	} else {
		prefix := make([]byte, len(preface))
		if _, err := io.ReadFull(conn, prefix); err != nil {
			return nil, nil, err
		}
		speaksHTTP2 = string(prefix) == preface
		var err error
		if conn, info, err = insecure.NewCredentials().ServerHandshake(sniffedConn{conn, io.MultiReader(bytes.NewReader(prefix), conn)}); err != nil {
			return nil, nil, err
		}
	}
	if speaksHTTP2 {
		return conn, info, nil
	}
	if a, ok := raw.(*handoffConn); ok && m.http != nil {
		if !patient() { // from here on, the deadline is HTTP's
			return nil, nil, net.ErrClosed
		}
		a.handedOff.Store(true)
		if err := a.Conn.SetDeadline(time.Time{}); err != nil {
			return nil, nil, err
		}
		select {
		case m.http <- conn:
			return nil, nil, credentials.ErrConnDispatched
		case <-m.closing.Done():
			return nil, nil, net.ErrClosed
		}
	}
	return nil, nil, errors.New("the connection does not speak HTTP/2")
}

func (m *muxer) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

func (m *muxer) Clone() credentials.TransportCredentials { return m }

func (m *muxer) OverrideServerName(string) error { return nil }

func (m *muxer) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the muxer is for servers only")
}

// sniffedConn is a connection whose first bytes have been read, and are read again.
type sniffedConn struct {
	net.Conn
	all io.Reader
}

func (c sniffedConn) Read(p []byte) (int, error) { return c.all.Read(p) }

// handoffListener is gRPC's listener if HTTP/1.1 is served, too.
type handoffListener struct{ net.Listener }

func (l handoffListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &handoffConn{Conn: conn}, nil
}

// handoffConn is a connection that the muxer may hand off to HTTP. gRPC clears its deadline even then, which SetDeadline ignores.
type handoffConn struct {
	net.Conn
	handedOff atomic.Bool
}

func (a *handoffConn) SetDeadline(t time.Time) error {
	if a.handedOff.Load() {
		return nil
	}
	return a.Conn.SetDeadline(t)
}

type httpListener struct{ *muxer }

func (l httpListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.http:
		return conn, nil
	case <-l.closing.Done():
		return nil, net.ErrClosed
	}
}

func (l httpListener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener. The connections have the real address.
func (l httpListener) Addr() net.Addr { return &net.TCPAddr{} }

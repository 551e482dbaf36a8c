// Package rpctest provides a DNS server for tests.
package rpctest

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Names is a DNS server that gives a name several addresses, as a cluster does for a headless service.
type Names struct {
	address   string
	mu        sync.Mutex
	addresses map[string][][4]byte
}

// ServeNames answers on a loopback socket until the test ends. It starts without names.
func ServeNames(t *testing.T) *Names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n := &Names{address: conn.LocalAddr().String(), addresses: map[string][][4]byte{}}
	go n.serve(conn)
	return n
}

// Target returns the gRPC target of a name that this server resolves.
func (n *Names) Target(name string, port int) string {
	return fmt.Sprintf("dns://%s/%s:%d", n.address, name, port)
}

// Set replaces a name's addresses by 127.0.0.last.
func (n *Names) Set(name string, last ...byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses[name] = nil
	for _, b := range last {
		n.addresses[name] = append(n.addresses[name], [4]byte{127, 0, 0, b})
	}
}

func (n *Names) serve(conn net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		size, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:size]) != nil || len(query.Questions) != 1 {
			continue
		}
		answer := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true},
			Questions: query.Questions,
		}
		if name := query.Questions[0].Name; query.Questions[0].Type == dnsmessage.TypeA {
			n.mu.Lock()
			for _, address := range n.addresses[strings.TrimSuffix(name.String(), ".")] {
				answer.Answers = append(answer.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: address},
				})
			}
			n.mu.Unlock()
		}
		if packed, err := answer.Pack(); err == nil {
			_, _ = conn.WriteTo(packed, from)
		}
	}
}

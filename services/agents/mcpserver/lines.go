package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/services/agents/internal/lines"
)

// MostFrame bounds a line of a client, in bytes. The largest memory is well below it.
const MostFrame = 4 << 20

// Lines is a client's connection over standard input and output. It keeps a session alive that the SDK would end: a message that is
// none of JSON-RPC gets an error as its answer, and at the end of input the requests before it are answered first.
type Lines struct {
	in       *bufio.Reader
	out      io.Writer
	patience time.Duration

	rest []byte // of the current line

	mu      sync.Mutex
	open    map[string]bool // keys of the ids of requests without an answer
	settled *sync.Cond
	closed  bool
}

// NewLines returns a connection that waits at the end of input for at most patience.
func NewLines(in io.Reader, out io.Writer, patience time.Duration) *Lines {
	l := &Lines{in: bufio.NewReaderSize(in, 1<<16), out: out, patience: patience, open: map[string]bool{}}
	l.settled = sync.NewCond(&l.mu)
	return l
}

type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// answerable reports whether a message can be answered: its id is a text or a whole number, as MCP wants it.
func (f frame) answerable() bool {
	_, err := strconv.ParseInt(string(f.ID), 10, 64)
	return err == nil || len(f.ID) > 0 && f.ID[0] == '"'
}

// key returns an id in one of the ways to write it: a text may have characters escaped.
func key(id json.RawMessage) string {
	var text string
	if json.Unmarshal(id, &text) != nil {
		return string(id)
	}
	return strconv.Quote(text)
}

func (l *Lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, length, err := lines.Read(l.in, MostFrame)
		switch {
		case int64(len(line)) < length:
			l.refuse("null", jsonrpc.CodeParseError, fmt.Sprintf("the line has more than %d bytes", MostFrame))
		case length > 0:
			l.accept(line)
		}
		if err != nil && len(l.rest) == 0 {
			l.settle()
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// accept hands the messages of a line on, each in a line of its own, or answers them with an error.
func (l *Lines) accept(line []byte) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
	var messages []json.RawMessage
	switch {
	case len(line) == 0:
	case !json.Valid(line):
		l.refuse("null", jsonrpc.CodeParseError, "the line is no JSON message")
	case json.Unmarshal(line, &messages) == nil && len(messages) > 0:
		for _, message := range messages {
			l.handOn(message)
		}
	default:
		l.handOn(line)
	}
}

func (l *Lines) handOn(message []byte) {
	var f frame
	err := json.Unmarshal(message, &f)
	anonymous := len(f.ID) == 0 || string(f.ID) == "null"
	if _, invalid := jsonrpc.DecodeMessage(message); err != nil || invalid != nil || !anonymous && !f.answerable() {
		id := "null"
		if f.answerable() {
			id = string(f.ID)
		}
		l.refuse(id, jsonrpc.CodeInvalidRequest, "this is no message of JSON-RPC 2.0")
		return
	}
	if err := rpc.Misread(message); err != nil && !anonymous {
		l.refuse(string(f.ID), jsonrpc.CodeInvalidRequest, err.Error())
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case f.Method == "notifications/cancelled":
		var cancelled struct {
			RequestID json.RawMessage `json:"requestId"` // it is not answered
		}
		_ = json.Unmarshal(f.Params, &cancelled)
		delete(l.open, key(cancelled.RequestID))
	case f.Method != "" && !anonymous:
		l.open[key(f.ID)] = true
	}
	l.rest = append(append(l.rest, message...), '\n')
}

func (l *Lines) refuse(id string, code int, why string) {
	_, _ = fmt.Fprintf(l, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n", id, code, why)
}

// Write implements io.Writer. The SDK writes a message at a time. It never fails: the SDK would end the session, and calls with it that
// a client sent before it stopped to listen.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(p)
	var f frame
	if json.Unmarshal(p, &f) == nil && f.Method == "" {
		delete(l.open, key(f.ID))
	}
	l.settled.Broadcast()
	return len(p), nil
}

func (l *Lines) settle() {
	stop := time.AfterFunc(l.patience, func() { _ = l.Close() })
	defer stop.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) > 0 && !l.closed {
		l.settled.Wait()
	}
}

// Close implements io.Closer. It closes neither input nor output, which are the process's.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.settled.Broadcast()
	return nil
}

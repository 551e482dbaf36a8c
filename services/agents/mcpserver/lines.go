package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// mostFrame bounds a line of a client, in bytes. The largest memory is well below it.
const mostFrame = 4 << 20

// Lines is a client's connection over standard input and output. It keeps a session alive that the SDK would end: a line that is no
// JSON gets an error as its answer, and at the end of input the requests before it are answered first.
type Lines struct {
	in       *bufio.Reader
	out      io.Writer
	patience time.Duration

	rest []byte // of the current line

	mu      sync.Mutex
	open    map[string]bool // ids of requests without an answer
	settled *sync.Cond
	closed  bool
}

// NewLines returns a connection that waits at the end of input for at most patience.
func NewLines(in io.Reader, out io.Writer, patience time.Duration) *Lines {
	l := &Lines{in: bufio.NewReaderSize(in, 1<<16), out: out, patience: patience, open: map[string]bool{}}
	l.settled = sync.NewCond(&l.mu)
	return l
}

// frame is what Lines reads of a message.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"` // of a cancelled request, which is not answered
	} `json:"params"`
}

// Read implements io.Reader: it returns the valid lines.
func (l *Lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		if len(line) > 0 {
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

// line reads a line. One that is too long is returned as far as it may go, which is no JSON.
func (l *Lines) line() (line []byte, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line) < mostFrame {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// accept hands a line on, or answers it with an error.
func (l *Lines) accept(line []byte) {
	var one frame
	var several []frame
	switch {
	case json.Unmarshal(line, &one) == nil:
		several = []frame{one}
	case json.Unmarshal(line, &several) == nil:
	default:
		if len(bytes.TrimSpace(line)) > 0 {
			_, _ = l.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is no JSON message"}}` + "\n"))
		}
		return
	}
	l.mu.Lock()
	for _, f := range several {
		if f.Method != "" && len(f.ID) > 0 && string(f.ID) != "null" {
			l.open[string(f.ID)] = true
		}
		if f.Method == "notifications/cancelled" {
			delete(l.open, string(f.Params.RequestID))
		}
	}
	l.mu.Unlock()
	if l.rest = line; line[len(line)-1] != '\n' {
		l.rest = append(l.rest, '\n')
	}
}

// Write implements io.Writer. The SDK writes a message at a time.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.out.Write(p)
	var one frame
	var several []frame
	if json.Unmarshal(p, &one) == nil {
		several = []frame{one}
	} else {
		_ = json.Unmarshal(p, &several)
	}
	for _, f := range several {
		if f.Method == "" {
			delete(l.open, string(f.ID))
		}
	}
	if err != nil {
		l.closed = true // nobody waits for answers
	}
	l.settled.Broadcast()
	return n, err
}

// settle waits until all requests are answered.
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

package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/fuser/platform/rpc"
)

// gRPC-Web is gRPC's framing over HTTP/1.1, with the trailers as a last frame of the body:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md
const (
	grpcWebType  = "application/grpc-web"
	grpcWebText  = "application/grpc-web-text" // all of it in base64
	trailerFrame = 0x80
)

func serveGRPCWeb(inside *rpc.Local, w http.ResponseWriter, r *http.Request) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	body, out := io.Reader(r.Body), io.Writer(w)
	switch kind {
	case grpcWebType, grpcWebType + "+proto":
	case grpcWebText, grpcWebText + "+proto":
		body, out = base64.NewDecoder(base64.StdEncoding, body), base64Writer{w}
	default:
		refuse(w, http.StatusUnsupportedMediaType, fmt.Errorf("messages must be %s+proto or %s+proto", grpcWebType, grpcWebText))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, errors.New("gRPC-Web requests must use POST"))
		return
	}
	w.Header().Set("Content-Type", kind)
	if inside.BothWays(r.URL.Path) {
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	var sending sync.Mutex // held while a message is sent, and for good once the call has ended
	err := call(inside, r, frames{body, w}, func(answer proto.Message) error {
		if !sending.TryLock() {
			return io.ErrClosedPipe
		}
		defer sending.Unlock()
		message, err := proto.Marshal(answer)
		if err != nil {
			return err
		}
		if errors.Join(writeFrame(out, 0, message), http.NewResponseController(w).Flush()) != nil {
			return status.Error(codes.Canceled, "the caller has gone")
		}
		return nil
	})
	if !sending.TryLock() { // a call does not wait for callers who read nothing
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now())
		sending.Lock()
	}
	_ = writeFrame(out, trailerFrame, trailers(err)) // an error means that the caller has gone
}

// call passes on the headers that a gateway reads.
func call(inside *rpc.Local, r *http.Request, body frames, answer func(proto.Message) error) error {
	headers := metadata.MD{}
	for _, name := range append([]string{"Authorization"}, passed...) {
		headers.Append(name, r.Header.Values(name)...)
	}
	ctx, cancel, err := timed(metadata.NewOutgoingContext(r.Context(), headers), r)
	if err != nil {
		return err
	}
	defer cancel()
	return inside.ServeFrames(ctx, r.URL.Path, body, answer)
}

type frames struct {
	body io.Reader
	w    http.ResponseWriter
}

func (f frames) ReadMessageHeader(header []byte) error {
	switch _, err := io.ReadFull(f.body, header); {
	case errors.Is(err, io.EOF):
		read(f.w)
		return io.EOF
	case err != nil:
		return status.Error(codes.InvalidArgument, "the body is not a sequence of gRPC-Web frames")
	case header[0] != 0:
		return status.Error(codes.Unimplemented, "frames must be uncompressed messages")
	}
	return nil
}

func (f frames) Read(n int) (mem.BufferSlice, error) {
	var frame bytes.Buffer // grows with what comes, not with what was announced
	if _, err := io.CopyN(&frame, f.body, int64(n)); err != nil {
		return nil, status.Error(codes.InvalidArgument, "a frame is shorter than its header says")
	}
	return mem.BufferSlice{mem.SliceBuffer(frame.Bytes())}, nil
}

func writeFrame(out io.Writer, flags byte, payload []byte) error {
	frame := make([]byte, rpc.FrameHeader, rpc.FrameHeader+len(payload))
	frame[0] = flags
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	_, err := out.Write(append(frame, payload...))
	return err
}

func trailers(err error) []byte {
	if err == nil {
		return []byte("grpc-status: 0\r\n")
	}
	st := status.Convert(err)
	var out bytes.Buffer
	fmt.Fprintf(&out, "grpc-status: %d\r\ngrpc-message: %s\r\n", st.Code(), percent(st.Message()))
	if details, err := proto.Marshal(st.Proto()); err == nil && len(st.Details()) > 0 {
		fmt.Fprintf(&out, "grpc-status-details-bin: %s\r\n", base64.RawStdEncoding.EncodeToString(details))
	}
	return out.Bytes()
}

// percent encodes a status message as gRPC does. It escapes "%" and all but printable ASCII.
func percent(text string) string {
	var out strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// timed gives a context the deadline that a request asks for, if any.
func timed(ctx context.Context, r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.Header.Get("Grpc-Timeout")
	if text == "" {
		return ctx, func() {}, nil
	}
	timeout, err := parseTimeout(text)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, cancel, nil
}

// parseTimeout parses a grpc-timeout: at most 8 digits and a unit.
func parseTimeout(text string) (time.Duration, error) {
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}
	last := len(text) - 1
	n, err := strconv.ParseUint(text[:last], 10, 32)
	unit := units[text[last]]
	if err != nil || unit == 0 || last > 8 {
		return 0, status.Error(codes.InvalidArgument, "grpc-timeout: must be at most 8 digits and one of H, M, S, m, u, n")
	}
	return time.Duration(min(n, uint64(24*365*time.Hour/unit))) * unit, nil
}

// base64Writer encodes each write in base64 by itself.
type base64Writer struct{ out io.Writer }

func (b base64Writer) Write(p []byte) (int, error) {
	if _, err := b.out.Write([]byte(base64.StdEncoding.EncodeToString(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

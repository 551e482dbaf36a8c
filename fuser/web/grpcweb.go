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
	"time"

	"google.golang.org/grpc"
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
	frameHeader  = 5                           // bytes: flags, length
	trailerFrame = 0x80
)

// serveGRPCWeb makes the call of a request. Messages pass as bytes.
func serveGRPCWeb(inside *rpc.InnerConn, w http.ResponseWriter, r *http.Request) {
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
		refuse(w, http.StatusMethodNotAllowed, errors.New("gRPC-Web requests must use POST"))
		return
	}
	w.Header().Set("Content-Type", kind)
	answers := http.NewResponseController(w)
	sent := func() { _ = answers.SetReadDeadline(time.Time{}) } // it would cut a long answer
	err := call(inside, r, body, sent, func(message []byte) error {
		if err := writeFrame(out, 0, message); err != nil {
			return err
		}
		return answers.Flush()
	})
	_ = writeFrame(out, trailerFrame, trailers(err)) // an error means that the caller has gone
}

// call asks the gate, sends the frames of the body, calls sent and passes on the answers. It always returns an error,
// io.EOF for success.
func call(inside *rpc.InnerConn, r *http.Request, body io.Reader, sent func(), answer func([]byte) error) (err error) {
	ctx, cancel := context.WithCancel(outgoing(r))
	defer cancel()
	if text := r.Header.Get("Grpc-Timeout"); text != "" {
		timeout, err := parseTimeout(text)
		if err != nil {
			return err
		}
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	defer func() {
		if !errors.Is(err, io.EOF) {
			err = rpc.Ended(ctx, err)
		}
	}()
	method := r.URL.Path
	if ctx, err = inside.Admit(ctx, method); err != nil {
		return err
	}
	stream, err := inside.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodecV2(unread{}))
	if err != nil {
		return err
	}
	for {
		message, release, err := readFrame(ctx, inside, method, body)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		err = stream.SendMsg(message)
		release()
		if err != nil {
			break // the call has ended: RecvMsg returns its status
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	sent()
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		if err := answer(message); err != nil {
			return err
		}
	}
}

// outgoing is the request's context with the headers that a gateway reads.
func outgoing(r *http.Request) context.Context {
	ctx := r.Context()
	for _, name := range append([]string{"Authorization"}, passed...) {
		for _, value := range r.Header.Values(name) {
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) { // gRPC would refuse the call with an internal error
				continue
			}
			ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(name), value)
		}
	}
	return ctx
}

// readFrame returns the next message, or io.EOF. release frees its memory.
func readFrame(ctx context.Context, inside *rpc.InnerConn, method string, body io.Reader) (message []byte, release func(), err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(body, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil, io.EOF
		}
		return nil, nil, status.Error(codes.InvalidArgument, "the body is not a sequence of gRPC-Web frames")
	}
	if header[0] != 0 {
		return nil, nil, status.Error(codes.Unimplemented, "frames must be uncompressed messages")
	}
	length := binary.BigEndian.Uint32(header[1:])
	if uint64(length) > uint64(rpc.MaxBytes(method)) {
		return nil, nil, rpc.TooLarge(method)
	}
	if release, err = inside.Sent(ctx, int(length)); err != nil {
		return nil, nil, err
	}
	var frame bytes.Buffer // grows with what comes, not with what was announced
	if _, err := io.CopyN(&frame, body, int64(length)); err != nil {
		release()
		return nil, nil, status.Error(codes.InvalidArgument, "a frame is shorter than its header says")
	}
	return frame.Bytes(), release, nil
}

func writeFrame(out io.Writer, flags byte, payload []byte) error {
	frame := make([]byte, frameHeader, frameHeader+len(payload))
	frame[0] = flags
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	_, err := out.Write(append(frame, payload...))
	return err
}

// trailers encodes a call's end; io.EOF is success.
func trailers(err error) []byte {
	if errors.Is(err, io.EOF) {
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

// Write implements io.Writer.
func (b base64Writer) Write(p []byte) (int, error) {
	if _, err := b.out.Write([]byte(base64.StdEncoding.EncodeToString(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unread is a codec that passes messages as bytes.
type unread struct{}

// Marshal implements encoding.CodecV2.
func (unread) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (unread) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name implements encoding.CodecV2.
func (unread) Name() string { return "proto" }

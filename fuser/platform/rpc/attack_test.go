package rpc_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // programs have it, by way of their exporters
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// text encodes a string field that is as long as size.
func text(field protowire.Number, size int) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), make([]byte, size))
}

// empty encodes n messages or strings that hold nothing.
func empty(field protowire.Number, n int) []byte {
	return bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), 0), n)
}

// TestAttack has strangers, and callers who were let in, send what is small to send and large to hold. The sender's part is in the
// same process and is counted too, so what is sent is made beforehand.
func TestAttack(t *testing.T) {
	const mib = 1 << 20
	for name, x := range map[string]struct {
		method  string
		message []byte
		stream  bool
		options []grpc.CallOption
		want    codes.Code
	}{
		"a compressed health check":        {healthpb.Health_Check_FullMethodName, text(1, 12*mib), false, []grpc.CallOption{grpc.UseCompressor("gzip")}, codes.Unimplemented},
		"a large health check":             {healthpb.Health_Check_FullMethodName, text(1, 12*mib), false, nil, codes.ResourceExhausted},
		"a large watch":                    {healthpb.Health_Watch_FullMethodName, text(1, 12*mib), true, nil, codes.ResourceExhausted},
		"a large reflection":               {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", text(3, 12*mib), true, nil, codes.ResourceExhausted},
		"a large recall":                   {triskelev1.RecallService_Recall_FullMethodName, text(2, 12*mib), false, nil, codes.ResourceExhausted},
		"a compressed recall":              {triskelev1.RecallService_Recall_FullMethodName, text(2, 12*mib), false, []grpc.CallOption{grpc.UseCompressor("gzip")}, codes.Unimplemented},
		"a recall of many violations":      {triskelev1.RecallService_Recall_FullMethodName, nested(6, empty(1, 100_000)), false, nil, codes.ResourceExhausted},
		"a recall of as many as may be":    {triskelev1.RecallService_Recall_FullMethodName, nested(6, empty(1, 20_000)), false, nil, codes.InvalidArgument},
		"an import of empty memories":      {triskelev1.MemoryService_Import_FullMethodName, empty(1, 400_000), true, nil, codes.ResourceExhausted},
		"an import of too many memories":   {triskelev1.MemoryService_Import_FullMethodName, empty(1, 3000), true, nil, codes.InvalidArgument},
		"an import that is too large":      {triskelev1.MemoryService_Import_FullMethodName, text(9, 17*mib), true, nil, codes.ResourceExhausted},
		"an update of metadata":            {triskelev1.MemoryService_Update_FullMethodName, nested(3, nested(8, nested(1, text(1, 1), nested(2, nested(6, empty(1, 200_000)))))), false, nil, codes.ResourceExhausted},
		"an update whose metadata is deep": {triskelev1.MemoryService_Update_FullMethodName, nested(3, nested(8, nested(1, text(1, 1), nested(2, lists(500))))), false, nil, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, conn, _ := start(t, returns(nil), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{})))
			call := func() error {
				var out []byte
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // what waits for more room than there is has no end
				defer cancel()
				if !x.stream {
					return conn.Invoke(ctx, x.method, x.message, &out, x.options...)
				}
				stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, x.method, x.options...)
				if err != nil {
					return err
				}
				_ = stream.SendMsg(x.message) // what is received says how the call ended
				return stream.RecvMsg(&out)
			}
			if err := conn.Invoke(t.Context(), healthpb.Health_Check_FullMethodName, []byte(nil), new([]byte)); err != nil { // connects
				t.Fatal(err)
			}
			const calls = 3
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				if err := call(); status.Code(err) != x.want {
					t.Fatalf("got %.300v, want %v", err, x.want)
				} else if len(status.Convert(err).Message()) > 200 {
					t.Errorf("got an error of %d bytes, want at most 200: %.300v", len(status.Convert(err).Message()), err)
				}
			}
			runtime.ReadMemStats(&after)
			const most = 12 * mib // with the contract's rules, which the first call of a process compiles
			if got := (after.TotalAlloc - before.TotalAlloc) / calls; got > most {
				t.Errorf("a call of %d bytes had the process allocate %d KiB, want at most %d", len(x.message), got>>10, most>>10)
			}
		})
	}
}

// nested encodes a message in a field.
func nested(field protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), bytes.Join(parts, nil))
}

// lists encodes a metadata value that is a list in a list, and so on.
func lists(levels int) []byte {
	var value []byte
	for range levels {
		value = nested(6, nested(1, value)) // Value.list_value, ListValue.values
	}
	return value
}

// TestErrorsQuoteLittle: an error has at most 200 bytes of what its caller sent.
func TestErrorsQuoteLittle(t *testing.T) {
	long := strings.Repeat("é ", 5000)
	_, conn, _ := start(t, returns(status.Errorf(codes.NotFound, "no such memory: %s", long)))
	_, err := triskelev1.NewRecallServiceClient(conn).Recall(t.Context(), valid())
	if got := status.Convert(err).Message(); status.Code(err) != codes.NotFound || len(got) > 203 || !strings.HasPrefix(got, "no such memory: é") || !strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes: %.300q", len(got), got)
	}
	err = conn.Invoke(t.Context(), "/triskele.v1.RecallService/"+strings.Repeat("x", 5000), valid(), &triskelev1.RecallResponse{})
	if got := status.Convert(err).Message(); status.Code(err) != codes.Unimplemented || len(got) > 203 {
		t.Errorf("an unknown method: got %d bytes: %.300q", len(got), got)
	}
}

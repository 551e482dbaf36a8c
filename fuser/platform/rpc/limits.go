package rpc

import (
	"context"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// limits are the most bytes of one message of a method, in any protocol. They exceed the largest valid message, as
// protobuf and as JSON with the usual escapes. So validation names a field that is too long. Import's is lower: a
// thousand memories of 64 KiB come in several messages.
var limits = map[string]int{
	triskelev1.RecallService_Recall_FullMethodName:    512 << 10, // query 32 KiB, vector 16 KiB, filter, legs
	triskelev1.LegService_Search_FullMethodName:       512 << 10, // the same
	triskelev1.LegService_ScoreByIds_FullMethodName:   640 << 10, // query, vector, filter, 4,000 ids
	triskelev1.MemoryService_Get_FullMethodName:       256 << 10, // query, 1,000 ids
	triskelev1.MemoryService_Forget_FullMethodName:    256 << 10, // 1,000 ids
	triskelev1.MemoryService_List_FullMethodName:      256 << 10, // filter
	triskelev1.MemoryService_Remember_FullMethodName:  1 << 20,   // a memory: content 64 KiB, metadata 90 KiB, keywords, tags, links
	triskelev1.MemoryService_Update_FullMethodName:    1 << 20,
	triskelev1.MemoryService_Supersede_FullMethodName: 1 << 20,
	triskelev1.MemoryService_Import_FullMethodName:    16 << 20,
}

// otherBytes is for all other methods, health checks and reflection among them: names, ids and numbers.
const otherBytes = 16 << 10

// MaxBytes is the most bytes of a message to a method.
func MaxBytes(method string) int {
	if n, ok := limits[method]; ok {
		return n
	}
	return otherBytes
}

// MaxCost is the most memory of a decoded message, as estimated beforehand: empty values are cheap to send.
func MaxCost(method string) int { return 4 * MaxBytes(method) }

// TooCostly refuses a message that is beyond MaxCost.
func TooCostly() error {
	return status.Error(codes.ResourceExhausted, "the message has too many values: send them in several messages")
}

// Bytes of large messages in memory at a time, for each server and each Local. Sent bytes count twice while they are put
// together. A gateway has a server for gRPC, and a Local each for HTTP and for the operators' page. All in use, that is
// 3 * (2 * 16 + 64) = 288 MiB. It fits the 512 MiB of deploy/kubernetes beside 100 MiB at rest. Calls wait for memory.
const (
	sentBytes    = 16 << 20
	decodedBytes = 64 << 20
	// largeBytes is the most that is not counted. gRPC receives as much of a call before it is read.
	largeBytes = 64 << 10
)

// MessageMemory bounds the memory of large messages.
type MessageMemory struct{ sent, decoded *semaphore.Weighted }

func newMessageMemory() *MessageMemory {
	return &MessageMemory{semaphore.NewWeighted(sentBytes), semaphore.NewWeighted(decodedBytes)}
}

// Sent waits for memory for an encoded message of n bytes. release frees it.
func (m *MessageMemory) Sent(ctx context.Context, n int) (release func(), err error) {
	return acquire(ctx, m.sent, n)
}

// Decoded waits for memory for a decoded message of n bytes. Its caller may hold memory from Sent. release frees it.
func (m *MessageMemory) Decoded(ctx context.Context, n int) (release func(), err error) {
	return acquire(ctx, m.decoded, n)
}

func acquire(ctx context.Context, bytes *semaphore.Weighted, n int) (func(), error) {
	if n <= largeBytes {
		return func() {}, nil
	}
	if err := bytes.Acquire(ctx, int64(n)); err != nil {
		return nil, Ended(ctx, err)
	}
	return func() { bytes.Release(int64(n)) }, nil
}

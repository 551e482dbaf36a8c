package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	routes "github.com/triskele/triskele/fuser/web/internal/routes/triskele/v1"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const (
	maxBody   = 1 << 20  // bytes: more than the largest request of any method as JSON
	maxImport = 16 << 20 // bytes: the only stream
	importing = "/v1/memories:import"
)

// passed are the headers that mean something to the gateway. The token's is passed by the library.
var passed = []string{"Traceparent", "Tracestate", "Baggage"}

// marshaler has JSON as the commands and exports of the project have it: the names of the .proto files.
var marshaler = quiet{&runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}}}

// quiet does not quote a stream that it cannot decode, since the library would log that.
type quiet struct{ *runtime.JSONPb }

// NewDecoder implements runtime.Marshaler.
func (q quiet) NewDecoder(r io.Reader) runtime.Decoder {
	decoder := q.JSONPb.NewDecoder(r)
	number := 0
	return runtime.DecoderFunc(func(v any) error {
		number++
		err := decoder.Decode(v)
		if _, stream := v.(*triskelev1.ImportRequest); stream && err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("message %d of the body is no ImportRequest", number)
		}
		return err
	})
}

// newJSON answers requests with JSON by calls over conn.
func newJSON(ctx context.Context, conn *grpc.ClientConn) (http.Handler, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler),
		runtime.WithIncomingHeaderMatcher(func(name string) (string, bool) { return name, slices.Contains(passed, name) }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithErrorHandler(fail),
		runtime.WithRoutingErrorHandler(misrouted),
		runtime.WithForwardResponseOption(someFound),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.SetQueryParameterParser(strict{}),
	)
	if err := errors.Join(routes.RegisterRecallServiceHandler(ctx, mux, conn), routes.RegisterMemoryServiceHandler(ctx, mux, conn)); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, err := prepare(w, r); err != nil {
			refuse(w, code, err)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// prepare reads the body, which has to be JSON and nothing more, and refuses others with a status of HTTP.
func prepare(w http.ResponseWriter, r *http.Request) (int, error) {
	limit := int64(maxBody)
	if r.URL.Path == importing {
		limit = maxImport
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge, fmt.Errorf("the body must have at most %d bytes", limit)
	case err != nil:
		return http.StatusBadRequest, errors.New("the body could not be read")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it would end a long answer, too
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		if len(body) > 0 {
			return http.StatusBadRequest, errors.New("this method takes no body")
		}
		return 0, nil
	}
	// A type that no form can send: a page of another site would have to ask first whether it may.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, errors.New("the body must be JSON, with the header Content-Type: application/json")
	}
	if r.URL.Path != importing && !json.Valid(body) {
		return http.StatusBadRequest, errors.New("the body must be one JSON object and nothing more")
	}
	return 0, nil
}

// someFound says 404 if none of the memories that were asked for exists: with one id, that is what callers of HTTP look at.
func someFound(_ context.Context, _ http.ResponseWriter, resp proto.Message) error {
	if got, ok := resp.(*triskelev1.GetResponse); ok && len(got.GetMemories()) == 0 {
		return status.Error(codes.NotFound, "ids: no such memory")
	}
	return nil
}

// strict takes parameters from a URL, and refuses those that a method does not have.
type strict struct{ runtime.DefaultQueryParser }

// Parse implements runtime.QueryParameterParser.
func (s strict) Parse(message proto.Message, values url.Values, taken *utilities.DoubleArray) error {
	for name := range values {
		if !hasField(message.ProtoReflect().Descriptor(), name) {
			return fmt.Errorf("%s: there is no such parameter", name)
		}
	}
	return s.DefaultQueryParser.Parse(message, values, taken)
}

// hasField says whether a message has a field of this path.
func hasField(message protoreflect.MessageDescriptor, path string) bool {
	name, rest, nested := strings.Cut(path, ".")
	field := message.Fields().ByName(protoreflect.Name(name))
	if field == nil {
		field = message.Fields().ByJSONName(name)
	}
	if field == nil || !nested {
		return field != nil
	}
	return field.Message() != nil && !field.IsMap() && hasField(field.Message(), rest)
}

// misrouted answers requests to which no method belongs.
func misrouted(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	err := errors.New("there is nothing here: /openapi.json lists what there is")
	if code == http.StatusMethodNotAllowed {
		err = fmt.Errorf("%s is not possible here: /openapi.json lists what is", r.Method)
	}
	refuse(w, code, err)
}

// fail answers with a gRPC status: its code as one of HTTP, and the whole as JSON.
func fail(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	var own interface{ GRPCStatus() *status.Status } // without what the library has to say about it
	if errors.As(err, &own) {
		err = own.GRPCStatus().Err()
	}
	st := status.Convert(err).Proto()
	// What a parser says begins with its name, and white space that varies.
	st.Message = strings.TrimPrefix(strings.ReplaceAll(st.GetMessage(), "\u00a0", " "), "proto: ")
	if codes.Code(st.GetCode()) == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(retry.GetRetryDelay().AsDuration().Seconds())))))
		}
	}
	write(w, runtime.HTTPStatusFromCode(codes.Code(st.GetCode())), st)
}

// refuse answers a request that became no call.
func refuse(w http.ResponseWriter, code int, err error) {
	kind := codes.InvalidArgument
	switch code {
	case http.StatusNotFound:
		kind = codes.NotFound
	case http.StatusForbidden:
		kind = codes.PermissionDenied
	case http.StatusMethodNotAllowed:
		kind = codes.Unimplemented
	}
	write(w, code, status.New(kind, err.Error()).Proto())
}

func write(w http.ResponseWriter, code int, st *spb.Status) {
	st.Message = strings.ToValidUTF8(st.GetMessage(), "\uFFFD") // it may quote the caller
	text, err := marshaler.Marshal(st)
	if err != nil { // details of a kind that this program does not know
		code, text = http.StatusInternalServerError, []byte(`{"code": 13, "message": "internal error", "details": []}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

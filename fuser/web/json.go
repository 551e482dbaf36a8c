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
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/triskele/triskele/fuser/platform/rpc"
	routes "github.com/triskele/triskele/fuser/web/internal/routes/triskele/v1"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// passed are the headers that a gateway reads. The library passes the token's.
var passed = []string{"Traceparent", "Tracestate", "Baggage"}

// marshaler writes JSON as the project's commands and exports do, with the names of the .proto files.
var marshaler = quiet{&runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}, UnmarshalOptions: reader}}

// reader accepts messages nested as deep as the contract allows.
var reader = protojson.UnmarshalOptions{RecursionLimit: 128}

// quiet has no errors of a stream: the library would log them and end the call at once, and with it what came before.
type quiet struct{ *runtime.JSONPb }

func (q quiet) NewDecoder(r io.Reader) runtime.Decoder {
	if body, ok := r.(*batches); ok {
		return runtime.DecoderFunc(func(v any) error { return body.next(v.(proto.Message)) })
	}
	return runtime.DecoderFunc(func(v any) error {
		message, ok := v.(proto.Message)
		if field := reflect.ValueOf(v).Elem(); !ok && field.Kind() == reflect.Pointer { // the body is this field of the request
			field.Set(reflect.New(field.Type().Elem()))
			message, ok = field.Interface().(proto.Message)
		}
		if !ok {
			return q.JSONPb.NewDecoder(r).Decode(v)
		}
		text, err := io.ReadAll(r)
		if err == nil && len(text) == 0 {
			err = io.EOF
		}
		if err != nil {
			return err
		}
		return rpc.FromJSON(reader, text, message)
	})
}

// batches is the body of an import, the only stream. It decodes one object at a time.
type batches struct {
	io.ReadCloser        // empty
	rest          []byte // to be decoded
	number        int    // of the last object
	release       func() // frees the last object's memory
	decoded       func(int) (release func(), err error)
	refused       error // about the last object, which ends the body
}

func (b *batches) next(message proto.Message) error {
	b.release()
	b.release = func() {}
	b.number++
	b.rest = bytes.TrimLeft(b.rest, " \t\r\n")
	if len(b.rest) == 0 {
		return io.EOF
	}
	text, spent := object(b.rest)
	b.rest = b.rest[len(text):]
	release, err := b.decoded(spent)
	if err != nil {
		b.refused = err
		return io.EOF
	}
	b.release = release
	if err := rpc.FromJSON(reader, text, message); err != nil {
		b.refused = status.Errorf(codes.InvalidArgument, "object %d of the body: %s", b.number, parserText(err.Error()))
		return io.EOF
	}
	return nil
}

// parserText is a parser's error without its name and with plain spaces; they vary.
func parserText(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\u00a0", " "), "proto: ")
}

// Estimated bytes of decoded JSON values: an object may be a memory, others take a place in a list.
const (
	objectCost = 512
	valueCost  = 64
)

// object returns the first object of a text, or all of a text without an end. cost estimates its bytes once decoded.
func object(text []byte) (first []byte, cost int) {
	quoted, depth := false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{':
			depth++
			cost += objectCost
		case c == '}':
			if depth--; depth <= 0 {
				return text[:i+1], cost + i
			}
		case c == ',', c == '[':
			cost += valueCost
		}
	}
	return text, cost + len(text)
}

// JSON answers the paths of proto/http.yaml by calls over a connection. It takes the peer and the token from a request's context,
// see rpc.From.
func JSON(ctx context.Context, inside *rpc.Local) http.Handler {
	byRoute := operationsOf(openAPI)
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler),
		runtime.WithIncomingHeaderMatcher(func(name string) (string, bool) { return name, slices.Contains(passed, name) }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithErrorHandler(fail),
		runtime.WithRoutingErrorHandler(misrouted),
		runtime.WithForwardResponseOption(whole),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.SetQueryParameterParser(strict{}),
		runtime.WithMiddlewares(func(next runtime.HandlerFunc) runtime.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
				if known, asked := r.Context().Value(routedKey{}).(*bool); asked {
					*known = true
					return
				}
				pattern, _ := runtime.HTTPPattern(r.Context())
				operation, ok := byRoute[route(r.Method, pattern.String())]
				if !ok {
					misrouted(r.Context(), nil, nil, w, r, http.StatusNotFound)
					return
				}
				if !operation.asks && r.URL.RawQuery != "" { // the library ignores them
					refuse(w, http.StatusBadRequest, errors.New("this method takes no parameters"))
					return
				}
				for name, value := range parameters {
					if !utf8.ValidString(value) {
						fail(r.Context(), nil, nil, w, r, rpc.Invalid(name, "must be UTF-8"))
						return
					}
				}
				ctx, cancel, err := timed(r.Context(), r)
				if err != nil {
					fail(r.Context(), nil, nil, w, r, err)
					return
				}
				defer cancel()
				r = r.WithContext(ctx)
				r.Header.Del("Grpc-Timeout") // which the library would read its own way
				admit(inside, operation.method, w, r, func(w http.ResponseWriter, r *http.Request) { next(w, r, parameters) })
			}
		}),
	)
	_ = routes.RegisterRecallServiceHandlerClient(ctx, mux, triskelev1.NewRecallServiceClient(inside)) // never fails, nor does the next
	_ = routes.RegisterMemoryServiceHandlerClient(ctx, mux, triskelev1.NewMemoryServiceClient(inside))
	return mux
}

var variable = regexp.MustCompile(`\{[^}]*\}`)

// methods are HTTP's that a path may have.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}

// route is a path without the names of its variables.
func route(method, path string) string {
	return strings.ToUpper(method) + " " + variable.ReplaceAllString(path, "{}")
}

type operation struct {
	method string
	asks   bool // has parameters that are not in the path
}

// operationsOf returns the operations by route. One of the OpenAPI document has its method's name, with a number if there are several. It
// panics if the document is not that of the contract.
func operationsOf(document []byte) map[string]operation {
	type parameter struct{ In string }
	var parsed struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []parameter
		}
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		panic(fmt.Sprintf("openapi.json: %v", err))
	}
	known := map[string]string{}
	for _, file := range []protoreflect.FileDescriptor{triskelev1.File_triskele_v1_recall_proto, triskelev1.File_triskele_v1_memory_proto} {
		of := file.Services().Get(0).Methods()
		for i := range of.Len() {
			known[string(of.Get(i).Name())] = rpc.NameOf(of.Get(i))
		}
	}
	all := map[string]operation{}
	for path, described := range parsed.Paths {
		for verb, d := range described {
			method, ok := known[strings.TrimRight(d.OperationID, "0123456789")]
			if !ok {
				panic(fmt.Sprintf("openapi.json: %s %s is no method", verb, path))
			}
			all[route(verb, path)] = operation{method, slices.Contains(d.Parameters, parameter{"query"})}
		}
	}
	return all
}

// answering frees a request's memory before the answer is written, since that may wait for the caller.
type answering struct {
	http.ResponseWriter
	free   func()
	stream *batches // nil for a body that is no stream
}

func (a answering) WriteHeader(code int) {
	a.free()
	a.ResponseWriter.WriteHeader(code)
}

func (a answering) Write(p []byte) (int, error) {
	a.free()
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// admit asks the gate, then reads the body, which must be JSON and nothing more.
func admit(inside *rpc.Local, method string, w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	ctx, err := inside.Admit(r.Context(), method)
	if err != nil {
		fail(ctx, nil, nil, w, r, err)
		return
	}
	r = r.WithContext(ctx)
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		if n, _ := r.Body.Read(make([]byte, 1)); n > 0 {
			refuse(w, http.StatusBadRequest, errors.New("this method takes no body"))
			return
		}
		read(w)
		next(w, r)
		return
	}
	// Forms cannot send this type, so pages of other sites must ask by CORS first.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, errors.New("the body must be JSON, with the header Content-Type: application/json"))
		return
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		refuse(w, http.StatusUnsupportedMediaType, errors.New("the body must not be compressed: send it without the header Content-Encoding"))
		return
	}
	most := rpc.MaxBytes(method)
	expected := most
	if r.ContentLength >= 0 {
		expected = min(most, int(r.ContentLength))
	}
	sent, err := inside.Sent(ctx, expected)
	if err != nil {
		fail(ctx, nil, nil, w, r, err)
		return
	}
	rest := func() {} // frees what was decoded
	free := sync.OnceFunc(func() { rest(); sent() })
	defer free()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body must have at most %d bytes", most))
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, errors.New("the body could not be read"))
		return
	}
	read(w)
	decoded := func(cost int) (func(), error) {
		if cost > rpc.MaxCost(method) {
			return nil, rpc.TooCostly()
		}
		return inside.Decoded(ctx, cost)
	}
	if method == triskelev1.MemoryService_Import_FullMethodName {
		all := &batches{ReadCloser: http.NoBody, rest: body, release: func() {}, decoded: decoded}
		rest = func() { all.release() }
		r.Body = all
		next(answering{w, free, all}, r)
		return
	}
	if bytes.HasPrefix(body, []byte("\uFEFF")) {
		refuse(w, http.StatusBadRequest, errors.New("the body must be JSON without a byte order mark"))
		return
	}
	if !json.Valid(body) {
		text := "the body must be one JSON object and nothing more"
		err := json.Unmarshal(body, new(json.RawMessage)) // says where
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			text = fmt.Sprintf("%s: byte %d: %v", text, syntax.Offset, err)
		}
		refuse(w, http.StatusBadRequest, errors.New(text))
		return
	}
	_, spent := object(body)
	release, err := decoded(spent)
	if err != nil {
		fail(ctx, nil, nil, w, r, err)
		return
	}
	rest = release
	if method == triskelev1.MemoryService_Update_FullMethodName && !nameFields(r, body) {
		refuse(w, http.StatusBadRequest, errors.New("the body must have at least one field to change"))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(answering{w, free, nil}, r)
}

// nameFields adds an update_mask with the fields of the body to the parameters, unless they have one. The library would name the
// members of metadata, which is updated as a whole. It returns false if there are no fields.
func nameFields(r *http.Request, body []byte) bool {
	var members map[string]json.RawMessage
	if query := r.URL.Query(); query.Has("update_mask") || query.Has("updateMask") || json.Unmarshal(body, &members) != nil {
		return true
	}
	var fields []string
	for name := range members {
		if field, _ := fieldAt((*triskelev1.Memory)(nil).ProtoReflect().Descriptor(), name); field != nil {
			fields = append(fields, string(field.Name()))
		}
	}
	r.URL.RawQuery += "&update_mask=" + strings.Join(fields, ",")
	return len(members) > 0
}

// read ends a request's read deadline, which would cut a long answer.
func read(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// whole refuses the answer to an import whose body was refused: the objects before that are stored. It returns 404 if none of the
// requested memories exists, as HTTP callers with one id expect.
func whole(_ context.Context, w http.ResponseWriter, resp proto.Message) error {
	if a, ok := w.(answering); ok && a.stream != nil {
		return a.stream.refused
	}
	if got, ok := resp.(*triskelev1.GetResponse); ok && len(got.GetMemories()) == 0 {
		return status.Error(codes.NotFound, "ids: no such memory")
	}
	return nil
}

// strict parses URL parameters and refuses those that a method lacks. Its errors begin with the parameter's name.
type strict struct{ runtime.DefaultQueryParser }

func (s strict) Parse(message proto.Message, values url.Values, taken *utilities.DoubleArray) error {
	for name, given := range values {
		field, path := fieldAt(message.ProtoReflect().Descriptor(), name)
		switch {
		case field == nil || taken.HasCommonPrefix(path): // the path or the body has it
			return fmt.Errorf("%s: no such parameter", name)
		case slices.ContainsFunc(given, func(value string) bool { return !utf8.ValidString(value) }):
			return fmt.Errorf("%s: must be UTF-8", name)
		case s.DefaultQueryParser.Parse(message, url.Values{name: given}, taken) == nil:
		case len(given) > 1 && !field.IsList():
			return fmt.Errorf("%s: must be given once", name)
		default:
			return fmt.Errorf("%s: must be %s", name, wanted(name, field))
		}
	}
	return nil
}

// fieldAt returns the field of a message at a path, nil if there is none, and the names of the fields on the way.
func fieldAt(message protoreflect.MessageDescriptor, at string) (field protoreflect.FieldDescriptor, path []string) {
	for name := range strings.SplitSeq(at, ".") {
		if field != nil {
			if field.Message() == nil || field.IsMap() {
				return nil, nil
			}
			message = field.Message()
		}
		if field = message.Fields().ByName(protoreflect.Name(name)); field == nil {
			field = message.Fields().ByJSONName(name)
		}
		if field == nil {
			return nil, nil
		}
		path = append(path, string(field.Name()))
	}
	return field, path
}

// wanted says what a parameter must be.
func wanted(name string, field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.EnumKind:
		var names []string
		for i := range field.Enum().Values().Len() {
			names = append(names, string(field.Enum().Values().Get(i).Name()))
		}
		return "one of " + strings.Join(names, ", ")
	case protoreflect.Int32Kind:
		return "a whole number of 32 bits"
	case protoreflect.Int64Kind:
		return "a whole number of 64 bits"
	case protoreflect.DoubleKind:
		return "a number"
	case protoreflect.MessageKind:
		switch field.Message().FullName() {
		case "google.protobuf.Timestamp":
			return "a time such as 2026-01-02T03:04:05Z"
		case "google.protobuf.Duration":
			return "a duration such as 0.3s"
		}
		if !field.IsMap() {
			return fmt.Sprintf("given by its fields, such as %s.%s", name, field.Message().Fields().Get(0).Name())
		}
	}
	return "left out: a parameter cannot give it"
}

// routedKey is the key of a context by which misrouted asks whether a method is known. Its value is a pointer to the answer.
type routedKey struct{}

func misrouted(ctx context.Context, mux *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	if ctx.Value(routedKey{}) != nil {
		return
	}
	err := errors.New("no such path: /openapi.json lists all paths")
	if code == http.StatusMethodNotAllowed {
		var allowed []string
		for _, method := range methods {
			known := false
			other := r.WithContext(context.WithValue(ctx, routedKey{}, &known))
			other.Method = method
			if mux.ServeHTTP(w, other); known {
				allowed = append(allowed, method)
			}
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		err = fmt.Errorf("method %s is not allowed here: /openapi.json lists the methods", r.Method)
	}
	refuse(w, code, err)
}

// aboutParameter is an error of strict. The generated code keeps only the texts of such errors.
var aboutParameter = regexp.MustCompile(`^([a-z][A-Za-z0-9_.]*): (.*)$`)

// fail answers with a gRPC status: its code as an HTTP code, and the whole as JSON.
func fail(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	var own interface{ GRPCStatus() *status.Status } // without the library's own text
	if errors.As(err, &own) {
		err = own.GRPCStatus().Err()
	}
	given := status.Convert(err).Proto()
	given.Message = parserText(given.GetMessage())
	if about := aboutParameter.FindStringSubmatch(given.Message); about != nil && given.GetCode() == int32(codes.InvalidArgument) && len(given.GetDetails()) == 0 {
		given = status.Convert(rpc.Invalid(about[1], about[2])).Proto()
	}
	st := status.Convert(rpc.Ended(ctx, status.ErrorProto(given))).Proto()
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

const quoted = 200 // bytes of an error that may quote its caller

// refuse answers a request that is no call.
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
	write(w, code, status.New(kind, rpc.Cut(err.Error(), quoted)).Proto())
}

func write(w http.ResponseWriter, code int, st *spb.Status) {
	st.Message = strings.ToValidUTF8(st.GetMessage(), "\uFFFD") // it may quote the caller
	text, err := marshaler.Marshal(st)
	if err != nil { // details of an unknown type
		code, text = http.StatusInternalServerError, []byte(`{"code": 13, "message": "internal error", "details": []}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

package memory

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"buf.build/go/protovalidate"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/revision"
	"github.com/triskele/triskele/fuser/platform/rpc"
	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/store/diskerr"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/record"
)

const (
	defaultPageSize = 100
	// maxReturnedIDs keeps an import's response well below the largest message.
	maxReturnedIDs = 50_000
	// readAtOnce is how many memories of a response are read by a query. A page of the default size needs one query.
	readAtOnce = 128
	// pageBytes bounds a page of memories or decisions. Clients of gRPC refuse responses above 4 MiB unless told otherwise.
	pageBytes = 3 << 20
	// getBytes bounds the memories of Get. It is above pageBytes because the gateway gets the contents of a recall's
	// 1,000 hits at once.
	getBytes = 16 << 20
)

// Server serves a Store as MemoryService. An interceptor has checked the declared bounds of requests.
type Server struct {
	triskelev1.UnimplementedMemoryServiceServer
	store    *Store
	contents *contents
	exports  *exports
	limits   limits
}

// limits are the timeouts of the store's work on a call, whatever the caller's deadline. They bound how long locks
// and connections are held.
type limits struct {
	call  time.Duration // for single memories and pages
	batch time.Duration // for a message of an import, and for a namespace's statistics
	whole time.Duration // for renaming or deleting a namespace
	send  time.Duration // for the receiver to take a message of an export
}

// NewServer returns a server over a store.
func NewServer(store *Store) *Server {
	return &Server{
		store: store, contents: newContents(store), exports: &exports{pages: make(chan struct{}, maxPages), of: map[string]int{}},
		limits: limits{call: 30 * time.Second, batch: 2 * time.Minute, whole: 15 * time.Minute, send: rpc.SendTime},
	}
}

// Remember implements triskelev1.MemoryServiceServer.
func (s *Server) Remember(ctx context.Context, req *triskelev1.RememberRequest) (_ *triskelev1.RememberResponse, err error) {
	ctx, end := begin(ctx, s.limits.call, createMemory, 1)
	defer func() { end(err) }()
	r, err := newRecord("memory", req.GetMemory())
	if err != nil {
		return nil, err
	}
	inserted, err := s.store.Insert(ctx, []record.Record{r})
	if err != nil {
		return nil, publicError("memory", err)
	}
	return &triskelev1.RememberResponse{Memory: record.ToProto(inserted[0].Record), Stored: inserted[0].New, RevisionToken: token(inserted[0].Record)}, nil
}

// token returns the revision token with which a recall sees these records, as far as they are of the last one's namespace.
func token(records ...record.Record) string {
	t := revision.Token{Namespace: records[len(records)-1].Namespace}
	for _, r := range records {
		if r.Namespace == t.Namespace {
			t.Sequence = max(t.Sequence, r.Sequence)
		}
	}
	return t.String()
}

// newRecord returns a complete record of a client's new memory.
func newRecord(field string, m *triskelev1.Memory) (record.Record, error) {
	for name, set := range map[string]bool{
		"id": m.GetId() != "", "created_at": m.GetCreatedAt() != nil, "updated_at": m.GetUpdatedAt() != nil,
		"supersedes": m.GetSupersedes() != "", "superseded_by": m.GetSupersededBy() != "", "revision": m.GetRevision() != 0,
	} {
		if set {
			return record.Record{}, rpc.Invalid(field+"."+name, "is set by the server and must be unset")
		}
	}
	r, err := fromProto(field, m)
	if err != nil {
		return record.Record{}, err
	}
	if rpc.Blank(r.Content) { // imports may have such memories, as backups of older versions do
		return record.Record{}, rpc.Invalid(field+".content", "must have more than white space")
	}
	if r.IdempotencyKey == "" && !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(record.Now()) { // a call with a key may be repeated later
		return record.Record{}, rpc.Invalid(field+".expires_at", "must be in the future")
	}
	return complete(r), nil
}

func fromProto(field string, m *triskelev1.Memory) (record.Record, error) {
	r, err := record.FromProto(m)
	return r, invalid(field+".", err)
}

// invalid names the field of a *record.FieldError for clients, below the field in.
func invalid(in string, err error) error {
	if wrong, ok := errors.AsType[*record.FieldError](err); ok {
		return rpc.Invalid(in+wrong.Field, wrong.MustBe)
	}
	return err
}

// complete sets the server's defaults for unset fields.
func complete(r record.Record) record.Record {
	if r.ID == uuid.Nil {
		r.ID = uuid.Must(uuid.NewV7())
	}
	if r.CreatedAt.IsZero() {
		r.CreatedAt = record.Now()
	}
	if r.UpdatedAt.IsZero() {
		r.UpdatedAt = r.CreatedAt
	}
	r.Revision = max(r.Revision, 1)
	return r
}

// publicError translates a store's error for clients.
func publicError(field string, err error) error {
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		return status.Errorf(codes.AlreadyExists, "%s: its id or idempotency_key belongs to memory %s, whose contents differ", field, conflict.ID)
	case errors.Is(err, ErrNotFound):
		return status.Error(codes.NotFound, "no such memory in this namespace")
	case errors.Is(err, ErrRevision):
		return status.Error(codes.Aborted, "expected_revision: the memory has changed since; read it again")
	case errors.Is(err, ErrSuperseded):
		return status.Error(codes.FailedPrecondition, "id: the memory has been superseded already; supersede the newest one")
	}
	return storeError(err)
}

// storeError is publicError for errors that do not depend on the request.
func storeError(err error) error {
	switch of := diskerr.Of(err); {
	case of == diskerr.ErrFull || of == diskerr.ErrShort: //nolint:errorlint // Of returns one of them
		return status.Errorf(codes.ResourceExhausted, "%v: nothing can be stored until space is freed; recall still works", of)
	case of != nil:
		return status.Errorf(codes.FailedPrecondition, "%v: nothing can be stored until this is fixed; recall still works", of)
	case errors.Is(err, ErrLocked):
		return status.Error(codes.Aborted, "other calls have held locks on the same memories or namespace for too long; try again")
	case postgres.IsTimeout(err) && !errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the database ended a statement of this call by its statement_timeout; nothing was changed")
	case postgres.IsNodeAway(err):
		return rpc.PartAway("the node of the database that has this namespace cannot be reached; try again")
	case postgres.IsUnreachable(err):
		return rpc.StoreAway("the database cannot be reached; try again")
	}
	return err
}

// updatable maps the paths that an update mask may name to functions that copy the field.
var updatable = map[string]func(to *record.Record, from record.Record){
	"content":           func(to *record.Record, from record.Record) { to.Content = from.Content },
	"title":             func(to *record.Record, from record.Record) { to.Title = from.Title },
	"expanded_keywords": func(to *record.Record, from record.Record) { to.Keywords = from.Keywords },
	"tags":              func(to *record.Record, from record.Record) { to.Tags = from.Tags },
	"category":          func(to *record.Record, from record.Record) { to.Category = from.Category },
	"metadata":          func(to *record.Record, from record.Record) { to.Metadata = from.Metadata },
	"importance":        func(to *record.Record, from record.Record) { to.Importance = from.Importance },
	"sensitive":         func(to *record.Record, from record.Record) { to.Sensitive = from.Sensitive },
	"source":            func(to *record.Record, from record.Record) { to.Source = from.Source },
	"occurred_at":       func(to *record.Record, from record.Record) { to.OccurredAt = from.OccurredAt },
	"expires_at":        func(to *record.Record, from record.Record) { to.ExpiresAt = from.ExpiresAt },
	"links":             func(to *record.Record, from record.Record) { to.Links = from.Links },
	"position":          func(to *record.Record, from record.Record) { to.Position = from.Position },
	"thread": func(to *record.Record, from record.Record) {
		if to.Thread = from.Thread; to.Thread == "" {
			to.Position = nil
		}
	},
}

// Update implements triskelev1.MemoryServiceServer.
func (s *Server) Update(ctx context.Context, req *triskelev1.UpdateRequest) (_ *triskelev1.UpdateResponse, err error) {
	ctx, end := begin(ctx, s.limits.call, updateMemory, 1)
	defer func() { end(err) }()
	paths := req.GetUpdateMask().GetPaths()
	if len(paths) == 0 {
		return nil, rpc.Invalid("update_mask", "must name at least one field")
	}
	for _, path := range paths {
		if updatable[path] == nil {
			not := ""
			if req.GetMemory().ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(path)) != nil { // other words stay with the caller
				not = ", not " + path
			}
			return nil, rpc.Invalid("update_mask", "must name only fields that can be updated"+not+": content, title, expanded_keywords, tags, category, metadata, importance, sensitive, source, occurred_at, expires_at, links, thread, position")
		}
	}
	changed, err := fromProto("memory", req.GetMemory())
	if err != nil {
		return nil, err
	}
	if slices.Contains(paths, "content") && rpc.Blank(changed.Content) {
		return nil, rpc.Invalid("memory.content", "must have more than white space")
	}
	after, err := s.store.Update(ctx, req.GetNamespace(), uuid.MustParse(req.GetId()), req.GetExpectedRevision(), func(r *record.Record) error {
		for _, path := range paths {
			updatable[path](r, changed)
		}
		return rpc.FromViolations("memory", protovalidate.Validate(record.ToProto(*r)))
	})
	if err != nil {
		return nil, publicError("memory", err)
	}
	return &triskelev1.UpdateResponse{Memory: record.ToProto(after), RevisionToken: token(after)}, nil
}

// Supersede implements triskelev1.MemoryServiceServer.
func (s *Server) Supersede(ctx context.Context, req *triskelev1.SupersedeRequest) (_ *triskelev1.SupersedeResponse, err error) {
	ctx, end := begin(ctx, s.limits.call, updateMemory, 1)
	defer func() { end(err) }()
	replacement, err := newRecord("replacement", req.GetReplacement())
	if err != nil {
		return nil, err
	}
	stored, old, err := s.store.Supersede(ctx, uuid.MustParse(req.GetId()), req.GetExpectedRevision(), replacement)
	if err != nil {
		return nil, publicError("replacement", err)
	}
	return &triskelev1.SupersedeResponse{Memory: record.ToProto(stored), Superseded: record.ToProto(old), RevisionToken: token(stored, old)}, nil
}

// Forget implements triskelev1.MemoryServiceServer.
func (s *Server) Forget(ctx context.Context, req *triskelev1.ForgetRequest) (_ *triskelev1.ForgetResponse, err error) {
	ctx, end := begin(ctx, s.limits.call, deleteMemory, len(req.GetIds()))
	defer func() { end(err) }()
	n, err := s.store.Forget(ctx, req.GetNamespace(), slice.Map(req.GetIds(), uuid.MustParse))
	if err != nil {
		return nil, publicError("ids", err)
	}
	return &triskelev1.ForgetResponse{Forgotten: n}, nil
}

// Get implements triskelev1.MemoryServiceServer.
func (s *Server) Get(ctx context.Context, req *triskelev1.GetRequest) (*triskelev1.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.call)
	defer cancel()
	records, memories, err := s.get(ctx, req.GetNamespace(), slice.Map(req.GetIds(), uuid.MustParse))
	if err != nil {
		return nil, err
	}
	resp := &triskelev1.GetResponse{Memories: memories}
	if req.GetSurroundings() > 0 {
		if resp.Surroundings, err = s.surroundings(ctx, req, records[:min(len(records), maxSurrounded)]); err != nil {
			return nil, err
		}
	}
	if req.GetQuery() == "" {
		return resp, nil
	}
	matches, err := s.store.Matches(ctx, req.GetNamespace(), req.GetQuery(), records)
	if err != nil {
		return nil, publicError("ids", err)
	}
	for _, m := range matches {
		resp.Matches = append(resp.Matches, &triskelev1.Matches{Title: ranges(m.Title), Content: ranges(m.Content)})
	}
	return resp, nil
}

// maxSurrounded is the most memories of a Get whose surroundings are returned.
const maxSurrounded = 100

func (s *Server) surroundings(ctx context.Context, req *triskelev1.GetRequest, of []record.Record) ([]*triskelev1.Surroundings, error) {
	filter, err := record.FilterFromProto(req.GetFilter())
	if err != nil {
		return nil, invalid("", err)
	}
	found, err := s.store.Surroundings(ctx, req.GetNamespace(), of, int(req.GetSurroundings()), filter)
	if err != nil {
		return nil, publicError("ids", err)
	}
	out, bytes := make([]*triskelev1.Surroundings, len(found)), 0
	for i, f := range found {
		out[i] = &triskelev1.Surroundings{Before: slice.Map(f.Before, record.ToProto), After: slice.Map(f.After, record.ToProto)}
		if bytes += proto.Size(out[i]); bytes > getBytes {
			return nil, rpc.Invalid("surroundings", fmt.Sprintf("must be memories of at most %d MiB together; ask for fewer at a time", getBytes>>20))
		}
	}
	return out, nil
}

// get reads memories until they exceed getBytes, which is an error.
func (s *Server) get(ctx context.Context, namespace string, ids []uuid.UUID) (records []record.Record, memories []*triskelev1.Memory, err error) {
	bytes := 0
	for some := range slices.Chunk(ids, readAtOnce) {
		found, err := s.contents.get(ctx, namespace, some)
		if err != nil {
			return nil, nil, publicError("ids", err)
		}
		for _, r := range found {
			m := record.ToProto(r)
			if bytes += proto.Size(m); bytes > getBytes {
				return nil, nil, rpc.Invalid("ids", fmt.Sprintf("must name memories of at most %d MiB together; ask for fewer at a time", getBytes>>20))
			}
			memories = append(memories, m)
		}
		records = append(records, found...)
	}
	return records, memories, nil
}

func ranges(spans []record.Span) []*triskelev1.TextRange {
	return slice.Map(spans, func(s record.Span) *triskelev1.TextRange {
		return &triskelev1.TextRange{Start: int32(s.Start), End: int32(s.End)}
	})
}

// List implements triskelev1.MemoryServiceServer.
func (s *Server) List(ctx context.Context, req *triskelev1.ListRequest) (*triskelev1.ListResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.call)
	defer cancel()
	filter, err := record.FilterFromProto(req.GetFilter())
	if err != nil {
		return nil, invalid("", err)
	}
	resp := &triskelev1.ListResponse{}
	resp.Memories, resp.NextPageToken, err = page(req.GetPageSize(), req.GetPageToken(), func(after Cursor, n int) ([]record.Record, error) {
		records, err := s.store.List(ctx, req.GetNamespace(), filter, after, n)
		return records, publicError("", err)
	}, func(r record.Record) (*triskelev1.Memory, Cursor) {
		return record.ToProto(r), behind(r)
	})
	return resp, err
}

// page reads at most pageSize items, defaultPageSize for 0, and pageBytes, but at least one item. token is the next of the page
// before, and empty for the first and after the last. read returns up to n items after a cursor, and show what the caller sees of
// one, with the cursor behind it.
func page[T any, M proto.Message](pageSize int32, token string, read func(after Cursor, n int) ([]T, error), show func(T) (M, Cursor)) (items []M, next string, err error) {
	after, ok := decodeCursor(token)
	if !ok {
		return nil, "", rpc.Invalid("page_token", "must be the next_page_token of an earlier page")
	}
	bytes, size := 0, cmp.Or(int(pageSize), defaultPageSize)
	for {
		wanted := min(size+1-len(items), readAtOnce)
		found, err := read(after, wanted)
		if err != nil {
			return nil, "", err
		}
		for _, one := range found {
			item, behind := show(one)
			bytes += proto.Size(item)
			if len(items) == size || len(items) > 0 && bytes > pageBytes {
				return items, encodeCursor(after), nil
			}
			items, after = append(items, item), behind
		}
		if len(found) < wanted {
			return items, "", nil
		}
	}
}

func encodeCursor(c Cursor) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(c.CreatedAt.UnixMicro())), c.ID[:]...))
}

func decodeCursor(token string) (c Cursor, ok bool) {
	if token == "" {
		return c, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 24 {
		return c, false
	}
	c = Cursor{time.UnixMicro(int64(binary.BigEndian.Uint64(raw))).UTC(), uuid.UUID(raw[8:])}
	return c, c.ID != uuid.Nil && !c.CreatedAt.IsZero() && timestamppb.New(c.CreatedAt).IsValid() // nothing stored has the zero ones
}

// Import implements triskelev1.MemoryServiceServer. It prepares a message's memories while those of the one before are stored.
func (s *Server) Import(stream grpc.ClientStreamingServer[triskelev1.ImportRequest, triskelev1.ImportResponse]) error {
	resp := &triskelev1.ImportResponse{}
	dryRun, returnIDs := false, false
	var storing errgroup.Group // of the message before
	for number := 1; ; number++ {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if err := storing.Wait(); err != nil {
				return err
			}
			return stream.SendAndClose(resp)
		}
		if number == 1 {
			dryRun, returnIDs = req.GetDryRun(), req.GetReturnIds()
		}
		var store func(context.Context) ([]Inserted, error)
		if err == nil {
			store, err = s.prepareBatch(stream.Context(), req.GetMemories(), dryRun)
			err = rpc.InMessage(number, err)
		}
		if err := storing.Wait(); err != nil {
			return err
		}
		if err == nil && returnIDs && len(resp.Ids)+len(req.GetMemories()) > maxReturnedIDs {
			err = rpc.Invalid("return_ids", fmt.Sprintf("must not be set on a stream of more than %d memories", maxReturnedIDs))
		}
		if err != nil {
			return err
		}
		memories := len(req.GetMemories())
		storing.Go(func() error {
			return panics.Catch(stream.Context(), nil, "import", func() error {
				inserted, err := s.storeBatch(stream.Context(), store, memories)
				if err != nil {
					return rpc.InMessage(number, err)
				}
				var fresh int64
				for _, r := range inserted {
					if r.New {
						fresh++
					}
					if returnIDs {
						resp.Ids = append(resp.Ids, r.Record.ID.String())
					}
				}
				resp.Stored += fresh
				resp.Unchanged += int64(len(inserted)) - fresh
				if fresh > 0 && !dryRun {
					resp.RevisionToken = token(slice.Map(inserted, func(r Inserted) record.Record { return r.Record })...)
				}
				return nil
			})
		})
	}
}

// prepareBatch checks one message's memories, and returns what stores or plans them.
func (s *Server) prepareBatch(ctx context.Context, memories []*triskelev1.Memory, dryRun bool) (store func(context.Context) ([]Inserted, error), err error) {
	records := make([]record.Record, len(memories))
	var last time.Time // given to a memory
	for i, m := range memories {
		r, err := fromProto(fmt.Sprintf("memories[%d]", i), m)
		if err != nil {
			return nil, err
		}
		if r.CreatedAt.IsZero() { // no two alike: they are the order of a thread
			if r.CreatedAt = record.Now(); !r.CreatedAt.After(last) {
				r.CreatedAt = last.Add(time.Microsecond)
			}
			last = r.CreatedAt
		}
		records[i] = complete(r)
	}
	if err := checkSuccession(records); err != nil {
		return nil, err
	}
	if dryRun {
		return func(ctx context.Context) ([]Inserted, error) { return s.store.Plan(ctx, records) }, nil
	}
	return s.store.Prepare(ctx, records), nil
}

// storeBatch stores or plans one message's memories.
func (s *Server) storeBatch(ctx context.Context, store func(context.Context) ([]Inserted, error), memories int) (_ []Inserted, err error) {
	ctx, end := begin(ctx, s.limits.batch, createMemory, memories)
	defer func() { end(err) }()
	inserted, err := store(ctx)
	field := "memories"
	if conflict, is := errors.AsType[*ConflictError](err); is {
		field = fmt.Sprintf("memories[%d]", conflict.Index)
	}
	return inserted, publicError(field, err)
}

// checkSuccession refuses a batch whose memories supersede each other in a circle: none of them would ever be found.
func checkSuccession(records []record.Record) error {
	at, newer := map[record.Key]int{}, map[record.Key][]record.Key{}
	for i, r := range records {
		at[r.Key()] = i
		if r.SupersededBy != uuid.Nil {
			newer[r.Key()] = append(newer[r.Key()], record.Key{Namespace: r.Namespace, ID: r.SupersededBy})
		}
		if old := (record.Key{Namespace: r.Namespace, ID: r.Supersedes}); r.Supersedes != uuid.Nil {
			newer[old] = append(newer[old], r.Key())
		}
	}
	circular := -1
	done := map[record.Key]bool{} // false while its successors are visited
	var visit func(key record.Key)
	visit = func(key record.Key) {
		done[key] = false
		for _, next := range newer[key] {
			if visited, known := done[next]; !known {
				visit(next)
			} else if i, given := at[next]; !visited && given {
				circular = i
			}
		}
		done[key] = true
	}
	for _, r := range records {
		if _, known := done[r.Key()]; !known {
			visit(r.Key())
		}
	}
	if circular >= 0 {
		return rpc.Invalid(fmt.Sprintf("memories[%d].supersedes", circular), "must not lead back to the memory itself, as superseded_by must not")
	}
	return nil
}

package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/triskele/triskele/fuser/platform/clip"
	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/briefing"
	"github.com/triskele/triskele/services/agents/capture"
)

// listTokens is how many tokens of each memory a listing shows.
const listTokens = 60

type recallInput struct {
	Query             string   `json:"query" jsonschema:"What to look for, in plain words: the question, or names and terms. Use the words that the memory itself would have."`
	Limit             int32    `json:"limit,omitempty" jsonschema:"How many memories at most; 10 if not given."`
	MaxTokens         int      `json:"max_tokens,omitempty" jsonschema:"How long the answer may be, in estimated tokens."`
	Tags              []string `json:"tags,omitempty" jsonschema:"Only memories with one of these tags."`
	Categories        []string `json:"categories,omitempty" jsonschema:"Only memories of one of these categories."`
	Since             moment   `json:"since,omitzero" jsonschema:"Only memories stored from then on: a date (UTC), a time such as 2026-03-01T08:30:00Z, or a span from now such as 36h, 7d or 2w."`
	Before            moment   `json:"before,omitzero" jsonschema:"Only memories stored before then."`
	OccurredSince     moment   `json:"occurred_since,omitzero" jsonschema:"Only memories of what happened from then on."`
	OccurredBefore    moment   `json:"occurred_before,omitzero" jsonschema:"Only memories of what happened before then."`
	IncludeSuperseded bool     `json:"include_superseded,omitempty" jsonschema:"Also memories that a newer one has replaced."`
	Surroundings      int32    `json:"surroundings,omitempty" jsonschema:"How many memories beside each found one to show as context, on each side in its conversation or document; 10 at most."`
	Namespace         string   `json:"namespace,omitempty" jsonschema:"Where to look, instead of the namespace this server works on."`
}

type recallOutput struct {
	Memories []found `json:"memories" jsonschema:"Best first."`
	Unlikely bool    `json:"unlikely,omitempty" jsonschema:"Set if nothing that is remembered is likely to answer the query; these are the nearest."`
	Degraded string  `json:"degraded,omitempty" jsonschema:"Set if part of the search did not answer: says what may be missing."`
	Repeated int     `json:"repeated" jsonschema:"How many more were found and left out, because a better one says the same."`
	Omitted  int     `json:"omitted" jsonschema:"How many more were found and left out, because max_tokens was reached."`
}

type found struct {
	ID           string   `json:"id"`
	Title        string   `json:"title,omitempty"`
	Content      string   `json:"content"`
	Shortened    bool     `json:"shortened,omitempty" jsonschema:"Content is an excerpt; call list with this id for the full text."`
	Tags         []string `json:"tags,omitempty"`
	Source       string   `json:"source,omitempty"`
	CreatedAt    string   `json:"created_at"`
	OccurredAt   string   `json:"occurred_at,omitempty"`
	Sensitive    bool     `json:"sensitive,omitempty"`
	Revision     int64    `json:"revision"`
	Score        float64  `json:"score,omitempty" jsonschema:"Comparable within one answer only."`
	Thread       string   `json:"thread,omitempty" jsonschema:"The conversation, document or log it is part of."`
	Position     *int64   `json:"position,omitempty"`
	MatchedTime  string   `json:"matched_time,omitempty" jsonschema:"The time in the query that its date fits."`
	SupersededBy string   `json:"superseded_by,omitempty" jsonschema:"The memory that has replaced it."`
	Before       []beside `json:"before,omitempty" jsonschema:"Context: what stands before it in its thread."`
	After        []beside `json:"after,omitempty" jsonschema:"Context: what stands behind it in its thread."`
	FoundBy      []string `json:"found_by,omitempty" jsonschema:"lexical: by its words; dense: by similar meaning; graph: by names it shares with other memories."`
}

type beside struct {
	ID      string `json:"id"`
	Content string `json:"content"`
}

func besideOf(aside briefing.Aside) beside { return beside{aside.Memory.GetId(), aside.Content} }

type memoryInput struct {
	Content        string   `json:"content" jsonschema:"The text: one fact, understandable by itself."`
	Title          string   `json:"title,omitempty"`
	Tags           []string `json:"tags,omitempty"`
	Category       string   `json:"category,omitempty" jsonschema:"Such as fact, decision, preference, person."`
	Importance     *float64 `json:"importance,omitempty" jsonschema:"How much it matters, 0 to 1; 0.5 if not given."`
	Sensitive      bool     `json:"sensitive,omitempty" jsonschema:"For secrets: the memory is found by its words only; the memory service never embeds it, links it or sends it to a model."`
	Source         string   `json:"source,omitempty" jsonschema:"Where it comes from, such as a file or a conversation."`
	OccurredAt     moment   `json:"occurred_at,omitzero" jsonschema:"When it happened, if not now: a date (UTC), a time such as 2026-03-01T08:30:00Z, or a span from now such as 36h, 7d or 2w."`
	ExpiresAt      moment   `json:"expires_at,omitzero" jsonschema:"From this time on, recall leaves it out."`
	Thread         string   `json:"thread,omitempty" jsonschema:"Name of the conversation, document or log that it is part of."`
	Position       *int64   `json:"position,omitempty" jsonschema:"Its place in the thread; in the order of storing if not given."`
	IdempotencyKey string   `json:"idempotency_key,omitempty" jsonschema:"Makes a repeated call harmless."`
	Namespace      string   `json:"namespace,omitempty" jsonschema:"Where to store it, instead of the namespace this server works on."`
}

type storedOutput struct {
	ID       string `json:"id"`
	Stored   bool   `json:"stored" jsonschema:"False if this memory was stored before, with the same idempotency key."`
	Revision int64  `json:"revision"`
}

type supersedeInput struct {
	ID string `json:"id" jsonschema:"The memory that is no longer true."`
	memoryInput
}

type supersededOutput struct {
	ID         string `json:"id" jsonschema:"Of the new memory."`
	Supersedes string `json:"supersedes"`
}

type updateInput struct {
	ID               string   `json:"id"`
	Content          *string  `json:"content,omitempty"`
	Title            *string  `json:"title,omitempty"`
	Tags             []string `json:"tags,omitempty" jsonschema:"They replace all present tags."`
	Category         *string  `json:"category,omitempty"`
	Importance       *float64 `json:"importance,omitempty"`
	Sensitive        *bool    `json:"sensitive,omitempty"`
	ExpiresAt        moment   `json:"expires_at,omitzero" jsonschema:"From this time on, recall leaves it out: a date (UTC), a time such as 2026-03-01T08:30:00Z, or a span from now such as 36h, 7d or 2w."`
	ExpectedRevision int64    `json:"expected_revision,omitempty" jsonschema:"Change nothing unless the memory still has this revision."`
	Namespace        string   `json:"namespace,omitempty"`
}

type updatedOutput struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
}

type forgetInput struct {
	IDs       []string `json:"ids"`
	Namespace string   `json:"namespace,omitempty"`
}

type forgottenOutput struct {
	Forgotten int64 `json:"forgotten"`
}

type listInput struct {
	IDs               []string `json:"ids,omitempty" jsonschema:"Show these memories in full, instead of short excerpts of the newest."`
	Limit             int32    `json:"limit,omitempty" jsonschema:"How many at most; 20 if not given."`
	Tags              []string `json:"tags,omitempty" jsonschema:"Only memories with one of these tags."`
	Categories        []string `json:"categories,omitempty" jsonschema:"Only memories of one of these categories."`
	Since             moment   `json:"since,omitzero" jsonschema:"Only memories stored from then on: a date (UTC), a time such as 2026-03-01T08:30:00Z, or a span from now such as 36h, 7d or 2w."`
	Before            moment   `json:"before,omitzero" jsonschema:"Only memories stored before then."`
	IncludeSuperseded bool     `json:"include_superseded,omitempty" jsonschema:"Also memories that a newer one has replaced."`
	PageToken         string   `json:"page_token,omitempty" jsonschema:"The next_page_token of the previous page."`
	Namespace         string   `json:"namespace,omitempty"`
}

type listOutput struct {
	Memories      []found `json:"memories" jsonschema:"Newest first, or in the order of ids."`
	NextPageToken string  `json:"next_page_token,omitempty"`
}

func (s *server) addTools(to *mcp.Server) {
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(bool)}
	adds := &mcp.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)}
	changes := &mcp.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: true, OpenWorldHint: new(bool)}

	add(s, to, "recall", "Recall", reads, mostFound, s.recall,
		"Find memories that matter for a question or task. Searches by words, by similar meaning and by shared names at once. Call it before you answer, plan, or ask the user something they may have told before. Returns the best memories with id, date, source and the searches that found them. Says so if part of the search did not answer.")
	add(s, to, "list", "List memories", reads, mostListed, s.list,
		"List short excerpts of the newest memories, or show memories in full by their ids. To search by content, use recall.")
	if s.config.ReadOnly {
		return
	}
	add(s, to, "remember", "Remember", adds, 0, s.remember,
		"Store a memory for later conversations: a decision and its reason, a preference, a fact that cannot be looked up elsewhere. One fact per memory. If it replaces a memory that you recalled, use supersede instead.")
	add(s, to, "supersede", "Supersede a memory", adds, 0, s.supersede,
		"Replace a memory that is no longer true with a new one. The old memory stays on record, but recall leaves it out.")
	add(s, to, "update", "Update a memory", changes, 0, s.update,
		"Correct a memory in place. Only the fields you give change, and their old values are lost. If the fact itself has changed, use supersede.")
	add(s, to, "forget", "Forget memories", changes, 0, s.forget,
		"Delete memories for good, with everything derived from them. Use it only when the user asks for it. Unknown ids are ignored.")
}

// add registers a tool, whose answer is text for the model and the same as data. Both are meaningless if the call returns an error.
// most is the maximum of the tool's argument limit.
func add[In, Out any](s *server, to *mcp.Server, name, title string, annotations *mcp.ToolAnnotations, most int,
	call func(context.Context, In) (string, Out, error), description string,
) {
	var hidden []string
	if !s.config.AnyNamespace {
		hidden = []string{"namespace"}
	}
	tool := &mcp.Tool{
		Name: name, Title: title, Description: description, Annotations: annotations,
		InputSchema: argumentsOf[In](most, hidden...), OutputSchema: schemaOf[Out](),
	}
	s.tools[name] = true
	mcp.AddTool(to, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
		defer cancel()
		text, out, err := call(ctx, in)
		if err != nil {
			return nil, out, advice(err)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, out, nil
	})
}

// namespace returns the namespace of a call: the requested one if agents may name one, else the server's.
func (s *server) namespace(requested string) string {
	if s.config.AnyNamespace && requested != "" {
		return requested
	}
	return s.config.Namespace
}

func filter(tags, categories []string, since, before moment, superseded bool) *triskelev1.Filter {
	return &triskelev1.Filter{
		TagsAny: tags, Categories: categories, CreatedFrom: since.ago(), CreatedBefore: before.ago(), IncludeSuperseded: superseded,
	}
}

func (m moment) ago() *timestamppb.Timestamp { return m.Ago(time.Now()) }

func (m moment) ahead() *timestamppb.Timestamp { return m.Ahead(time.Now()) }

// leftOut is how many memories an agent gets to see when all are unlikely to be relevant.
const leftOut = 3

func (s *server) recall(ctx context.Context, in recallInput) (string, recallOutput, error) {
	namespace := s.namespace(in.Namespace)
	where := filter(in.Tags, in.Categories, in.Since, in.Before, in.IncludeSuperseded)
	where.OccurredFrom, where.OccurredBefore = in.OccurredSince.ago(), in.OccurredBefore.ago()
	resp, err := s.recalls.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{namespace}, Query: in.Query, Limit: new(cmp.Or(max(in.Limit, 0), 10)), Budget: durationpb.New(s.config.Budget), Explain: true,
		Filter: where, Surroundings: in.Surroundings, MinScore: client.Relevant(), ReturnLeftOut: leftOut,
		Rerank: client.Reread(),
	})
	if s.unknown(ctx, namespace, err) {
		return "Nothing is remembered yet.", recallOutput{Memories: []found{}}, nil
	}
	if err != nil {
		return "", recallOutput{}, err
	}
	nothing := resp.GetNothingRelevant()
	if nothing { // the agent may know better
		resp.Hits = resp.GetLeftOut()
	}
	brief := briefing.New(resp, briefing.Options{MaxTokens: cmp.Or(in.MaxTokens, s.config.MaxTokens), IDs: true})
	out := recallOutput{Memories: []found{}, Degraded: resp.GetDegradedReason(), Repeated: brief.Repeated, Omitted: brief.Omitted}
	for _, entry := range brief.Entries {
		f := foundOf(entry.Hit.GetMemory(), entry.Content, entry.Shortened)
		f.Score, f.FoundBy, f.MatchedTime = entry.Hit.GetScore(), briefing.FoundBy(entry.Hit), briefing.Line(entry.Hit.GetMatchedTime())
		f.Before, f.After = slice.Map(entry.Before, besideOf), slice.Map(entry.After, besideOf)
		out.Memories = append(out.Memories, f)
	}
	text := brief.Text
	switch {
	case len(resp.GetHits()) == 0 && resp.GetDegraded():
		text = "Nothing found, but the search was incomplete: " + resp.GetDegradedReason()
	case len(resp.GetHits()) == 0:
		text = "Nothing is remembered about that."
	case text == "":
		text = "No memory found fits into max_tokens."
	case nothing:
		out.Unlikely = true
		text = "Nothing that is remembered is likely to answer that. The nearest:\n" + text
	case brief.Omitted > 0:
		text += fmt.Sprintf("%d more found; raise max_tokens to see them.\n", brief.Omitted)
	}
	return text, out, nil
}

// unknown reports whether a recall failed because its namespace does not exist. To an agent, such a namespace is empty.
func (s *server) unknown(ctx context.Context, namespace string, err error) bool {
	if status.Code(err) != codes.InvalidArgument {
		return false
	}
	_, err = s.memories.GetNamespace(ctx, &triskelev1.GetNamespaceRequest{Namespace: namespace})
	return status.Code(err) == codes.NotFound
}

func foundOf(m *triskelev1.Memory, content string, shortened bool) found {
	at := func(t *timestamppb.Timestamp) string {
		if t == nil {
			return ""
		}
		return t.AsTime().Format(time.RFC3339)
	}
	return found{
		ID: m.GetId(), Title: briefing.Line(m.GetTitle()), Content: content, Shortened: shortened, Tags: slice.Map(m.GetTags(), briefing.Line), Source: briefing.Line(m.GetSource()),
		CreatedAt: at(m.GetCreatedAt()), OccurredAt: at(m.GetOccurredAt()), Sensitive: m.GetSensitive(), Revision: m.GetRevision(),
		Thread: briefing.Line(m.GetThread()), Position: m.Position, SupersededBy: m.GetSupersededBy(),
	}
}

// memory returns what to store. The project is told as in turns that are captured: the beginning of a session looks at it, and the
// source shows it.
func (s *server) memory(in memoryInput) *triskelev1.Memory {
	m := &triskelev1.Memory{
		Namespace: s.namespace(in.Namespace), Content: in.Content, Title: in.Title, Tags: in.Tags, Category: in.Category, Importance: in.Importance,
		Sensitive: in.Sensitive, Source: in.Source, OccurredAt: in.OccurredAt.ago(), ExpiresAt: in.ExpiresAt.ahead(), IdempotencyKey: in.IdempotencyKey,
		Thread: in.Thread, Position: in.Position,
	}
	if project := s.config.Project; project != "" {
		m.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{capture.Project: structpb.NewStringValue(project)}}
		m.Source = cmp.Or(m.GetSource(), clip.Text("agent in "+filepath.Base(project), 200))
	}
	return m
}

func (s *server) remember(ctx context.Context, in memoryInput) (string, storedOutput, error) {
	resp, err := s.memories.Remember(ctx, &triskelev1.RememberRequest{Memory: s.memory(in)})
	out := storedOutput{ID: resp.GetMemory().GetId(), Stored: resp.GetStored(), Revision: resp.GetMemory().GetRevision()}
	if !out.Stored {
		return "Remembered before as " + out.ID + "; nothing stored.", out, err
	}
	return "Remembered as " + out.ID + ".", out, err
}

func (s *server) supersede(ctx context.Context, in supersedeInput) (string, supersededOutput, error) {
	resp, err := s.memories.Supersede(ctx, &triskelev1.SupersedeRequest{Id: in.ID, Replacement: s.memory(in.memoryInput)})
	out := supersededOutput{ID: resp.GetMemory().GetId(), Supersedes: resp.GetSuperseded().GetId()}
	return "Remembered as " + out.ID + ", which replaces " + out.Supersedes + ".", out, err
}

func (s *server) update(ctx context.Context, in updateInput) (string, updatedOutput, error) {
	m := &triskelev1.Memory{Tags: in.Tags, Importance: in.Importance, ExpiresAt: in.ExpiresAt.ahead()}
	var paths []string
	changed := func(path string, yes bool) {
		if yes {
			paths = append(paths, path)
		}
	}
	changed("content", set(&m.Content, in.Content))
	changed("title", set(&m.Title, in.Title))
	changed("category", set(&m.Category, in.Category))
	changed("sensitive", set(&m.Sensitive, in.Sensitive))
	changed("tags", in.Tags != nil)
	changed("importance", in.Importance != nil)
	changed("expires_at", in.ExpiresAt.Set())
	resp, err := s.memories.Update(ctx, &triskelev1.UpdateRequest{
		Namespace: s.namespace(in.Namespace), Id: in.ID, Memory: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}, ExpectedRevision: in.ExpectedRevision,
	})
	out := updatedOutput{ID: resp.GetMemory().GetId(), Revision: resp.GetMemory().GetRevision()}
	return fmt.Sprintf("Updated %s, now revision %d.", out.ID, out.Revision), out, err
}

func set[T any](field, argument *T) bool {
	if argument != nil {
		*field = *argument
	}
	return argument != nil
}

func (s *server) forget(ctx context.Context, in forgetInput) (string, forgottenOutput, error) {
	resp, err := s.memories.Forget(ctx, &triskelev1.ForgetRequest{Namespace: s.namespace(in.Namespace), Ids: in.IDs})
	return fmt.Sprintf("Forgot %d of %d.", resp.GetForgotten(), len(in.IDs)), forgottenOutput{resp.GetForgotten()}, err
}

func (s *server) list(ctx context.Context, in listInput) (string, listOutput, error) {
	namespace := s.namespace(in.Namespace)
	out := listOutput{Memories: []found{}}
	each := listTokens // 0 for the full text
	var memories []*triskelev1.Memory
	if len(in.IDs) > 0 {
		resp, err := s.memories.Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: in.IDs})
		if err != nil {
			return "", out, err
		}
		memories, each = resp.GetMemories(), 0
	} else {
		resp, err := s.memories.List(ctx, &triskelev1.ListRequest{
			Namespace: namespace, PageSize: new(cmp.Or(max(in.Limit, 0), 20)), PageToken: in.PageToken,
			Filter: filter(in.Tags, in.Categories, in.Since, in.Before, in.IncludeSuperseded),
		})
		if err != nil {
			return "", out, err
		}
		memories, out.NextPageToken = resp.GetMemories(), resp.GetNextPageToken()
	}
	if len(memories) == 0 {
		return "Nothing found.", out, nil
	}
	for _, m := range memories {
		content, shortened := briefing.Shorten(m, each)
		out.Memories = append(out.Memories, foundOf(m, content, shortened))
	}
	text := briefing.List(memories, each)
	if missing := len(in.IDs) - len(memories); missing > 0 {
		text += fmt.Sprintf("%d of the ids do not exist.\n", missing)
	}
	if out.NextPageToken != "" {
		text += "There are more: call list again with page_token " + out.NextPageToken + "\n"
	}
	return text, out, nil
}

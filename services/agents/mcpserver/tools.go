package mcpserver

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/briefing"
)

// listTokens is how much of each memory a listing shows.
const listTokens = 60

type recallInput struct {
	Query             string   `json:"query" jsonschema:"What to look for, in plain words: the question, or names and terms. Best with what the memory itself would say."`
	Limit             int32    `json:"limit,omitempty" jsonschema:"How many memories at most; 10 if not given."`
	MaxTokens         int      `json:"max_tokens,omitempty" jsonschema:"How long the answer may be, in estimated tokens."`
	Tags              []string `json:"tags,omitempty" jsonschema:"Only memories with one of these tags."`
	Categories        []string `json:"categories,omitempty" jsonschema:"Only memories of one of these categories."`
	Since             *moment  `json:"since,omitempty" jsonschema:"Only memories stored from then on: a date (UTC) or a time such as 2026-03-01T08:30:00Z."`
	Before            *moment  `json:"before,omitempty" jsonschema:"Only memories stored before then."`
	IncludeSuperseded bool     `json:"include_superseded,omitempty" jsonschema:"Also what has been replaced by something newer."`
	Namespace         string   `json:"namespace,omitempty" jsonschema:"Where to look, instead of the namespace this server works on."`
}

type recallOutput struct {
	Memories []found `json:"memories" jsonschema:"Best first."`
	Degraded string  `json:"degraded,omitempty" jsonschema:"Set if part of the search did not answer: what may be missing."`
	Repeated int     `json:"repeated" jsonschema:"Found, but left out because a better one says the same."`
	Omitted  int     `json:"omitted" jsonschema:"Found, but left out because max_tokens was reached."`
}

type found struct {
	ID         string   `json:"id"`
	Title      string   `json:"title,omitempty"`
	Content    string   `json:"content"`
	Shortened  bool     `json:"shortened,omitempty" jsonschema:"Content is a part; list with this id has all of it."`
	Tags       []string `json:"tags,omitempty"`
	Source     string   `json:"source,omitempty"`
	CreatedAt  string   `json:"created_at"`
	OccurredAt string   `json:"occurred_at,omitempty"`
	Sensitive  bool     `json:"sensitive,omitempty"`
	Revision   int64    `json:"revision"`
	Score      float64  `json:"score,omitempty" jsonschema:"Comparable within one answer only."`
	FoundBy    []string `json:"found_by,omitempty" jsonschema:"lexical: by its words; dense: by likeness; graph: by names it shares with others."`
}

type memoryInput struct {
	Content        string   `json:"content" jsonschema:"The text: one fact, understandable by itself."`
	Title          string   `json:"title,omitempty"`
	Tags           []string `json:"tags,omitempty"`
	Category       string   `json:"category,omitempty" jsonschema:"Such as fact, decision, preference, person."`
	Importance     *float64 `json:"importance,omitempty" jsonschema:"How much it matters, 0 to 1; 0.5 if not given."`
	Sensitive      bool     `json:"sensitive,omitempty" jsonschema:"A secret: found by its words only, never embedded, linked or sent to a model by the memory service."`
	Source         string   `json:"source,omitempty" jsonschema:"Where it comes from, such as a file or a conversation."`
	OccurredAt     *moment  `json:"occurred_at,omitempty" jsonschema:"When it happened, if not now: a date (UTC) or a time such as 2026-03-01T08:30:00Z."`
	ExpiresAt      *moment  `json:"expires_at,omitempty" jsonschema:"From then on it is no longer recalled."`
	IdempotencyKey string   `json:"idempotency_key,omitempty" jsonschema:"Makes a repeated call harmless."`
	Namespace      string   `json:"namespace,omitempty" jsonschema:"Where to store it, instead of the namespace this server works on."`
}

type storedOutput struct {
	ID       string `json:"id"`
	Stored   bool   `json:"stored" jsonschema:"False if the idempotency key had been used for this memory before."`
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
	Tags             []string `json:"tags,omitempty" jsonschema:"Replace the present ones."`
	Category         *string  `json:"category,omitempty"`
	Importance       *float64 `json:"importance,omitempty"`
	Sensitive        *bool    `json:"sensitive,omitempty"`
	ExpiresAt        *moment  `json:"expires_at,omitempty" jsonschema:"From then on it is no longer recalled: a date (UTC) or a time such as 2026-03-01T08:30:00Z."`
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
	IDs               []string `json:"ids,omitempty" jsonschema:"Show these memories in full, instead of the newest in short."`
	Limit             int32    `json:"limit,omitempty" jsonschema:"How many at most; 20 if not given."`
	Tags              []string `json:"tags,omitempty" jsonschema:"Only memories with one of these tags."`
	Categories        []string `json:"categories,omitempty" jsonschema:"Only memories of one of these categories."`
	Since             *moment  `json:"since,omitempty" jsonschema:"Only memories stored from then on: a date (UTC) or a time such as 2026-03-01T08:30:00Z."`
	Before            *moment  `json:"before,omitempty" jsonschema:"Only memories stored before then."`
	IncludeSuperseded bool     `json:"include_superseded,omitempty" jsonschema:"Also what has been replaced by something newer."`
	PageToken         string   `json:"page_token,omitempty" jsonschema:"next_page_token of the page before."`
	Namespace         string   `json:"namespace,omitempty"`
}

type listOutput struct {
	Memories      []found `json:"memories" jsonschema:"Newest first, or in the order of ids."`
	NextPageToken string  `json:"next_page_token,omitempty"`
}

func (s *server) addTools(to *mcp.Server) {
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(bool)}
	adds := &mcp.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)}
	yes := true
	changes := &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: new(bool)}

	add(s, to, "recall", "Recall", reads, mostFound, s.recall,
		"Find what is already known that matters for a question or task. Searches by words, by likeness and by names at once. Call it before you answer, plan or ask the user something they may have told before. Returns the best memories with id, date, source and what found them; says so if part of the search did not answer.")
	add(s, to, "list", "List memories", reads, mostListed, s.list,
		"List the newest memories in short, or show some in full by their ids. To find something by what it says, use recall.")
	if s.config.ReadOnly {
		return
	}
	add(s, to, "remember", "Remember", adds, 0, s.remember,
		"Store a memory for later conversations: a decision and its reason, a preference, a fact that cannot be looked up elsewhere. One fact each. Use supersede instead if it replaces something you recalled.")
	add(s, to, "supersede", "Supersede a memory", adds, 0, s.supersede,
		"Replace a memory that is no longer true by a new one. The old one is kept on record, and recall leaves it out.")
	add(s, to, "update", "Update a memory", changes, 0, s.update,
		"Correct a memory in place: only the fields you give change, and what they were is lost. If the world has changed and not the wording, use supersede.")
	add(s, to, "forget", "Forget memories", changes, 0, s.forget,
		"Remove memories for good, with everything derived from them. Only when the user asks for it. An id that does not exist is no error.")
}

// add offers a tool whose answer is text for the model and the same as data. most bounds its argument limit.
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

// namespace is the one asked for, if agents may ask, or the server's.
func (s *server) namespace(asked string) string {
	if s.config.AnyNamespace && asked != "" {
		return asked
	}
	return s.config.Namespace
}

func filter(tags, categories []string, since, before *moment, superseded bool) *triskelev1.Filter {
	return &triskelev1.Filter{
		TagsAny: tags, Categories: categories, CreatedFrom: since.proto(), CreatedBefore: before.proto(), IncludeSuperseded: superseded,
	}
}

func (m *moment) proto() *timestamppb.Timestamp {
	if m == nil {
		return nil
	}
	return timestamppb.New(m.Time)
}

func (s *server) recall(ctx context.Context, in recallInput) (string, recallOutput, error) {
	limit := max(in.Limit, 0)
	if limit == 0 {
		limit = 10
	}
	namespace := s.namespace(in.Namespace)
	resp, err := s.recalls.Recall(ctx, &triskelev1.RecallRequest{
		Namespaces: []string{namespace}, Query: in.Query, Limit: &limit, Budget: durationpb.New(s.config.Budget), Explain: true,
		Filter: filter(in.Tags, in.Categories, in.Since, in.Before, in.IncludeSuperseded),
	})
	if s.unknown(ctx, namespace, err) {
		return "Nothing is remembered yet.", recallOutput{Memories: []found{}}, nil
	}
	if err != nil {
		return "", recallOutput{}, err
	}
	tokens := in.MaxTokens
	if tokens == 0 {
		tokens = s.config.MaxTokens
	}
	brief := briefing.New(resp, briefing.Options{MaxTokens: tokens, IDs: true})
	out := recallOutput{Memories: []found{}, Degraded: resp.GetDegradedReason(), Repeated: brief.Repeated, Omitted: brief.Omitted}
	for _, entry := range brief.Entries {
		f := foundOf(entry.Hit.GetMemory(), entry.Content, entry.Shortened)
		f.Score, f.FoundBy = entry.Hit.GetScore(), briefing.FoundBy(entry.Hit)
		out.Memories = append(out.Memories, f)
	}
	text := brief.Text
	switch {
	case len(resp.GetHits()) == 0 && resp.GetDegraded():
		text = "Nothing found, but the search was incomplete: " + resp.GetDegradedReason()
	case len(resp.GetHits()) == 0:
		text = "Nothing is remembered about that."
	case text == "":
		text = "What was found does not fit into max_tokens."
	case brief.Omitted > 0:
		text += fmt.Sprintf("%d more found; raise max_tokens to see them.\n", brief.Omitted)
	}
	return text, out, nil
}

// unknown says whether a recall failed because nothing has been stored in the namespace: to an agent that is an empty memory.
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
		ID: m.GetId(), Title: m.GetTitle(), Content: content, Shortened: shortened, Tags: m.GetTags(), Source: m.GetSource(),
		CreatedAt: at(m.GetCreatedAt()), OccurredAt: at(m.GetOccurredAt()), Sensitive: m.GetSensitive(), Revision: m.GetRevision(),
	}
}

func (s *server) memory(in memoryInput) *triskelev1.Memory {
	return &triskelev1.Memory{
		Namespace: s.namespace(in.Namespace), Content: in.Content, Title: in.Title, Tags: in.Tags, Category: in.Category, Importance: in.Importance,
		Sensitive: in.Sensitive, Source: in.Source, OccurredAt: in.OccurredAt.proto(), ExpiresAt: in.ExpiresAt.proto(), IdempotencyKey: in.IdempotencyKey,
	}
}

func (s *server) remember(ctx context.Context, in memoryInput) (string, storedOutput, error) {
	resp, err := s.memories.Remember(ctx, &triskelev1.RememberRequest{Memory: s.memory(in)})
	if err != nil {
		return "", storedOutput{}, err
	}
	out := storedOutput{ID: resp.GetMemory().GetId(), Stored: resp.GetStored(), Revision: resp.GetMemory().GetRevision()}
	if !out.Stored {
		return "Remembered before as " + out.ID + "; nothing stored.", out, nil
	}
	return "Remembered as " + out.ID + ".", out, nil
}

func (s *server) supersede(ctx context.Context, in supersedeInput) (string, supersededOutput, error) {
	resp, err := s.memories.Supersede(ctx, &triskelev1.SupersedeRequest{Id: in.ID, Replacement: s.memory(in.memoryInput)})
	if err != nil {
		return "", supersededOutput{}, err
	}
	out := supersededOutput{ID: resp.GetMemory().GetId(), Supersedes: resp.GetSuperseded().GetId()}
	return "Remembered as " + out.ID + ", which replaces " + out.Supersedes + ".", out, nil
}

func (s *server) update(ctx context.Context, in updateInput) (string, updatedOutput, error) {
	m := &triskelev1.Memory{Tags: in.Tags, Importance: in.Importance, ExpiresAt: in.ExpiresAt.proto()}
	var paths []string
	given := func(path string, yes bool) {
		if yes {
			paths = append(paths, path)
		}
	}
	text := func(path string, value *string, to *string) {
		given(path, value != nil)
		if value != nil {
			*to = *value
		}
	}
	text("content", in.Content, &m.Content)
	text("title", in.Title, &m.Title)
	text("category", in.Category, &m.Category)
	given("tags", in.Tags != nil)
	given("importance", in.Importance != nil)
	given("expires_at", in.ExpiresAt != nil)
	given("sensitive", in.Sensitive != nil)
	if in.Sensitive != nil {
		m.Sensitive = *in.Sensitive
	}
	resp, err := s.memories.Update(ctx, &triskelev1.UpdateRequest{
		Namespace: s.namespace(in.Namespace), Id: in.ID, Memory: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}, ExpectedRevision: in.ExpectedRevision,
	})
	if err != nil {
		return "", updatedOutput{}, err
	}
	out := updatedOutput{ID: resp.GetMemory().GetId(), Revision: resp.GetMemory().GetRevision()}
	return fmt.Sprintf("Updated %s, now revision %d.", out.ID, out.Revision), out, nil
}

func (s *server) forget(ctx context.Context, in forgetInput) (string, forgottenOutput, error) {
	resp, err := s.memories.Forget(ctx, &triskelev1.ForgetRequest{Namespace: s.namespace(in.Namespace), Ids: in.IDs})
	if err != nil {
		return "", forgottenOutput{}, err
	}
	return fmt.Sprintf("Forgot %d of %d.", resp.GetForgotten(), len(in.IDs)), forgottenOutput{resp.GetForgotten()}, nil
}

func (s *server) list(ctx context.Context, in listInput) (string, listOutput, error) {
	namespace := s.namespace(in.Namespace)
	out := listOutput{Memories: []found{}}
	each := listTokens
	var memories []*triskelev1.Memory
	if len(in.IDs) > 0 {
		resp, err := s.memories.Get(ctx, &triskelev1.GetRequest{Namespace: namespace, Ids: in.IDs})
		if err != nil {
			return "", out, err
		}
		memories, each = resp.GetMemories(), 0
	} else {
		size := max(in.Limit, 0)
		if size == 0 {
			size = 20
		}
		resp, err := s.memories.List(ctx, &triskelev1.ListRequest{
			Namespace: namespace, PageSize: &size, PageToken: in.PageToken,
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

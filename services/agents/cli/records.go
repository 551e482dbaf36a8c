package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/triskele/triskele/fuser/platform/slice"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/agents/internal/when"
)

// recordFlags are those of a command that makes a call about the memories of a namespace.
type recordFlags struct {
	answerFlag
	namespaceFlag
	gatewayFlags
}

// withIDs connects and calls fn with whole ids in place of beginnings.
func (f recordFlags) withIDs(ctx context.Context, given []string, fn func(s *session, ids []string) error) error {
	return f.with(ctx, func(s *session) error {
		ids, err := s.whole(ctx, f.Namespace, given)
		if err != nil {
			return err
		}
		return fn(s, ids)
	})
}

type getCmd struct {
	IDs []string `arg:"" name:"id" help:"Ids of memories, or their beginnings of 4 characters or more."`
	recordFlags
}

// Run prints the memories. A missing memory is an error after the others are printed.
func (c *getCmd) Run(ctx context.Context, env *Env) error {
	return c.withIDs(ctx, c.IDs, func(s *session, ids []string) error {
		resp, err := s.Memories.Get(ctx, &triskelev1.GetRequest{Namespace: c.Namespace, Ids: ids})
		if err != nil {
			return err
		}
		drawn := strings.Join(slice.Map(resp.GetMemories(), env.style().Memory), "\n")
		if err := env.show(c.JSON, resp, drawn); err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.ContainsFunc(resp.GetMemories(), func(m *triskelev1.Memory) bool { return strings.EqualFold(m.GetId(), id) }) {
				return fmt.Errorf("no memory %s in namespace %s", id, c.Namespace)
			}
		}
		return nil
	})
}

// shortest is the length of the shortest beginning of an id that is looked for.
const shortest = 4

var (
	wholeID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	partID  = regexp.MustCompile(`^[0-9a-fA-F][0-9a-fA-F-]*$`)
)

// whole returns ids, each of which may be given by a beginning that one memory of the namespace has alone. It lists the namespace, if
// there is such an id.
func (s *session) whole(ctx context.Context, namespace string, ids []string) ([]string, error) {
	part := func(id string) bool { return partID.MatchString(id) && !wholeID.MatchString(id) }
	if i := slices.IndexFunc(ids, func(id string) bool { return part(id) && len(id) < shortest }); i >= 0 {
		return nil, fmt.Errorf("%s is too little of an id: give %d characters or more", ids[i], shortest)
	}
	if !slices.ContainsFunc(ids, part) {
		return ids, nil
	}
	found := slices.Clone(ids)
	all := &triskelev1.ListRequest{Namespace: namespace, Filter: &triskelev1.Filter{IncludeSuperseded: true}, PageSize: pageSize(0)}
	for m, err := range s.List(ctx, all) {
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			switch {
			case !strings.HasPrefix(m.GetId(), strings.ToLower(id)) || !part(id):
			case found[i] != id && found[i] != m.GetId():
				return nil, fmt.Errorf("the ids of several memories begin with %s: give more of it", id)
			default:
				found[i] = m.GetId()
			}
		}
	}
	if i := slices.IndexFunc(found, part); i >= 0 {
		return nil, fmt.Errorf("no memory in namespace %s has an id that begins with %s, unless it has expired", namespace, ids[i])
	}
	return found, nil
}

const nothingFound = "nothing found\n"

type listCmd struct {
	Limit  int         `help:"Maximum number of memories; 0 lists all." default:"20"`
	Filter filterFlags `embed:""`
	JSON   bool        `help:"Print each memory as a line of JSON."`
	namespaceFlag
	gatewayFlags
}

func (c *listCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		all := s.List(ctx, &triskelev1.ListRequest{Namespace: c.Namespace, Filter: c.Filter.filter(env.Now()), PageSize: pageSize(c.Limit)})
		return showList(env, c.JSON, all, c.Limit, nothingFound, env.style().Line)
	})
}

type forgetCmd struct {
	IDs []string `arg:"" name:"id" help:"Ids of memories, or their beginnings of 4 characters or more."`
	recordFlags
}

func (c *forgetCmd) Run(ctx context.Context, env *Env) error {
	return c.withIDs(ctx, c.IDs, func(s *session, ids []string) error {
		resp, err := s.Memories.Forget(ctx, &triskelev1.ForgetRequest{Namespace: c.Namespace, Ids: ids})
		return env.answer(err, c.JSON, resp, "forgot "+render.Count(resp.GetForgotten(), "memory", "memories")+"\n")
	})
}

type supersedeCmd struct {
	ID     string      `arg:"" name:"id" help:"Id of the memory to replace, or its beginning of 4 characters or more."`
	Text   string      `arg:"" help:"The text that replaces it, or - to read it from standard input."`
	Memory memoryFlags `embed:""`
	recordFlags
}

func (c *supersedeCmd) Run(ctx context.Context, env *Env) error {
	text, err := env.text(ctx, c.Text)
	if err != nil {
		return err
	}
	return c.withIDs(ctx, []string{c.ID}, func(s *session, ids []string) error {
		resp, err := s.Memories.Supersede(ctx, &triskelev1.SupersedeRequest{
			Id: ids[0], Replacement: c.Memory.memory(c.Namespace, text, env.Now()),
		})
		return env.answer(err, c.JSON, resp, fmt.Sprintf("remembered %s, which supersedes %s\n", resp.GetMemory().GetId(), resp.GetSuperseded().GetId()))
	})
}

type updateCmd struct {
	ID         string      `arg:"" name:"id" help:"Id of the memory, or its beginning of 4 characters or more."`
	Content    *string     `help:"New text, or - to read it from standard input."`
	Title      *string     `help:"New title."`
	Tag        []string    `help:"Tags that replace the current ones." placeholder:"TAG"`
	Category   *string     `help:"New category."`
	Keyword    []string    `help:"Search words that replace the current ones." placeholder:"WORD"`
	Importance *float64    `help:"How much it matters, 0 to 1."`
	Sensitive  *bool       `help:"Find it by its words only." negatable:""`
	Source     *string     `help:"Where it comes from."`
	Thread     *string     `help:"Thread that it is part of." placeholder:"NAME"`
	Position   *int64      `help:"Place in the thread." placeholder:"N"`
	Expires    when.Moment `help:"When it expires and recall no longer finds it: a date (UTC), a time, or a span from now such as 36h, 7d, 2w." placeholder:"WHEN"`
	Clear      []string    `help:"Empty these fields: title, tags, category, expanded_keywords, metadata, source, occurred_at, expires_at, thread, position." enum:"title,tags,category,expanded_keywords,metadata,source,occurred_at,expires_at,thread,position" placeholder:"FIELD"`
	Revision   int64       `help:"Change nothing unless the memory still has this revision."`
	recordFlags
}

func (c *updateCmd) Run(ctx context.Context, env *Env) error {
	content, err := env.text(ctx, valueOf(c.Content))
	if err != nil {
		return err
	}
	m := &triskelev1.Memory{
		Content: content, Title: valueOf(c.Title), Tags: c.Tag, Category: valueOf(c.Category), ExpandedKeywords: c.Keyword, Importance: c.Importance,
		Sensitive: valueOf(c.Sensitive), Source: valueOf(c.Source), Thread: valueOf(c.Thread), Position: c.Position,
		ExpiresAt: c.Expires.Ahead(env.Now()),
	}
	paths := append(c.set(), c.Clear...)
	return c.withIDs(ctx, []string{c.ID}, func(s *session, ids []string) error {
		resp, err := s.Memories.Update(ctx, &triskelev1.UpdateRequest{
			Namespace: c.Namespace, Id: ids[0], Memory: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}, ExpectedRevision: c.Revision,
		})
		return env.answer(err, c.JSON, resp, fmt.Sprintf("updated %s, now revision %d\n", resp.GetMemory().GetId(), resp.GetMemory().GetRevision()))
	})
}

func (c *updateCmd) Validate() error {
	set := c.set()
	for _, path := range c.Clear {
		if slices.Contains(set, path) {
			return fmt.Errorf("%s is both set and cleared", path)
		}
	}
	if len(set)+len(c.Clear) == 0 {
		return errors.New("nothing to change: give at least one field with a value, or empty one with --clear")
	}
	return nil
}

// set returns the fields that flags set, by their names in the API.
func (c *updateCmd) set() (paths []string) {
	for path, given := range map[string]bool{
		"content": c.Content != nil, "title": c.Title != nil, "tags": len(c.Tag) > 0, "category": c.Category != nil,
		"expanded_keywords": len(c.Keyword) > 0, "importance": c.Importance != nil, "sensitive": c.Sensitive != nil, "source": c.Source != nil,
		"thread": c.Thread != nil, "position": c.Position != nil, "expires_at": c.Expires.Set(),
	} {
		if given {
			paths = append(paths, path)
		}
	}
	return paths
}

// valueOf returns a flag's value, or the zero value if it is not given.
func valueOf[T any](flag *T) (value T) {
	if flag != nil {
		value = *flag
	}
	return value
}

// memoryFlags are the fields of a new memory except its text.
type memoryFlags struct {
	Title          string      `help:"Title."`
	Tag            []string    `help:"Tags." placeholder:"TAG"`
	Category       string      `help:"Category."`
	Keyword        []string    `help:"Search words that the text lacks." placeholder:"WORD"`
	Importance     *float64    `help:"How much it matters, 0 to 1; 0.5 if not given."`
	Sensitive      bool        `help:"Find it by its words only: never embed or link it, never send it to a model."`
	Source         string      `help:"Where it comes from."`
	Thread         string      `help:"Thread that it is part of, such as a conversation or a document. Recall looks at what stands beside a memory in its thread." placeholder:"NAME"`
	Position       *int64      `help:"Place in the thread, the lowest first; in the order of creation if not given." placeholder:"N"`
	IdempotencyKey string      `help:"Idempotency key: a repeated call with it stores nothing twice." placeholder:"KEY"`
	Occurred       when.Moment `help:"When the thing happened: a date (UTC), a time, or an age such as 36h, 7d, 2w." placeholder:"WHEN"`
	Expires        when.Moment `help:"When it expires and recall no longer finds it: a date (UTC), a time, or a span from now such as 36h, 7d, 2w." placeholder:"WHEN"`
}

func (f memoryFlags) memory(namespace, content string, now time.Time) *triskelev1.Memory {
	return &triskelev1.Memory{
		Namespace: namespace, Content: content, Title: f.Title, Tags: f.Tag, Category: f.Category, ExpandedKeywords: f.Keyword,
		Importance: f.Importance, Sensitive: f.Sensitive, Source: f.Source, IdempotencyKey: f.IdempotencyKey,
		Thread: f.Thread, Position: f.Position, OccurredAt: f.Occurred.Ago(now), ExpiresAt: f.Expires.Ahead(now),
	}
}

// maxText is larger than any memory, so that the server reports an oversized text.
const maxText = 1 << 20

// text returns the argument, or standard input for "-" without a byte order mark and trailing line ends.
func (e *Env) text(ctx context.Context, argument string) (string, error) {
	if argument != "-" {
		return argument, nil
	}
	text, err := io.ReadAll(io.LimitReader(e.input(ctx), maxText))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(text) < maxText && !utf8.Valid(text) { // the end of a longer text may be half a character
		return "", errors.New("the text on standard input is not UTF-8")
	}
	return strings.ToValidUTF8(strings.TrimRight(strings.TrimPrefix(string(text), "\ufeff"), "\r\n"), ""), nil
}

// input returns standard input. A read that waits ends with ctx.
func (e *Env) input(ctx context.Context) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, e.In)
		_ = in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	return out
}

// ask returns the line that the user answers a question with. It is empty at the end of input. What follows the line is left to others.
func (e *Env) ask(ctx context.Context, question string) (string, error) {
	if _, err := io.WriteString(e.Err, question); err != nil {
		return "", err
	}
	answer := make(chan string, 1)
	go func() {
		var line []byte
		for one := make([]byte, 1); len(line) < 1000; {
			n, err := e.In.Read(one)
			if n == 0 && err != nil || n == 1 && one[0] == '\n' {
				break
			}
			line = append(line, one[:n]...)
		}
		answer <- strings.TrimSpace(string(line))
	}()
	select {
	case line := <-answer:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// open opens a file to read, or standard input for "-". A read that waits ends with ctx.
func (e *Env) open(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(e.input(ctx)), nil
	}
	file, err := openFile(ctx, path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = file.Close() })
	return file, nil
}

type rememberCmd struct {
	Text   string      `arg:"" help:"The text to remember, or - to read it from standard input."`
	Memory memoryFlags `embed:""`
	recordFlags
}

func (c *rememberCmd) Run(ctx context.Context, env *Env) error {
	text, err := env.text(ctx, c.Text)
	if err != nil {
		return err
	}
	return c.with(ctx, func(s *session) error {
		resp, err := s.Memories.Remember(ctx, &triskelev1.RememberRequest{Memory: c.Memory.memory(c.Namespace, text, env.Now())})
		said := "remembered "
		if !resp.GetStored() {
			said = "remembered before as "
		}
		return env.answer(err, c.JSON, resp, said+resp.GetMemory().GetId()+"\n")
	})
}

type filterFlags struct {
	Tag               []string    `help:"Only memories with one of these tags." placeholder:"TAG" group:"Which memories:"`
	TagsAll           []string    `help:"Only memories with all of these tags." placeholder:"TAG" group:"Which memories:"`
	Category          []string    `help:"Only memories of one of these categories." placeholder:"CATEGORY" group:"Which memories:"`
	Since             when.Moment `help:"Only memories created since: a date (UTC), a time, or an age such as 36h, 7d, 2w." placeholder:"WHEN" group:"Which memories:"`
	Before            when.Moment `help:"Only memories created before then." placeholder:"WHEN" group:"Which memories:"`
	OccurredSince     when.Moment `help:"Only memories of what happened since: a date (UTC), a time, or an age such as 36h, 7d, 2w. Without such a time, when they were created counts." placeholder:"WHEN" group:"Which memories:"`
	OccurredBefore    when.Moment `help:"Only memories of what happened before then." placeholder:"WHEN" group:"Which memories:"`
	IncludeSuperseded bool        `help:"Also memories that have been superseded." group:"Which memories:"`
}

func (f filterFlags) filter(now time.Time) *triskelev1.Filter {
	return &triskelev1.Filter{
		TagsAny: f.Tag, TagsAll: f.TagsAll, Categories: f.Category, IncludeSuperseded: f.IncludeSuperseded,
		CreatedFrom: f.Since.Ago(now), CreatedBefore: f.Before.Ago(now), OccurredFrom: f.OccurredSince.Ago(now), OccurredBefore: f.OccurredBefore.Ago(now),
	}
}

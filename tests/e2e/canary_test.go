package e2e_test

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// Words that are in no text but those that the test writes. Each field of a memory has one of its own, which begins so.
const (
	private = "quokkaprivate" // of memories that are sensitive from the start: goes nowhere but to who asks
	flipped = "quokkaflipped" // of memories that turn sensitive while models look at them: from then on the same
	public  = "quokkapublic"  // of the others: goes to the models
	asked   = "quokkaasked"   // of queries: goes to the embedder
	refused = "quokkarefused" // of calls that are invalid: goes nowhere
)

// TestCanary writes words into every text there is, sensitive and not, has everything look at them and everything fail
// that can, and reads all that leaves the processes: telemetry, output, errors, requests to models, what the tools for
// operators print. What is sensitive must be in none of it, and what is not only where it has to be.
func TestCanary(t *testing.T) {
	t.Parallel()
	for name, launch := range map[string]func(t *testing.T, env, curator, extractor, embedder, reranker []string) *cage{
		"postgres": func(t *testing.T, env, curator, extractor, embedder, reranker []string) *cage {
			s := startFive(t, setup{env: env, args: map[string][]string{"memory": curator, "dense": embedder, "graph": append(extractor, embedder...), "fuser": reranker}})
			return &cage{
				system: s.system, database: []string{"--postgres", s.url}, mayFail: []string{"dense", "graph", "lexical", "memory"}, refuse: s.refuse, fixture: s.fixture,
				asking: 4, others: "db_sql_",
			}
		},
		"sqlite": func(t *testing.T, env, curator, extractor, embedder, reranker []string) *cage {
			o := startOne(t, setup{env: env, args: map[string][]string{"triskele": slices.Concat(curator, extractor, embedder, reranker)}})
			return &cage{
				system: o.system, database: []string{"--sqlite", o.file}, refuse: o.refuse, fixture: o.fixture,
				asking: 3, // the query is embedded once for both legs
				others: "pgxpool_",
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, models := &outlets{pieces: map[string][]string{}}, newScript(t)
			env := collect(t, out)
			c := launch(t, env, curatedBy(models), []string{"--extractor-url", models.URL + extraction + "/v1", "--extractor-model", "scripted", "--extractor-per-minute", "60000"},
				[]string{"--embedder", fmt.Sprintf("openai:%s#scripted?dims=%d", models.URL, dimensions)}, []string{"--reranker", "tei:" + models.URL})
			c.t, c.out, c.models, c.env = t, out, models, env
			c.storeAndCurate()
			c.recallAll()
			c.flipMeanwhile()
			c.useAgents()
			c.provoke()
			c.askTools(true)
			c.failEverything()
			c.askTools(false)
			for name, p := range c.processes { // an orderly stop flushes what has not been sent
				c.stop(name)
				out.add("output of "+name, p.log.String())
			}
			c.checkTables()
			out.add("requests to the chat model", models.requests("/v1/chat/completions")...)
			out.add("requests to the extractor", models.requests(extraction+"/v1/chat/completions")...)
			out.add("requests to the embedder", models.requests("/v1/embeddings")...)
			out.add("requests to the reranker", models.requests("/rerank")...)

			out.want(t, "requests to the chat model", public+"title", public+"content", flipped+"judged")
			out.want(t, "requests to the extractor", public+"title", public+"content")
			out.want(t, "requests to the embedder", public+"title", public+"content", flipped+"embedded", asked)
			out.want(t, "requests to the reranker", public+"title", public+"content", asked)
			out.want(t, "traces", "search_memory", "rerank", "retrieval lexical", "lexical.search", "dense.search", "graph.search", "curate", "MemoryService/Remember", "select", "tools/call recall", "resources/read", "prompts/get what_do_we_know")
			out.want(t, "metrics", "triskele.leg.duration", "triskele.index.memories", "triskele.curation.decisions", "triskele.extraction.tokens", "rpc.server", "triskele.hook.events", "triskele.hook.secrets", "mcp.server.operation.duration")
			out.want(t, "metrics for scraping", "triskele_leg_duration", "triskele_index_memories", "triskele_embed_tokens", "# {") // and exemplars
			out.want(t, "the page", "lexical", "search_memory", "triskele.degraded", "budget")
			wantShipped(t, out.pieces["metrics for scraping"], c.others)
			out.want(t, "errors", "already", "expected_revision", "internal error", "must")
			out.want(t, "doctor", "queue")
			out.want(t, "decisions", "update")
			out.want(t, "statistics", "sensitive")
			out.want(t, "the queue's list", "HTTP status 500")
			out.want(t, "what hooks give agents", said+"captured", public)
			out.want(t, "what imports print", "stored 1", "1 ignored", "skipped 1")
			out.want(t, "the audit log", "written", "MemoryService/Remember")
			out.want(t, "what connect prints", "claude-code")
			out.want(t, "files of the agent", "settings.json", "next") // the position in a session
			out.wantOnly(t, key)
			out.wantOnly(t, strings.ToLower(c.token))
			out.wantOnly(t, ignored)
			out.wantOnly(t, said, "paths to hits", "requests to the chat model", "requests to the extractor", "requests to the embedder", "requests to the reranker", "what hooks give agents")
			out.wantOnly(t, private)
			out.wantOnly(t, refused)
			out.wantOnly(t, asked, "requests to the embedder", "requests to the reranker")
			out.wantOnly(t, flipped, "requests to the chat model", "requests to the extractor", "requests to the embedder")
			out.wantOnly(t, public, "paths to hits", "requests to the chat model", "requests to the extractor", "requests to the embedder", "requests to the reranker", "what hooks give agents")
		})
	}
}

// curatedBy are the flags that have a script curate.
func curatedBy(models *script) []string {
	return []string{"--curator-url", models.URL + "/v1", "--curator-model", "scripted", "--curator-per-minute", "60000"}
}

// cage is a deployment that is watched from all sides.
type cage struct {
	*system
	t        *testing.T
	out      *outlets
	models   *script
	env      []string             // sends telemetry to out
	database []string             // flags
	mayFail  []string             // processes
	refuse   func(table string)   // has the database refuse new rows, with an error that quotes them if it can
	secret   []*triskelev1.Memory // sensitive memories
	token    string               // of an agent that speaks MCP over HTTP
	plain    *triskelev1.Memory
	asking   int                       // requests to the embedder about a new memory
	others   string                    // what metrics of the other store begin with
	fixture  func() *storetest.Fixture // its database
}

const where = "canary"

// extraction is the path of the model that extracts, so that its requests can be told from the curator's.
const extraction = "/extraction"

// marked is a memory with a word of its own in every field that can hold one.
func marked(word string, sensitive bool) *triskelev1.Memory {
	metadata, err := structpb.NewStruct(map[string]any{word + "key": word + "value", "nested": map[string]any{"list": []any{word + "nested"}}})
	if err != nil {
		panic(err) // these are strings
	}
	return &triskelev1.Memory{
		Namespace: where, Sensitive: sensitive, Metadata: metadata,
		Title: "The vault of Kestrel " + word + "title", Content: "The vault of Kestrel opens with " + word + "content.",
		ExpandedKeywords: []string{word + "keyword"}, Tags: []string{word + "tag"}, Category: word + "category",
		Source: word + "source", IdempotencyKey: word + "idempotency",
		Links: []*triskelev1.Link{{Target: "0190b3a0-0000-7000-8000-000000000001", Relation: word + "relation"}},
	}
}

// storeAndCurate stores sensitive memories in every way, and public ones like them for the curator to look at.
func (c *cage) storeAndCurate() {
	ctx := c.t.Context()
	c.secret = append(c.secret, c.remember(marked(private, true)))
	stream, err := c.memory.Import(ctx)
	if err == nil {
		imported := marked(private+"import", true)
		err = stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{imported}})
	}
	if err == nil {
		_, err = stream.CloseAndRecv()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	replaced := c.remember(&triskelev1.Memory{Namespace: where, Content: "The vault of Kestrel had another code once."})
	superseding, err := c.memory.Supersede(ctx, &triskelev1.SupersedeRequest{Id: replaced.GetId(), Replacement: marked(private+"newer", true)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.secret = append(c.secret, superseding.GetMemory())
	if _, err := c.memory.Update(ctx, &triskelev1.UpdateRequest{
		Namespace: where, Id: c.secret[0].GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content", "title"}},
		Memory: &triskelev1.Memory{Content: "The vault of Kestrel now opens with " + private + "content.", Title: private + "title of the vault of Kestrel"},
	}); err != nil {
		c.t.Fatal(err)
	}
	c.models.set(func(s *script) { s.judge = func(int) (string, int) { return "update", 1 } })
	c.plain = c.remember(marked(public, false))
	c.decision(c.plain.GetId())
	newer := marked(public, false)
	newer.IdempotencyKey, newer.Content = public+"second", "The vault of Kestrel also opens at night, "+public+"content."
	c.decision(c.remember(newer).GetId())
	c.models.set(func(s *script) { s.judge = func(int) (string, int) { return "add", 0 } })
	c.awaitIndexes(where)
}

// decision waits until the curator has judged a memory.
func (c *cage) decision(id string) {
	c.t.Helper()
	c.eventually("a decision about "+id, func() bool {
		resp, err := c.memory.ListDecisions(c.t.Context(), &triskelev1.ListDecisionsRequest{Namespace: where, MemoryId: id})
		return err == nil && len(resp.GetDecisions()) > 0
	})
}

// recallAll asks for sensitive memories by their words, and by the words they share with others.
func (c *cage) recallAll() {
	off := false
	byWords := map[string]*triskelev1.LegOptions{"dense": {Enabled: &off}, "graph": {Enabled: &off}}
	for _, field := range []string{"content", "title", "keyword", "tag", "category", "importcontent", "newercontent"} {
		hits := c.recallFor(&triskelev1.RecallRequest{Query: private + field, Legs: byWords})
		if !slices.ContainsFunc(hits, func(h *triskelev1.Hit) bool { return strings.Contains(h.GetMemory().String(), private+field) }) {
			c.t.Errorf("%s is not found by this word", private+field)
		}
	}
	hits := c.recallFor(&triskelev1.RecallRequest{Query: "What opens the vault of Kestrel, " + asked + "?", Rerank: &triskelev1.Rerank{Enabled: new(true)}})
	if !slices.ContainsFunc(hits, func(h *triskelev1.Hit) bool { return h.GetId() == c.secret[0].GetId() }) {
		c.t.Error("a sensitive memory is not found by words that it shares with others")
	}
	for _, hit := range hits {
		for _, share := range hit.GetContributions() {
			if hit.GetMemory().GetSensitive() && share.GetLeg() != "lexical" {
				c.t.Errorf("the %s leg found a sensitive memory", share.GetLeg())
			}
		}
	}
}

// recallFor recalls with everything that an answer can hold, and keeps of it what is no memory.
func (c *cage) recallFor(req *triskelev1.RecallRequest) []*triskelev1.Hit {
	c.t.Helper()
	req.Namespaces, req.Budget, req.Explain, req.ReturnSpans = []string{where}, durationpb.New(5*time.Second), true, true
	resp, err := c.recall.Recall(c.t.Context(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	about, ok := proto.Clone(resp).(*triskelev1.RecallResponse)
	if !ok {
		c.t.Fatal("a clone of another type")
	}
	for _, hit := range about.GetHits() {
		hit.Memory, hit.Why = nil, ""                  // the answer itself, which quotes the memory
		for _, share := range hit.GetContributions() { // a title is a concept's name, too
			c.out.add("paths to hits", fmt.Sprint(share.GetPath()))
			share.Path = nil
		}
	}
	c.out.add("reports on recalls", about.String())
	return resp.GetHits()
}

// flipMeanwhile makes memories sensitive while a model looks at them.
func (c *cage) flipMeanwhile() {
	c.flip("/v1/embeddings", flipped+"embedded", c.asking) // by the dense leg, for its names, and by legs in which the curator looks for what is near
	c.flip("/v1/chat/completions", flipped+"judged", 1)
}

// flip stores a memory, waits until a model has been asked about it so many times, hides it, and lets the model answer.
func (c *cage) flip(path, word string, times int) {
	looking, answer := make(chan struct{}, 100), make(chan struct{})
	c.models.set(func(s *script) {
		s.judge = func(int) (string, int) { return "update", 1 }
		s.before = func(request string) {
			if strings.HasPrefix(request, "POST "+path) && strings.Contains(request, word) {
				looking <- struct{}{}
				<-answer
			}
		}
	})
	m := c.remember(marked(word, false))
	for range times {
		<-looking
	}
	if _, err := c.memory.Update(c.t.Context(), &triskelev1.UpdateRequest{
		Namespace: where, Id: m.GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sensitive"}}, Memory: &triskelev1.Memory{Sensitive: true},
	}); err != nil {
		c.t.Fatal(err)
	}
	seen := c.mentions(path, word)
	close(answer)
	c.secret = append(c.secret, m)
	// One that comes after it is judged after it.
	c.models.set(func(s *script) { s.judge = func(int) (string, int) { return "add", 0 } })
	c.decision(c.remember(&triskelev1.Memory{Namespace: where, Content: "The vault of Kestrel has a new door since " + word[len(flipped):] + "."}).GetId())
	c.awaitIndexes(where)
	if now := c.mentions(path, word); now != seen {
		c.t.Errorf("%s went to a model %d times after it had turned sensitive", word, now-seen)
	}
}

// mentions counts the requests to a path that hold a word.
func (c *cage) mentions(path, word string) (n int) {
	for _, request := range c.models.requests(path) {
		if strings.Contains(request, word) {
			n++
		}
	}
	return n
}

// fails keeps an error of a call that must fail, with its details.
func (c *cage) fails(what string, err error) {
	c.t.Helper()
	if err == nil {
		c.t.Errorf("%s: no error", what)
		return
	}
	st := status.Convert(err)
	c.out.add("errors", err.Error(), st.Proto().String(), fmt.Sprint(st.Details()...))
}

// provoke makes calls that must fail, each with a word in what is wrong with it.
func (c *cage) provoke() {
	ctx := c.t.Context()
	long := strings.Repeat(refused+" ", 50)
	for what, m := range map[string]*triskelev1.Memory{
		"namespace":   {Namespace: "Not " + refused, Content: "x"},
		"content":     {Namespace: where, Content: refused + "\x00"},
		"large":       {Namespace: where, Content: strings.Repeat(refused, 6000)},
		"title":       {Namespace: where, Content: "x", Title: long},
		"category":    {Namespace: where, Content: "x", Category: long},
		"tag":         {Namespace: where, Content: "x", Tags: []string{long}},
		"keyword":     {Namespace: where, Content: "x", ExpandedKeywords: []string{long}},
		"source":      {Namespace: where, Content: "x", Source: long},
		"key":         {Namespace: where, Content: "x", IdempotencyKey: long},
		"link":        {Namespace: where, Content: "x", Links: []*triskelev1.Link{{Target: refused, Relation: "see"}}},
		"relation":    {Namespace: where, Content: "x", Links: []*triskelev1.Link{{Target: c.plain.GetId(), Relation: long}}},
		"metadata":    {Namespace: where, Content: "x", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{refused: structpb.NewNumberValue(math.Inf(1))}}},
		"id":          {Namespace: where, Content: refused, Id: refused},
		"used key":    {Namespace: where, Content: refused, IdempotencyKey: private + "idempotency"},
		"key and all": {Namespace: where, Content: private + "content", Sensitive: true, IdempotencyKey: public + "idempotency"},
	} {
		_, err := c.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: m})
		c.fails("remember: "+what, err)
		stream, err := c.memory.Import(ctx)
		if err == nil {
			_ = stream.Send(&triskelev1.ImportRequest{Memories: []*triskelev1.Memory{m}})
			_, err = stream.CloseAndRecv()
		}
		c.fails("import: "+what, err)
		_, err = c.memory.Supersede(ctx, &triskelev1.SupersedeRequest{Id: c.plain.GetId(), Replacement: m})
		c.fails("supersede: "+what, err)
	}
	for what, req := range map[string]*triskelev1.UpdateRequest{
		"path":     {Id: c.plain.GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{refused}}},
		"id":       {Id: refused, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content"}}},
		"title":    {Id: c.plain.GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"title"}}, Memory: &triskelev1.Memory{Title: long}},
		"revision": {Id: c.secret[0].GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content"}}, Memory: &triskelev1.Memory{Content: refused}, ExpectedRevision: 99},
		"missing":  {Id: "0190b3a0-0000-7000-8000-000000000002", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"content"}}, Memory: &triskelev1.Memory{Content: refused}},
	} {
		req.Namespace = where
		_, err := c.memory.Update(ctx, req)
		c.fails("update: "+what, err)
	}
	for what, req := range map[string]*triskelev1.RecallRequest{
		"query":    {Query: refused + "\x00"},
		"large":    {Query: strings.Repeat(refused, 3000)},
		"token":    {Query: "x", AtLeast: []string{refused}},
		"filter":   {Query: "x", Filter: &triskelev1.Filter{Metadata: map[string]*structpb.Value{refused: structpb.NewListValue(nil)}}},
		"required": {Query: "x", RequiredLegs: []string{refused}},
		"tag":      {Query: "x", Filter: &triskelev1.Filter{TagsAny: []string{long}}},
		"key":      {Query: "x", Filter: &triskelev1.Filter{Metadata: map[string]*structpb.Value{long: structpb.NewStringValue("x")}}},
		"metadata": {Query: "x", Filter: &triskelev1.Filter{Metadata: map[string]*structpb.Value{"k": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(refused)}})}}},
		"fields":   {Query: refused, Vector: make([]float32, 5000)},
	} {
		req.Namespaces = []string{where}
		_, err := c.recall.Recall(ctx, req)
		c.fails("recall: "+what, err)
	}
	_, err := c.memory.List(ctx, &triskelev1.ListRequest{Namespace: where, PageToken: refused})
	c.fails("list", err)
	_, err = c.memory.ListDecisions(ctx, &triskelev1.ListDecisionsRequest{Namespace: where, PageToken: refused})
	c.fails("list decisions", err)
	_, err = c.memory.Get(ctx, &triskelev1.GetRequest{Namespace: where, Ids: []string{refused}})
	c.fails("get", err)
	_, err = c.memory.RevertDecision(ctx, &triskelev1.RevertDecisionRequest{Namespace: where, Id: refused})
	c.fails("revert", err)
}

// failEverything has the models fail, the database refuse rows, and the services end one after the other, while texts
// are on their way.
func (c *cage) failEverything() {
	ctx := c.t.Context()
	c.models.set(func(s *script) { s.fails = true })
	c.recallFor(&triskelev1.RecallRequest{Query: "What opens the vault of Kestrel, " + asked + "?", Rerank: &triskelev1.Rerank{Enabled: new(true)}})
	failing := marked(public, false)
	failing.IdempotencyKey = public + "failing"
	c.remember(failing)
	c.eventually("the queue keeps the failure", func() bool { return strings.Contains(c.queue(), "HTTP status 500") })

	c.refuse("graph.concepts")
	failing = marked(public+"unlinkable", false)
	c.remember(failing)
	c.eventually("the graph's queue keeps the failure", func() bool { return strings.Contains(c.queue("--index", "graph"), "error") })
	c.refuse("memory.memories")
	for _, word := range []string{private, public, refused} {
		m := marked(word, word == private)
		m.IdempotencyKey = ""
		_, err := c.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: m})
		c.fails("a row that the database refuses", err)
		_, err = c.memory.Supersede(ctx, &triskelev1.SupersedeRequest{Id: c.plain.GetId(), Replacement: m})
		c.fails("a row that the database refuses", err)
	}
	for _, name := range c.mayFail {
		c.stop(name)
		resp, err := c.recall.Recall(ctx, &triskelev1.RecallRequest{Namespaces: []string{where}, Query: "the vault of Kestrel, " + asked, Budget: durationpb.New(time.Second), ReturnSpans: true})
		if err != nil {
			c.fails("recall without "+name, err)
			continue
		}
		if !resp.GetDegraded() {
			c.t.Errorf("without %s a recall is not degraded", name)
		}
		for _, hit := range resp.GetHits() {
			hit.Memory, hit.Why = nil, "" // the answer itself, which quotes the memory
		}
		c.out.add("reports on recalls", resp.String())
	}
	if len(c.mayFail) > 0 {
		_, err := c.memory.Remember(ctx, &triskelev1.RememberRequest{Memory: marked(private, true)})
		c.fails("no memory service", err)
	}
}

// stop ends a process in order, if it still runs: it flushes its telemetry.
func (c *cage) stop(name string) {
	if p := c.processes[name]; p.cmd.ProcessState == nil {
		c.out.add("metrics for scraping", c.scrape(name))
		if name == "fuser" || name == "triskele" {
			for _, path := range []string{"live", "recalls", "recalls?kind=degraded", "recalls/1", "traces"} {
				c.out.add("the page", c.show(name, "/api/"+path))
			}
		}
		c.signal(name, syscall.SIGTERM)
		_ = p.cmd.Wait()
	}
}

// askTools asks the commands for operators what they have to say, those that ask the gateway only while it can answer.
func (c *cage) askTools(gateway bool) {
	if gateway {
		address := []string{"--address", c.conn.Target()}
		c.out.add("doctor", c.tool(append([]string{"doctor"}, append(address, c.database...)...)...))
		c.out.add("decisions", c.tool(append([]string{"curation", "list", "-n", where}, address...)...))
		c.out.add("statistics", c.tool(append([]string{"namespace", "stats", where}, address...)...))
		return
	}
	c.out.add("doctor", c.tool(append([]string{"doctor", "--address", c.conn.Target(), "--timeout", "1s"}, c.database...)...))
	c.out.add("the queue's list", c.queue())
	c.out.add("models", c.tool(append([]string{"models"}, c.database...)...))
}

func (c *cage) queue(args ...string) string {
	return c.tool(append(append([]string{"queue", "list"}, args...), c.database...)...)
}

// tool runs a command and returns what it prints, whether or not it succeeds.
func (c *cage) tool(args ...string) string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), filepath.Join(programs, "triskele"), args...).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		c.t.Fatal(err)
	}
	return string(out)
}

// checkTables looks for the words in every table.
func (c *cage) checkTables() {
	f := c.fixture()
	records := regexp.MustCompile(`^(memory\.memories_\d|memories|memory\.log|log|lexical[._].*)$`) // a log has ids only
	only := func(text string, allowed *regexp.Regexp) {
		c.t.Helper()
		for _, table := range f.Holding(c.t, text) {
			if allowed == nil || !allowed.MatchString(table) {
				c.t.Errorf("%s is in %s", text, table)
			}
		}
	}
	for _, m := range c.secret {
		if len(f.Holding(c.t, m.GetId())) < 2 {
			c.t.Errorf("the sensitive %s is only in %q: the search is blind", m.GetId(), f.Holding(c.t, m.GetId()))
		}
		only(m.GetId(), records)
	}
	for _, word := range []string{private, flipped} {
		only(word, records)
	}
	only(refused, nil)
	only(key, nil)
	only(ignored, nil)
	only(asked, nil)
	for _, table := range f.Holding(c.t, public) {
		if strings.Contains(table, "queue") || strings.Contains(table, "dense") {
			c.t.Errorf("%s is in %s", public, table)
		}
	}
}

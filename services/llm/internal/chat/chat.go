// Package chat asks chat models behind OpenAI-compatible servers for one JSON object at a time. It sends nothing but what
// it is given, to the one server that is configured, no faster than it is told to, and its errors quote neither question
// nor answer.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/services/store/queue"
)

const (
	// maxResponse bounds what is read of an answer: several times the largest one that is accepted.
	maxResponse = 1 << 20
	// maxHold is the longest that the server may ask to be left alone, in one go.
	maxHold = 10 * time.Minute
	// maxWait is how long a question waits its turn before its task goes back to the queue.
	maxWait = time.Minute
	// maxTimeout bounds a request, so that the queue's worker can have the outcome of it.
	maxTimeout = 90 * time.Second
	// Those of a configuration that does not say.
	defaultPerMinute = 30
	defaultTimeout   = 30 * time.Second
	// bytesPerToken turns bytes into tokens where a server does not count them.
	bytesPerToken = 4
)

// Config says whom to ask. Zero PerMinute is 30, zero Timeout 30 s.
type Config struct {
	For       string // who asks, for messages: "the curator"
	URL       string
	Model     string
	Key       string
	KeyFile   string // holds the key, if set
	PerMinute int
	Timeout   time.Duration
}

// Failure is an error whose words are our own, so that logs and the queue can show them: neither the server, which may
// quote its input, nor a memory has a say in them.
type Failure struct {
	Words    string
	Hopeless bool // asking many times more is not worth its price
}

func (f *Failure) Error() string { return f.Words }

// Public is for the queue.
func (f *Failure) Public() string { return f.Words }

// Is implements errors.Is.
func (f *Failure) Is(target error) bool { return f.Hopeless && target == queue.ErrHopeless }

// Model is a chat model behind a server, https://platform.openai.com/docs/api-reference/chat. It may be used concurrently.
type Model struct {
	who     string // whose model it is
	name    string
	server  *endpoint.Endpoint
	timeout time.Duration
	pace    pace
	// plain is set once the server has refused a request for its options and taken the same one without.
	plain atomic.Bool
}

// New checks the configuration. It sends nothing.
func New(config Config) (*Model, error) {
	if config.PerMinute == 0 {
		config.PerMinute = defaultPerMinute
	}
	if config.Timeout == 0 {
		config.Timeout = defaultTimeout
	}
	key := config.Key
	if config.KeyFile != "" {
		text, err := os.ReadFile(config.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s's key: %w", config.For, err)
		}
		key = strings.TrimSpace(string(text))
	}
	server, err := endpoint.New(config.URL, key, 0)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", config.For, err)
	case config.Model == "":
		return nil, fmt.Errorf("%s's model has no name", config.For)
	case config.PerMinute < 1 || config.PerMinute > 60_000:
		return nil, fmt.Errorf("%s may send 1 to 60000 requests a minute, not %d", config.For, config.PerMinute)
	case config.Timeout < 0 || config.Timeout > maxTimeout:
		return nil, fmt.Errorf("%s's timeout must be above 0 and at most %v, not %v", config.For, maxTimeout, config.Timeout)
	}
	if server.URL.Path == "" {
		server.URL.Path = "/v1"
	}
	return &Model{
		who: config.For, name: config.Model, server: server, timeout: config.Timeout,
		pace: pace{every: time.Minute / time.Duration(config.PerMinute)},
	}, nil
}

// Name is what the server calls the model.
func (m *Model) Name() string { return m.name }

// Wait returns when a question may be asked: with queue.ErrPaused if that is not soon, or with ctx's error.
func (m *Model) Wait(ctx context.Context) error { return m.pace.wait(ctx) }

// failed is a failure in words about the model.
func (m *Model) failed(words string) error { return &Failure{Words: m.who + "'s model: " + words} }

// Wrong is a failure about an answer, which the same question would probably get again.
func (m *Model) Wrong(format string, args ...any) error {
	return &Failure{m.who + "'s model: " + fmt.Sprintf(format, args...), true}
}

// message is one turn of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Refusal string `json:"refusal,omitempty"` // instead of content
}

// request is the body of a chat completion. The pointers are options that some servers do not know.
type request struct {
	Model          string          `json:"model"`
	Messages       []message       `json:"messages"`
	Temperature    *float64        `json:"temperature,omitempty"`
	ResponseFormat *responseFormat `json:"response_format,omitempty"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Name   string         `json:"name"`
		Strict bool           `json:"strict"`
		Schema map[string]any `json:"schema"`
	} `json:"json_schema"`
}

// Question is what is asked: instructions, data, and the JSON schema of the answer, for servers that know schemas.
type Question struct {
	Instructions, Data string
	Name               string // of the schema
	Schema             map[string]any
}

// Answer is what the model said, as it said it, and what that cost.
type Answer struct {
	Text   string
	Tokens int // of question and answer; a guess by their length if the server does not count
}

// Ask asks once; a server that does not know schemas is asked again without. Wait comes first.
func (m *Model) Ask(ctx context.Context, q Question) (Answer, error) {
	plain := request{Model: m.name, Messages: []message{{Role: "system", Content: q.Instructions}, {Role: "user", Content: q.Data}}}
	req := plain
	if !m.plain.Load() {
		req.Temperature = new(float64)
		req.ResponseFormat = &responseFormat{Type: "json_schema"}
		req.ResponseFormat.JSONSchema.Name = q.Name
		req.ResponseFormat.JSONSchema.Strict = true
		req.ResponseFormat.JSONSchema.Schema = q.Schema
	}
	said, err := m.complete(ctx, req)
	if errors.Is(err, errRefused) && !m.plain.Load() {
		if err := m.pace.wait(ctx); err != nil {
			return Answer{}, err
		}
		if said, err = m.complete(ctx, plain); err == nil {
			m.plain.Store(true)
		}
	}
	if errors.Is(err, errRefused) {
		err = m.Wrong("it refused the request")
	}
	return said, err
}

// Tokens guesses how many tokens so many bytes are.
func Tokens(bytes int) int { return bytes / bytesPerToken }

// Object returns the JSON object of an answer: models that do not know schemas may think aloud first, or put a fence
// around it.
func Object(text string) string {
	if _, after, ok := strings.Cut(text, "</think>"); ok {
		text = after
	}
	text = strings.TrimSpace(text)
	if fenced, ok := strings.CutPrefix(text, "```"); ok {
		text = strings.TrimSuffix(strings.TrimPrefix(fenced, "json"), "```")
	}
	return text
}

// complete sends one request and returns what the model said.
func (m *Model) complete(ctx context.Context, body request) (Answer, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	answered, _, err := m.server.Post(ctx, "chat/completions", encoded, maxResponse)
	var status *endpoint.StatusError
	switch {
	case errors.Is(err, endpoint.ErrTooLong):
		return Answer{}, m.Wrong("its response has more than %d bytes", maxResponse)
	case errors.As(err, &status):
		return Answer{}, m.refusal(status)
	case err != nil:
		return Answer{}, m.unreachable(err)
	}
	var completion struct {
		Choices []struct {
			Message      message `json:"message"`
			FinishReason string  `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Tokens int `json:"total_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(answered, &completion) != nil || len(completion.Choices) != 1 {
		return Answer{}, m.Wrong("its response is no chat completion with one choice")
	}
	choice := completion.Choices[0]
	if choice.Message.Refusal != "" {
		return Answer{}, m.Wrong("it declined to answer")
	}
	if choice.FinishReason == "length" {
		return Answer{}, m.Wrong("its answer was cut short")
	}
	tokens := completion.Usage.Tokens
	if tokens <= 0 {
		tokens = Tokens(len(encoded) + len(choice.Message.Content))
	}
	return Answer{choice.Message.Content, tokens}, nil
}

// errRefused: the server found fault with the request itself.
var errRefused = errors.New("refused")

// refusal is what an answer other than 200 means.
func (m *Model) refusal(status *endpoint.StatusError) error {
	switch status.Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return errRefused
	case http.StatusRequestEntityTooLarge:
		return m.Wrong("the request is too large for it")
	}
	m.pace.hold(min(status.After, maxHold))
	return m.failed(status.Error())
}

// unreachable says how a request failed, without the transport's words: these may quote what the server sent.
func (m *Model) unreachable(err error) error {
	why := "the connection broke"
	var unresolved *net.DNSError
	var slow net.Error
	switch {
	case errors.Is(err, endpoint.ErrWithdrawn):
		why = "was not asked: a memory changed before its text was sent"
	case errors.As(err, &unresolved):
		why = "its server's name cannot be resolved"
	case errors.As(err, &slow) && slow.Timeout():
		why = "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "its server refuses connections"
	}
	return m.failed(why)
}

// pace keeps requests apart.
type pace struct {
	every time.Duration // between two requests
	mu    sync.Mutex
	next  time.Time // no request before
}

// wait returns when a request may be sent; with queue.ErrPaused if that is not soon, or with ctx's error.
func (p *pace) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		now := time.Now()
		left := p.next.Sub(now)
		if left <= 0 {
			p.next = now.Add(p.every)
		}
		p.mu.Unlock()
		switch {
		case left <= 0:
			return nil
		case left > maxWait:
			return queue.ErrPaused
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(left):
		}
	}
}

// hold keeps requests back for so long.
func (p *pace) hold(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.next) {
		p.next = until
	}
}

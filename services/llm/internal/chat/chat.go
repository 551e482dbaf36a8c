// Package chat asks a chat model behind an OpenAI-compatible server for one JSON object at a time. The process is:
//
//  1. Wait blocks until the rate limit allows a request. If that takes long, it returns queue.ErrPaused.
//  2. Ask sends instructions, data and the JSON schema of the answer. A server that refuses the schema gets the same question
//     without it, then and from then on.
//  3. Object cuts the JSON object out of the answer, for models that write more than the object.
//
// Requests go to the configured server alone. Errors quote neither the question nor the answer.
package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/triskele/triskele/fuser/platform/endpoint"
	"github.com/triskele/triskele/fuser/platform/settings"
	"github.com/triskele/triskele/services/store/queue"
)

const (
	// maxResponse bounds a response in bytes: several times the largest answer that is accepted.
	maxResponse = 1 << 20
	// maxHold bounds one pause that the server asks for.
	maxHold = 10 * time.Minute
	// maxWait bounds the time a question waits for the rate limit. Then its task goes back to the queue.
	maxWait = time.Minute
	// maxTimeout bounds a request. It is shorter than the time that a queue's worker gives an indexer.
	maxTimeout = 90 * time.Second
	// Defaults of a configuration.
	defaultPerMinute = 30
	defaultTimeout   = 30 * time.Second
	// bytesPerToken estimates tokens if the server does not count them.
	bytesPerToken = 4
)

// Config describes a model and its server. A zero PerMinute means 30, and a zero Timeout 30 s.
type Config struct {
	For       string // the user of the model, for messages: "the curator"
	URL       string
	Model     string
	Key       string
	KeyFile   string // a file with the key, used instead of Key if set
	PerMinute int    // requests
	Timeout   time.Duration
}

// Failure is an error with a text of our own, so that logs and the queue can show it. It quotes neither a memory nor the
// server, which may quote its input.
type Failure struct {
	Words    string
	Hopeless bool // a retry would probably fail again
}

func (f *Failure) Error() string { return f.Words }

// Public returns the text that the queue may store.
func (f *Failure) Public() string { return f.Words }

// Is implements errors.Is.
func (f *Failure) Is(target error) bool { return f.Hopeless && target == queue.ErrHopeless }

// Model is a chat model behind a server, https://platform.openai.com/docs/api-reference/chat. It is safe for concurrent use.
type Model struct {
	who     string // Config.For
	name    string
	server  *endpoint.Endpoint
	timeout time.Duration
	limiter rateLimiter
	// plain is set once the server has refused a request with options and accepted the same request without.
	plain atomic.Bool
}

// New checks the configuration. It sends nothing.
func New(config Config) (*Model, error) {
	config.PerMinute, config.Timeout = cmp.Or(config.PerMinute, defaultPerMinute), cmp.Or(config.Timeout, defaultTimeout)
	key, err := settings.Secret(config.KeyFile, config.Key)
	if err != nil {
		return nil, fmt.Errorf("%s's key: %w", config.For, err)
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
	server.URL.Path = cmp.Or(server.URL.Path, "/v1")
	return &Model{
		who: config.For, name: config.Model, server: server, timeout: config.Timeout,
		limiter: rateLimiter{every: time.Minute / time.Duration(config.PerMinute)},
	}, nil
}

// Name returns the server's name for the model.
func (m *Model) Name() string { return m.name }

// Wait returns nil when the rate limit allows a question, queue.ErrPaused if it will not soon, or ctx's error.
func (m *Model) Wait(ctx context.Context) error { return m.limiter.wait(ctx) }

// failed returns a failure that may be temporary.
func (m *Model) failed(words string) error { return &Failure{Words: m.who + "'s model: " + words} }

// Wrong returns a hopeless failure, for an answer that the same question would probably get again.
func (m *Model) Wrong(format string, args ...any) error {
	return &Failure{m.who + "'s model: " + fmt.Sprintf(format, args...), true}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Refusal string `json:"refusal,omitempty"` // instead of content
}

// request is the body of a chat completion. Some servers do not support the options that may be left out.
type request struct {
	Model          string         `json:"model"`
	Messages       []message      `json:"messages"`
	Temperature    *float64       `json:"temperature,omitempty"`
	ResponseFormat map[string]any `json:"response_format,omitempty"`
}

// Question has instructions, data, and the JSON schema of the answer for servers that support schemas.
type Question struct {
	Instructions string
	Data         any    // is sent as JSON
	Name         string // of the schema
	Schema       map[string]any
}

// Answer is the model's answer, unchanged, and its cost.
type Answer struct {
	Text   string
	Tokens int // of question and answer; estimated by their length if the server does not count
}

// Ask sends a question. Call Wait first. If the server refuses the schema, Ask waits again and sends the question without it. After an
// error, the answer has the tokens of the question, which the server may have read.
func (m *Model) Ask(ctx context.Context, q Question) (Answer, error) {
	var data strings.Builder
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // models read <, > and & as they are
	if err := encoder.Encode(q.Data); err != nil {
		return Answer{}, err
	}
	plain := request{Model: m.name, Messages: []message{{Role: "system", Content: q.Instructions}, {Role: "user", Content: data.String()}}}
	unanswered := Answer{Tokens: (len(q.Instructions) + data.Len()) / bytesPerToken}
	req := plain
	if !m.plain.Load() {
		req.Temperature = new(float64)
		req.ResponseFormat = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": q.Name, "strict": true, "schema": q.Schema}}
	}
	said, err := m.complete(ctx, req)
	if errors.Is(err, errRefused) && !m.plain.Load() {
		if err := m.limiter.wait(ctx); err != nil {
			return unanswered, err
		}
		if said, err = m.complete(ctx, plain); err == nil {
			m.plain.Store(true)
		}
	}
	if errors.Is(err, errRefused) {
		err = m.Wrong("it refused the request")
	}
	if err != nil {
		return unanswered, err
	}
	return said, nil
}

// ObjectSchema returns the JSON schema of an object that must have these properties and no others.
func ObjectSchema(properties map[string]any) map[string]any {
	return map[string]any{
		"type": "object", "additionalProperties": false, "properties": properties, "required": slices.Sorted(maps.Keys(properties)),
	}
}

// NumberSchema returns the JSON schema of a whole number from first to last.
func NumberSchema(first, last int) map[string]any {
	var numbers []int
	for n := first; n <= last; n++ {
		numbers = append(numbers, n)
	}
	return map[string]any{"type": "integer", "enum": numbers}
}

// mostBraces bounds the places at which Object looks for an object, as it reads the same text again for nested ones.
const mostBraces = 1000

// Object returns the JSON object of an answer. Without a schema, models may write their reasoning first, or put the object
// into a code fence, with text around it. The last of several objects is the answer, unless it follows another one directly.
func Object(text string) string {
	if json.Valid([]byte(text)) {
		return text
	}
	found, rest := text, text
	for range mostBraces {
		start := strings.IndexByte(rest, '{')
		if start < 0 {
			break
		}
		between := rest[:start]
		rest = rest[start:]
		decoder := json.NewDecoder(strings.NewReader(rest))
		var object json.RawMessage
		err := decoder.Decode(&object)
		switch {
		case err == nil && found != text && strings.TrimSpace(between) == "": // two answers
			return text
		case err == nil:
			found, rest = string(object), rest[decoder.InputOffset():]
		case errors.Is(err, io.ErrUnexpectedEOF): // the answer is cut off
			return text
		default:
			rest = rest[1:]
		}
	}
	if strings.Contains(rest, "</think>") { // it was a thought
		return text
	}
	return found
}

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
		return Answer{}, m.Wrong("its response is not a chat completion with one choice")
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
		tokens = (len(encoded) + len(choice.Message.Content)) / bytesPerToken
	}
	return Answer{choice.Message.Content, tokens}, nil
}

// errRefused means that the server does not accept the request itself.
var errRefused = errors.New("refused")

// refusal returns the error for a status other than 200, and delays requests if the server asks for that.
func (m *Model) refusal(status *endpoint.StatusError) error {
	switch status.Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return errRefused
	case http.StatusRequestEntityTooLarge:
		return m.Wrong("the request is too large for it")
	}
	m.limiter.delay(min(status.After, maxHold))
	return m.failed(status.Error())
}

// unreachable returns the error for a failed request. It leaves out the transport's text, which may quote the server.
func (m *Model) unreachable(err error) error {
	why := "the connection broke"
	var unresolved *net.DNSError
	var slow net.Error
	switch {
	case errors.Is(err, endpoint.ErrWithdrawn):
		why = "not asked, because a memory changed before its text was sent"
	case errors.Is(err, endpoint.ErrUnchecked):
		why = "not asked, because " + endpoint.ErrUnchecked.Error()
	case errors.As(err, &unresolved):
		why = "its server's name cannot be resolved"
	case errors.As(err, &slow) && slow.Timeout():
		why = "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "its server refuses connections"
	}
	return m.failed(why)
}

// rateLimiter allows one request per interval. Package rate lacks delay.
type rateLimiter struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time // the earliest time of the next request
}

// wait returns nil when a request may be sent, queue.ErrPaused if that is more than maxWait away, or ctx's error.
func (l *rateLimiter) wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		now := time.Now()
		left := l.next.Sub(now)
		if left <= 0 {
			l.next = now.Add(l.every)
		}
		l.mu.Unlock()
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

// delay allows no request for this long.
func (l *rateLimiter) delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.next) {
		l.next = until
	}
}

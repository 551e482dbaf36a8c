package curator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/triskele/triskele/services/queue"
	"github.com/triskele/triskele/services/record"
)

const (
	// maxResponse bounds what is read of an answer: several times the largest one that is accepted.
	maxResponse = 1 << 20
	// maxHold is the longest that the server may ask to be left alone, in one go.
	maxHold = 10 * time.Minute
	// maxWait is how long a memory waits its turn before it goes back to the queue.
	maxWait = time.Minute
	// maxTimeout bounds a request, so that the queue's worker can have the outcome of it.
	maxTimeout = 90 * time.Second
)

// failure is an error whose words are this package's own, so that logs and the queue can show them: neither the server,
// which may quote its input, nor a memory has a say in them.
type failure struct {
	words    string
	hopeless bool // asking many times more is not worth its price
}

func (f *failure) Error() string { return f.words }

// Public is for the queue.
func (f *failure) Public() string { return f.words }

// Is implements errors.Is.
func (f *failure) Is(target error) bool { return f.hopeless && target == queue.ErrHopeless }

// wrong is a failure about an answer, which the same question would probably get again.
func wrong(format string, args ...any) error {
	return &failure{"the curator's model: " + fmt.Sprintf(format, args...), true}
}

// model is a chat model behind an OpenAI-compatible server, https://platform.openai.com/docs/api-reference/chat.
type model struct {
	name     string
	endpoint string
	key      string
	timeout  time.Duration
	client   *http.Client
	pace     pace
	// plain is set once the server has refused a request for its options and taken the same one without.
	plain atomic.Bool
}

func newModel(config Config) (*model, error) {
	server, err := url.Parse(strings.TrimRight(config.URL, "/"))
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" || server.User != nil || server.RawQuery != "" {
		return nil, errors.New("the curator's server must be a URL like http://127.0.0.1:11434/v1, without user, password or query")
	}
	if server.Path == "" {
		server.Path = "/v1"
	}
	key := config.Key
	if config.KeyFile != "" {
		text, err := os.ReadFile(config.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the curator's key: %w", err)
		}
		key = strings.TrimSpace(string(text))
	}
	switch {
	case config.Model == "":
		return nil, errors.New("the curator's model has no name")
	case key != "" && server.Scheme == "http" && !loopback(server.Hostname()):
		return nil, fmt.Errorf("the curator's key would cross the network to %s unencrypted: use https", server.Host)
	case config.PerMinute < 1 || config.PerMinute > 60_000:
		return nil, fmt.Errorf("the curator may send 1 to 60000 requests a minute, not %d", config.PerMinute)
	case config.MaxInput < 1:
		return nil, fmt.Errorf("the curator may send 1 byte or more, not %d", config.MaxInput)
	case config.Timeout < 0 || config.Timeout > maxTimeout:
		return nil, fmt.Errorf("the curator's timeout must be above 0 and at most %v, not %v", maxTimeout, config.Timeout)
	case config.Similarity < -1 || config.Similarity > 1:
		return nil, fmt.Errorf("the curator's similarity must be from -1 to 1, not %g", config.Similarity)
	}
	return &model{
		name: config.Model, endpoint: server.JoinPath("chat", "completions").String(), key: key, timeout: config.Timeout,
		pace: pace{every: time.Minute / time.Duration(config.PerMinute)},
		client: &http.Client{
			// A redirect would carry texts to a server that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// message is one turn of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
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

// ask asks what to do about r, given the older memories.
func (m *model) ask(ctx context.Context, r record.Record, older []record.Record) (answer, error) {
	text, err := question(r, older)
	if err != nil {
		return answer{}, err
	}
	plain := request{Model: m.name, Messages: []message{{"system", instructions}, {"user", text}}}
	req := plain
	if !m.plain.Load() {
		req.Temperature = new(float64)
		req.ResponseFormat = &responseFormat{Type: "json_schema"}
		req.ResponseFormat.JSONSchema.Name = "decision"
		req.ResponseFormat.JSONSchema.Strict = true
		req.ResponseFormat.JSONSchema.Schema = schema(len(older))
	}
	said, err := m.complete(ctx, req)
	if errors.Is(err, errRefused) && !m.plain.Load() {
		if err := m.pace.wait(ctx); err != nil {
			return answer{}, err
		}
		if said, err = m.complete(ctx, plain); err == nil {
			m.plain.Store(true)
		}
	}
	if err != nil {
		return answer{}, err
	}
	return readAnswer(said, r, older)
}

// complete sends one request and returns what the model said.
func (m *model) complete(ctx context.Context, body request) (string, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint, bytes.NewReader(encoded))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if m.key != "" {
		req.Header.Set("Authorization", "Bearer "+m.key)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return "", unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "", errRefused
	case http.StatusRequestEntityTooLarge:
		return "", wrong("the request is too large for it")
	default:
		m.pace.hold(retryAfter(resp.Header.Get("Retry-After"), time.Now()))
		return "", &failure{words: fmt.Sprintf("the curator's model: HTTP status %d", resp.StatusCode)}
	}
	answered, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return "", unreachable(err)
	}
	if len(answered) > maxResponse {
		return "", wrong("its response has more than %d bytes", maxResponse)
	}
	var completion struct {
		Choices []struct {
			Message      message `json:"message"`
			FinishReason string  `json:"finish_reason"`
		} `json:"choices"`
	}
	if json.Unmarshal(answered, &completion) != nil || len(completion.Choices) != 1 {
		return "", wrong("its response is no chat completion with one choice")
	}
	choice := completion.Choices[0]
	if choice.FinishReason == "length" {
		return "", wrong("its answer was cut short")
	}
	return choice.Message.Content, nil
}

// errRefused: the server found fault with the request itself.
var errRefused = wrong("it refused the request")

// unreachable says how a request failed, without the transport's words: these may quote what the server sent.
func unreachable(err error) error {
	why := "the connection broke"
	var unresolved *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &unresolved):
		why = "its server's name cannot be resolved"
	case errors.As(err, &slow) && slow.Timeout():
		why = "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "its server refuses connections"
	}
	return &failure{words: "the curator's model: " + why}
}

// retryAfter reads the header of this name, in seconds or as a date (RFC 9110, section 10.2.3); 0 if there is none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxHold)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxHold)
	}
	return 0
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

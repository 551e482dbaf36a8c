package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// event is what an agent says when its user has sent a prompt. Agents name things differently: Claude Code, Codex and VS Code have
// UserPromptSubmit, Gemini CLI has BeforeAgent and Cursor beforeSubmitPrompt, all with hook_event_name and prompt; Cline has
// hookName, with the prompt one level down.
type event struct {
	Name             string `json:"hook_event_name"`
	Prompt           string `json:"prompt"`
	HookName         string `json:"hookName"`
	UserPromptSubmit struct {
		Prompt string `json:"prompt"`
	} `json:"userPromptSubmit"`
}

const (
	// mostInput is more than agents send along with a prompt.
	mostInput = 8 << 20
	// halfQuery is how many bytes of a long prompt's beginning, and of its end, are looked for: that is where the question is,
	// and between them what was pasted.
	halfQuery = 1000
)

var (
	errPrompt  = errors.New("the event has no prompt")
	errCommand = errors.New("the prompt is a command to the agent")
)

// read reads one event and no further: agents may leave their end open.
func read(in io.Reader) (event, error) {
	var e event
	if err := json.NewDecoder(io.LimitReader(in, mostInput)).Decode(&e); err != nil {
		return e, fmt.Errorf("the event is no JSON object: %w", err)
	}
	return e, nil
}

// query is what to look for.
func (e event) query() (string, error) {
	text := strings.TrimSpace(e.Prompt)
	if text == "" {
		text = strings.TrimSpace(e.UserPromptSubmit.Prompt)
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, " "), "\x00", " ")
	switch {
	case text == "":
		return "", errPrompt
	case strings.HasPrefix(text, "/") && !strings.Contains(strings.Fields(text)[0][1:], "/"): // not a path
		return "", errCommand
	case len(text) > 2*halfQuery:
		head, tail := halfQuery, len(text)-halfQuery
		for !utf8.RuneStart(text[head]) {
			head--
		}
		for !utf8.RuneStart(text[tail]) {
			tail++
		}
		text = text[:head] + " " + text[tail:]
	}
	return text, nil
}

// answer is context in the form that the agent takes.
func (e event) answer(context string) ([]byte, error) {
	type specific struct {
		Name    string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	}
	var out any
	switch {
	case e.HookName != "":
		out = struct {
			Cancel  bool   `json:"cancel"`
			Context string `json:"contextModification"`
		}{false, context}
	case e.Name == "beforeSubmitPrompt":
		out = struct {
			Continue bool   `json:"continue"`
			Context  string `json:"additional_context"`
		}{true, context}
	case e.Name == "":
		out = map[string]specific{"hookSpecificOutput": {"UserPromptSubmit", context}}
	default:
		out = map[string]specific{"hookSpecificOutput": {e.Name, context}}
	}
	text, err := json.Marshal(out)
	return append(text, '\n'), err
}

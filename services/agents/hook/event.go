package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/triskele/triskele/services/agents/transcript"
)

// event is the JSON that an agent sends. Agents name the event of a prompt differently: UserPromptSubmit in Claude Code, Codex and
// VS Code, BeforeAgent in Gemini CLI, and beforeSubmitPrompt in Cursor. All of these have the fields hook_event_name and prompt. Cline
// has hookName, with the prompt one level down.
type event struct {
	Session
	Name             string `json:"hook_event_name"`
	Source           string `json:"source"` // of a SessionStart: startup, resume, fork, clear or compact
	Prompt           string `json:"prompt"`
	HookName         string `json:"hookName"`
	UserPromptSubmit struct {
		Prompt string `json:"prompt"`
	} `json:"userPromptSubmit"`
}

const (
	// mostInput bounds an event, in bytes. Agents send less.
	mostInput = 8 << 20
	// halfQuery is how many bytes of a long prompt's beginning, and of its end, make the query. The question is usually there,
	// and pasted text lies between.
	halfQuery = 1000
	// halfRead is how much of it is looked at for what somebody said.
	halfRead = 32 << 10
	// leastWords is the length of the shortest text that is looked for behind a command, in bytes. "/model small" asks nothing.
	leastWords = 24
)

// query returns the text to search for: what somebody said in the prompt, or the beginning and the end of that if it is long. Of a command
// to the agent, such as /fix, it is what stands behind the name. Agents also send their own notes as prompts, such as that a task has ended.
func (e event) query() (string, error) {
	text := cmp.Or(e.Prompt, e.UserPromptSubmit.Prompt)
	if len(text) > 2*halfRead {
		text = text[:halfRead] + " " + text[len(text)-halfRead:]
	}
	text = transcript.Said(text)
	if text == "" {
		return "", errors.New("the event has no prompt that somebody said")
	}
	if name, words, _ := strings.Cut(strings.Join(strings.Fields(text), " "), " "); strings.HasPrefix(name, "/") && !strings.Contains(name[1:], "/") { // not a path
		if text = words; len(text) < leastWords {
			return "", errors.New("the prompt is a command to the agent")
		}
	}
	if len(text) > 2*halfQuery {
		text = strings.ToValidUTF8(text[:halfQuery]+" "+text[len(text)-halfQuery:], "")
	}
	return text, nil
}

// answer returns the context in the JSON form that the event's agent expects.
func (e event) answer(context string) ([]byte, error) {
	type specific struct {
		Name    string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	}
	out := map[string]any{}
	switch {
	case e.HookName != "":
		out["cancel"], out["contextModification"] = false, context
	case e.Name == "beforeSubmitPrompt":
		out["continue"], out["additional_context"] = true, context
	default:
		out["hookSpecificOutput"] = specific{cmp.Or(e.Name, "UserPromptSubmit"), context}
	}
	text, err := json.Marshal(out)
	return append(text, '\n'), err
}

// Package transcript reads what people and agents said from the files that agents keep. It imports no service. The process for one
// file is:
//
//  1. Detect tells the format from the first record.
//  2. A format's reader yields each message as a Turn, without tool calls, thoughts, notes of the program and sub-agents.
//  3. Said removes what a program put into a message: reminders, and memories that this project's hook added.
//  4. final keeps of several messages of the agent in a row the last one. Those before it tell what the agent is about to do.
//
// Records that are not understood are skipped: the formats have no specification, and change. Records that cannot be read are a Damage.
package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/triskele/triskele/services/agents/internal/lines"
)

const (
	User  = "user"
	Agent = "agent"
)

// Turn is something that a person or an agent said.
type Turn struct {
	ID     string // unique in the thread, and the same at each reading
	Thread string // id of the conversation
	Title  string // of the conversation, may be empty
	Role   string
	Text   string
	At     time.Time // zero if it is unknown
	Folder string    // working directory of the agent, may be empty
}

// Format is the format of a file.
type Format string

// The formats. The first three are written by agents on this machine while they work, the others are exports of web pages.
const (
	ClaudeCode Format = "claude-code"
	Codex      Format = "codex"
	Gemini     Format = "gemini"
	ChatGPT    Format = "chatgpt"
	Claude     Format = "claude"
)

// mostRecord bounds a record, in bytes: a prompt with several pictures has less. Delta reads as much at a time.
const mostRecord = 16 << 20

// Damage says that a part of a file cannot be read. It is no error of the parts behind it.
type Damage struct {
	Place  string // a line or a conversation
	Reason string
}

func (d *Damage) Error() string { return d.Place + ": " + d.Reason }

// Sessions opens another session of the same agent, by its id. A session may begin with a copy of another one, whose messages have the
// ids that they have there. Nil opens none.
type Sessions func(id string) (io.ReadCloser, error)

func (s Sessions) open(id string) (io.ReadCloser, error) {
	if s == nil || !sessionID.MatchString(id) {
		return nil, fs.ErrNotExist
	}
	return s(id)
}

// beside opens the sessions around one: Claude Code has those of a project in a folder, Codex those of a day.
func beside(format Format, path string) Sessions {
	return func(id string) (io.ReadCloser, error) {
		pattern := filepath.Join(filepath.Dir(path), id+".jsonl")
		if format == Codex {
			pattern = filepath.Join(filepath.Dir(path), "../../../*/*/*", "rollout-*"+id+".jsonl")
		}
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			return nil, fs.ErrNotExist
		}
		return os.Open(found[0])
	}
}

// Detect returns the format of an agent's transcript.
func Detect(file io.Reader) (Format, error) {
	in := bufio.NewReader(file)
	for n := range 1000 { // a session that goes on begins with summaries of others
		line, _, err := record(in)
		var first struct {
			Type        string
			SessionID   string          `json:"sessionId"`
			LeafUUID    string          `json:"leafUuid"`
			ProjectHash string          `json:"projectHash"`
			Payload     json.RawMessage `json:"payload"`
		}
		switch unmarshal := json.Unmarshal(line, &first); {
		case unmarshal == nil && first.ProjectHash != "":
			return Gemini, nil
		case unmarshal == nil && first.Payload != nil:
			return Codex, nil
		case unmarshal == nil && first.Type != "" && (first.SessionID != "" || first.LeafUUID != "" || first.Type == "file-history-snapshot"):
			return ClaudeCode, nil
		case n == 0 && bytes.Contains(line, []byte("{")) && unmarshal != nil: // one object over many lines, or damage
			rest, _ := io.ReadAll(io.LimitReader(in, mostRecord))
			if json.Unmarshal(slices.Concat(line, rest), &first) == nil && first.ProjectHash != "" {
				return Gemini, nil
			}
			in = bufio.NewReader(bytes.NewReader(rest))
		}
		if err != nil {
			break
		}
	}
	return "", errors.New("this is no transcript of Claude Code, Codex or Gemini CLI")
}

// Delta reads an agent's transcript from a position on, or a part of it if that is long. It returns the position to go on from: the end
// of the last complete record. A file that is shorter than the position is read from its start. The same position means that there is
// no more.
func Delta(path string, from int64) (turns []Turn, next int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, from, err
	}
	defer func() { _ = file.Close() }()
	format, err := Detect(file)
	if err != nil {
		return nil, from, fmt.Errorf("%s: %w", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, from, err
	}
	if info.Size() < from {
		from = 0
	}
	whole := io.NewSectionReader(file, 0, info.Size())
	head, _, _ := record(bufio.NewReader(whole))
	if format == Gemini && isObject(head) { // it is written anew as a whole: the position counts its turns
		_, _ = whole.Seek(0, io.SeekStart)
		return ofObject(whole, from)
	}
	var sessions Sessions
	if from == 0 || format == ClaudeCode { // Codex has what it copies at the beginning
		sessions = beside(format, path)
	}
	r := newReader(format, sessions)
	if from > 0 {
		r.message(head, 0) // it says what session all others are of
	}
	text := make([]byte, min(info.Size()-from, mostRecord))
	if _, err := file.ReadAt(text, from); err != nil {
		return nil, from, err
	}
	if end := bytes.LastIndexByte(text, '\n') + 1; end > 0 || len(text) < mostRecord {
		text = text[:end]
	} // else it is the middle of a record that is too long, and not understood
	turns, err = collect(final(r.lines(bytes.NewReader(text), from)))
	return turns, from + int64(len(text)), err
}

// ofObject returns the turns of a session in one object, from one of them on, and their number.
func ofObject(in io.Reader, from int64) ([]Turn, int64, error) {
	all, err := collect(geminiObject(in))
	if err != nil {
		return nil, from, err
	}
	if from > int64(len(all)) {
		from = 0
	}
	turns, err := collect(final(func(yield func(Turn, error) bool) {
		for _, turn := range all[from:] {
			if !yield(turn, nil) {
				return
			}
		}
	}))
	return turns, int64(len(all)), err
}

// isObject reports whether a session whose first line is head is one object, and not a record a line.
func isObject(head []byte) bool {
	var object struct{ Messages json.RawMessage }
	return json.Unmarshal(head, &object) != nil || object.Messages != nil
}

func collect(turns iter.Seq2[Turn, error]) (out []Turn, err error) {
	for turn, err := range turns {
		if _, damaged := errors.AsType[*Damage](err); damaged {
			continue
		}
		if err != nil {
			return out, err
		}
		out = append(out, turn)
	}
	return out, nil
}

// Read reads a whole file. An error ends it if it is no Damage. The last line of a session may be incomplete, because the agent is
// writing it.
func Read(format Format, in io.Reader, sessions Sessions) iter.Seq2[Turn, error] {
	switch format {
	case ChatGPT:
		return final(conversations(in, chatGPT, "it is no conversation of ChatGPT; exports of claude.ai are read with --from claude"))
	case Claude:
		return final(conversations(in, claudeWeb, "it is no conversation of claude.ai; exports of ChatGPT are read with --from chatgpt"))
	case Gemini:
		buffered := bufio.NewReader(in)
		head, _, _ := record(buffered)
		in = io.MultiReader(bytes.NewReader(head), buffered)
		if isObject(head) {
			return final(geminiObject(in))
		}
	}
	return final(newReader(format, sessions).lines(in, 0))
}

// reader reads a file with a record a line.
type reader struct {
	message  func(line []byte, at int64) (Turn, bool)
	repeated bool // a message may be written again: when it changes, or by a branch
}

func newReader(format Format, sessions Sessions) *reader {
	r := &reader{}
	switch format {
	case Codex:
		r.message = (&codex{sessions: sessions}).message
	case Gemini:
		r.message, r.repeated = (&gemini{}).message, true
	default:
		r.message, r.repeated = (&claude{sessions, map[string]map[string]origin{}}).message, true
	}
	return r
}

func (r *reader) lines(in io.Reader, at int64) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		buffered := bufio.NewReaderSize(in, 1<<16)
		seen, last := map[string]bool{}, ""
		for n := 1; ; n++ {
			line, length, err := record(buffered)
			damage := ""
			switch {
			case length > mostRecord:
				damage = fmt.Sprintf("it has more than %d bytes", mostRecord)
			case err == nil && len(bytes.TrimSpace(line)) > 0 && !json.Valid(line):
				damage = "it is not JSON"
			}
			if damage != "" && !yield(Turn{}, &Damage{fmt.Sprint("line ", n), damage}) {
				return
			}
			turn, ok := r.message(line, at)
			again := seen[turn.ID] && (turn.ID != last || turn.Role != Agent) // an answer is written as it grows
			if turn.Text = Said(turn.Text); ok && turn.Text != "" && !again {
				seen[turn.ID], last = r.repeated, turn.ID
				if !yield(turn, nil) {
					return
				}
			}
			at += length
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Turn{}, err)
				return
			}
		}
	}
}

var byteOrderMark = []byte("\ufeff")

// record reads a line and its length with the line end. The line is nil if it is longer than mostRecord, and without a byte order mark.
func record(in *bufio.Reader) (line []byte, length int64, err error) {
	line, length, err = lines.Read(in, mostRecord)
	return bytes.TrimPrefix(line, byteOrderMark), length, err
}

// final keeps of several messages of an agent in a row the last one.
func final(turns iter.Seq2[Turn, error]) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		var last *Turn // of the agent
		for turn, err := range turns {
			if err != nil {
				if !yield(turn, err) {
					return
				}
				continue
			}
			if last != nil && (turn.Role != Agent || turn.Thread != last.Thread) && !yield(*last, nil) {
				return
			}
			last = nil
			if turn.Role == Agent {
				last = &turn
			} else if !yield(turn, nil) {
				return
			}
		}
		if last != nil {
			yield(*last, nil)
		}
	}
}

var (
	// inserted is what programs put into messages, with what is between the tags.
	inserted = between("system-reminder", "environment_context", "user_instructions", "permissions instructions", "collaboration_mode", "INSTRUCTIONS", "memories",
		"ide_selection", "ide_opened_file", "ide_diagnostics", "hook_context")
	// extra is what Codex's editors put before a request and around pictures, what Claude Code puts around pasted text, how ChatGPT cites, and
	// the files that Gemini CLI reads.
	extra = regexp.MustCompile(`(?s)^# (?:Context from my IDE setup|Files mentioned by the user|Review findings|Selected text):\n.*?\n## My request(?: for Codex)?:\n|<image name=\[Image #\d+\][^>]*>\s*</image>|</?pasted_content id="[0-9a-f]+">\n?|\x{e200}(?:file)?cite\x{e202}[^\x{e201}]*\x{e201}|--- Content from referenced files ---\n.*?\n--- End of content ---`)
	// arguments are what the user says to a command of the agent's, such as /fix.
	arguments = regexp.MustCompile(`(?s)^<command-.*<command-args>(.*)</command-args>`)
	// notes are the beginnings of messages that nobody said.
	notes = regexp.MustCompile(`^(<(command-|local-command|bash-|task-notification|teammate-message|agent-message|cross-session-message|turn_aborted|skill>|user_shell_command|subagent_notification|codex_internal_context|goal_context|hook_prompt|recommended_plugins|app-context|user_action)|Warning: (?:apply_patch was requested via |The maximum number of unified exec processes )|Another Claude session sent a message:|\[Request interrupted|Caveat: The messages below|# AGENTS\.md instructions|This session is being continued from)`)
)

func between(tags ...string) *regexp.Regexp {
	for i, tag := range tags {
		tags[i] = "<" + tag + ">.*?</" + tag + ">"
	}
	return regexp.MustCompile("(?s)" + strings.Join(tags, "|"))
}

// Said returns the part of a message that somebody said, or "".
func Said(text string) string {
	text = strings.TrimSpace(inserted.ReplaceAllString(strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", ""), ""))
	if notes.MatchString(text) {
		if words := arguments.FindStringSubmatch(text); words != nil {
			return strings.TrimSpace(words[1])
		}
		return ""
	}
	return strings.TrimSpace(extra.ReplaceAllString(text, ""))
}

// reply matches what Claude Code keeps as the result of a tool, and the user has said: answers to the agent's questions, and why a tool
// is refused.
var reply = regexp.MustCompile(`(?s)^(?:(?:User has answered your questions|Your questions have been answered|The user answered): (.*)\. (?:You can now continue|Read the answers carefully)|The user doesn't want to .*? the user said:\n(?:The user wants to clarify these questions|(.*?)(?:\n\nNote: The user's next message|$)))`)

// parts is a text, or a list of parts of which some are texts.
type parts string

// UnmarshalJSON implements json.Unmarshaler. Parts that are no texts are left out.
func (p *parts) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*p = parts(text)
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	var texts []string
	for _, one := range list {
		var text *string
		var part struct {
			Type    string
			Text    string
			Content parts
		}
		if json.Unmarshal(one, &text) == nil && text != nil {
			texts = append(texts, *text)
		} else if json.Unmarshal(one, &part) == nil && (part.Type == "" || strings.HasSuffix(part.Type, "text")) && part.Text != "" {
			texts = append(texts, part.Text)
		} else if said := reply.FindStringSubmatch(string(part.Content)); part.Type == "tool_result" && said != nil {
			texts = append(texts, said[1]+said[2])
		}
	}
	*p = parts(strings.Join(texts, "\n\n"))
	return nil
}

// moment parses a time of RFC 3339, or seconds since 1970.
type moment struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. What is no time is the zero time.
func (m *moment) UnmarshalJSON(data []byte) error {
	var text string
	var seconds float64
	if json.Unmarshal(data, &text) == nil {
		m.Time, _ = time.Parse(time.RFC3339Nano, text)
	} else if json.Unmarshal(data, &seconds) == nil && seconds > 0 {
		m.Time = time.UnixMicro(int64(seconds * 1e6)).UTC()
	}
	return nil
}

package transcript_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/agents/transcript"
)

// texts of each format, as the programs write them, with the turns in them: role, folder or title, text.
var texts = map[transcript.Format]struct {
	text  string
	turns []string
}{
	transcript.ClaudeCode: {`{"type":"summary","summary":"Cranes","leafUuid":"x"}
{"type":"file-history-snapshot","messageId":"m","snapshot":{}}
{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/home/harbour","sessionId":"s1","version":"2.1.0","gitBranch":"main","type":"user","message":{"role":"user","content":"When is the crane serviced?<system-reminder>Be brief.</system-reminder>"},"uuid":"u1","timestamp":"2026-03-01T08:30:00.123Z"}
{"parentUuid":"u1","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"assistant","message":{"model":"m","role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I look at the plan."}]},"uuid":"a1","timestamp":"2026-03-01T08:30:01Z"}
{"parentUuid":"a1","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"/plan"}}]},"uuid":"a2","timestamp":"2026-03-01T08:30:02Z"}
{"parentUuid":"a2","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"user","message":{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":"plan: spring"}]},"uuid":"u2","timestamp":"2026-03-01T08:30:03Z"}
{"parentUuid":"u2","isSidechain":true,"cwd":"/home/harbour","sessionId":"s1","type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"from a sub-agent"}]},"uuid":"a3","timestamp":"2026-03-01T08:30:04Z"}
{"parentUuid":"u2","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"In spring."}]},"uuid":"a4","timestamp":"2026-03-01T08:30:05Z"}
{"parentUuid":"a4","isSidechain":false,"isMeta":true,"cwd":"/home/harbour","sessionId":"s1","type":"user","message":{"role":"user","content":"meta"},"uuid":"u3","timestamp":"2026-03-01T08:31:00Z"}
{"parentUuid":"a4","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"user","message":{"role":"user","content":"<command-name>/clear</command-name>"},"uuid":"u4","timestamp":"2026-03-01T08:31:00Z"}
not JSON
{"parentUuid":"a4","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"user","message":{"role":"user","content":[{"type":"text","text":"And the pier?"},{"type":"image","source":{}}]},"uuid":"u5","timestamp":"2026-03-01T08:32:00Z"}
{"parentUuid":"u5","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"assistant","message":{"model":"m","role":"assistant","content":[{"type":"text","text":"In autumn."}]},"uuid":"a5","timestamp":"2026-03-01T08:32:05Z"}
{"parentUuid":"a5","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"assistant","isApiErrorMessage":true,"message":{"model":"<synthetic>","role":"assistant","content":[{"type":"text","text":"API Error: 529 Overloaded"}]},"uuid":"a6","timestamp":"2026-03-01T08:32:06Z"}
{"parentUuid":"a6","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"attachment","attachment":{"type":"queued_command","prompt":"a task has ended","commandMode":"task-notification"},"uuid":"q1","timestamp":"2026-03-01T08:33:00Z"}
{"parentUuid":"q1","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"attachment","attachment":{"type":"queued_command","prompt":"from another session","commandMode":"prompt","isMeta":true},"uuid":"q2","timestamp":"2026-03-01T08:33:00Z"}
{"parentUuid":"q2","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"user","origin":{"kind":"peer"},"message":{"role":"user","content":"Another Claude session sent a message: the pier is closed."},"uuid":"p1","timestamp":"2026-03-01T08:33:00Z"}
{"parentUuid":"q2","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"user","message":{"role":"user","content":"<teammate-message teammate_id=\"lead\">Look at the pier.</teammate-message>"},"uuid":"p2","timestamp":"2026-03-01T08:33:00Z"}
{"parentUuid":"q2","isSidechain":false,"cwd":"/home/harbour","sessionId":"s1","type":"attachment","origin":{"kind":"human"},"attachment":{"type":"queued_command","prompt":[{"type":"text","text":"And the lighthouse?"}],"commandMode":"prompt"},"uuid":"q3","timestamp":"2026-03-01T08:33:01Z"}
`, []string{"s1/u1 user /home/harbour 08:30:00 When is the crane serviced?", "s1/a4 agent /home/harbour 08:30:05 In spring.", "s1/u5 user /home/harbour 08:32:00 And the pier?", "s1/a5 agent /home/harbour 08:32:05 In autumn.",
		"s1/q3 user /home/harbour 08:33:01 And the lighthouse?"}},
	transcript.Codex: {`{"timestamp":"2026-03-01T08:30:00Z","type":"session_meta","payload":{"id":"s2","cwd":"/home/harbour","originator":"codex_cli_rs","source":"cli","cli_version":"0.149.0"}}
{"timestamp":"2026-03-01T08:30:00Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"be good"}]}}
{"timestamp":"2026-03-01T08:30:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n<cwd>/home/harbour</cwd>\n</environment_context>"}]}}
{"timestamp":"2026-03-01T08:30:01Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"When is the crane serviced?"}]}}
{"timestamp":"2026-03-01T08:30:01Z","type":"event_msg","payload":{"type":"user_message","message":"When is the crane serviced?"}}
{"timestamp":"2026-03-01T08:30:02Z","type":"response_item","payload":{"type":"reasoning","summary":[],"encrypted_content":"x"}}
{"timestamp":"2026-03-01T08:30:03Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}}
{"timestamp":"2026-03-01T08:30:05Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"In spring."}],"phase":"final_answer"}}
`, []string{"s2/547 user /home/harbour 08:30:01 When is the crane serviced?", "s2/1120 agent /home/harbour 08:30:05 In spring."}},
	transcript.Gemini: {`{"sessionId":"s3","projectHash":"abc","startTime":"2026-03-01T08:30:00Z","lastUpdated":"2026-03-01T08:30:00Z","kind":"main"}
{"id":"m1","timestamp":"2026-03-01T08:30:01Z","type":"user","content":[{"text":"When is the crane serviced?"}]}
{"$set":{"lastUpdated":"2026-03-01T08:30:01Z"}}
{"id":"m2","timestamp":"2026-03-01T08:30:02Z","type":"info","content":"an update is there"}
{"id":"m3","timestamp":"2026-03-01T08:30:05Z","type":"gemini","content":"In spring.","model":"g"}
{"id":"m3","timestamp":"2026-03-01T08:30:05Z","type":"gemini","content":"In spring.","model":"g","tokens":{"input":1}}
`, []string{"s3/m1 user  08:30:01 When is the crane serviced?", "s3/m3 agent  08:30:05 In spring."}},
	transcript.Claude: {`[{"uuid":"c1","name":"Cranes","created_at":"2026-03-01T08:30:00Z","chat_messages":[
 {"uuid":"m1","text":"When is the crane serviced?","content":[{"type":"text","text":"When is the crane serviced?"}],"sender":"human","created_at":"2026-03-01T08:30:00.5Z","attachments":[]},
 {"uuid":"m2","text":"In spring.","sender":"assistant","created_at":"2026-03-01T08:30:05Z"}]},
 {"uuid":"c2","name":"","chat_messages":[]}]`, []string{"c1/m1 user Cranes 08:30:00 When is the crane serviced?", "c1/m2 agent Cranes 08:30:05 In spring."}},
	transcript.ChatGPT: {`[{"title":"Cranes","create_time":1772353800.5,"conversation_id":"g1","current_node":"n4","mapping":{
 "root":{"id":"root","message":null,"parent":null,"children":["n0"]},
 "n0":{"id":"n0","message":{"id":"n0","author":{"role":"system"},"content":{"content_type":"text","parts":[""]},"metadata":{"is_visually_hidden_from_conversation":true}},"parent":"root","children":["n1"]},
 "n1":{"id":"n1","message":{"id":"n1","author":{"role":"user"},"create_time":1772353801.25,"content":{"content_type":"text","parts":["When is the crane serviced?"]},"metadata":{},"recipient":"all"},"parent":"n0","children":["n2","n3"]},
 "n2":{"id":"n2","message":{"id":"n2","author":{"role":"assistant"},"create_time":1772353802,"content":{"content_type":"text","parts":["an answer that was thrown away"]},"recipient":"all"},"parent":"n1","children":[]},
 "n3":{"id":"n3","message":{"id":"n3","author":{"role":"assistant"},"create_time":1772353803,"content":{"content_type":"code","text":"search()"},"recipient":"browser"},"parent":"n1","children":["n4"]},
 "n4":{"id":"n4","message":{"id":"n4","author":{"role":"assistant"},"create_time":1772353805,"content":{"content_type":"multimodal_text","parts":[{"content_type":"image_asset_pointer"},"In spring\ue200cite\ue202turn0search1\ue202turn0view2\ue201.\ue200filecite\ue202turn0file0\ue202L8-L13\ue201"]},"recipient":"all"},"parent":"n3","children":[]}}}]`,
		[]string{"g1/n1 user Cranes 08:30:01 When is the crane serviced?", "g1/n4 agent Cranes 08:30:05 In spring."}},
}

// olderGemini is a session of a Gemini CLI that writes one object.
const olderGemini = `{
  "sessionId": "s3",
  "projectHash": "abc",
  "messages": [
    {"id": "m1", "timestamp": "2026-03-01T08:30:01Z", "type": "user", "content": "When is the crane serviced?"},
    {"id": "m3", "timestamp": "2026-03-01T08:30:05Z", "type": "gemini", "content": "In spring."}
  ]
}`

func show(t transcript.Turn) string {
	about := t.Folder + t.Title
	return fmt.Sprintf("%s/%s %s %s %s %s", t.Thread, t.ID, t.Role, about, t.At.UTC().Format("15:04:05"), t.Text)
}

func TestFormats(t *testing.T) {
	t.Parallel()
	check := func(format transcript.Format, text string, want []string) {
		var got []string
		for turn, err := range transcript.Read(format, strings.NewReader(text), nil) {
			if err != nil {
				if format != transcript.ClaudeCode || err.Error() != "line 11: it is not JSON" {
					t.Fatalf("%s: %v", format, err)
				}
				continue
			}
			got = append(got, show(turn))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", format, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for format, x := range texts {
		check(format, x.text, x.turns)
	}
	check(transcript.Gemini, olderGemini, texts[transcript.Gemini].turns)
	for _, current := range []string{"null", `"gone"`} { // then the newest branch is
		check(transcript.ChatGPT, strings.Replace(texts[transcript.ChatGPT].text, `"current_node":"n4"`, `"current_node":`+current, 1), texts[transcript.ChatGPT].turns)
	}
	check(transcript.Codex, strings.Replace(texts[transcript.Codex].text, `"source":"cli"`, `"source":{"subagent":{"thread_spawn":{"parent_thread_id":"s1","depth":1}}}`, 1), nil)
}

func TestOddTranscripts(t *testing.T) {
	t.Parallel()
	claude := func(id, content string) string {
		return `{"type":"user","uuid":"` + id + `","sessionId":"s","message":{"role":"user","content":` + content + "}}\n"
	}
	gemini := `{"sessionId":"s","projectHash":"h"}` + "\n"
	codex := func(texts ...string) (session string) {
		for _, text := range texts {
			session += `{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":` + text + "}]}}\n"
		}
		return session
	}
	for _, x := range []struct {
		about, text, want string
	}{
		{"tags in tags", claude("1", `"<system-reminder>x <memories>y</memories> z</system-reminder>\nHello"`), "Hello"},
		{"tags that do not match", claude("1", `"Why <memories>? And </INSTRUCTIONS> too"`), "Why <memories>? And </INSTRUCTIONS> too"},
		{"what is selected in an editor", claude("1", `"<ide_selection>code</ide_selection>What is this?"`), "What is this?"},
		{"pictures", claude("1", `[{"type":"image","source":{"data":"`+strings.Repeat("A", 3<<20)+`"}},{"type":"image","source":{"data":"`+strings.Repeat("A", 3<<20)+`"}},{"type":"text","text":"Hello"}]`), "Hello"},
		{"a part that is null", claude("1", `["alpha",null,"beta"]`), "alpha\n\nbeta"},
		{"a byte order mark", "\ufeff" + claude("1", `"Hello"`), "Hello"},
		{"summaries of other sessions", strings.Repeat(`{"type":"summary","summary":"x","leafUuid":"y"}`+"\n", 100) + claude("1", `"Hello"`), "Hello"},
		{"an answer that grows", gemini + `{"id":"1","type":"gemini","content":""}` + "\n" + `{"id":"1","type":"gemini","content":"In"}` + "\n" + `{"id":"1","type":"gemini","content":"In spring."}` + "\n", "In spring."},
		{"what a user says to refuse a tool", claude("1", `[{"type":"tool_result","is_error":true,"content":"The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nUse pnpm here.\n\nNote: The user's next message may contain a correction or preference. Pay close attention."}]`), "Use pnpm here."},
		{"answers to an agent's questions", claude("1", `[{"type":"tool_result","content":[{"type":"text","text":"User has answered your questions: \"Which database?\"=\"SQLite\", \"Where?\"=\"Here. Only here.\". You can now continue with the user's answers in mind."}]}]`), `"Which database?"="SQLite", "Where?"="Here. Only here."`},
		{"answers to a newer Claude Code's questions", claude("1", `[{"type":"tool_result","content":"Your questions have been answered: \"Which database?\"=\"SQLite\". You can now continue with these answers in mind."}]`), `"Which database?"="SQLite"`},
		{"answers in the user's own words", claude("1", `[{"type":"tool_result","content":"The user answered: \"Which database?\"=\"SQLite. No server.\". Read the answers carefully — they may request clarification, changes, or that you not proceed — and follow what they actually say."}]`), `"Which database?"="SQLite. No server."`},
		{"what other agents say in the user's place", claude("1", `"Another Claude session sent a message:\n<agent-message from=\"a1\">\nBoth commits are made.\n</agent-message>\n\nThat is no message of your user."`) +
			claude("2", `"<agent-message from=\"a1\">\nBoth commits are made.\n</agent-message>"`) + claude("3", `"<cross-session-message from=\"b\">Build failed on main!</cross-session-message>"`) + claude("4", `"Hello"`), "Hello"},
		{"what Claude Code says to itself to go on", strings.Replace(claude("1", `"Continue from where you left off."`), `"sessionId"`, `"origin":{"kind":"auto-continuation"},"sessionId"`, 1) +
			`{"type":"attachment","uuid":"2","sessionId":"s","attachment":{"type":"queued_command","commandMode":"prompt","origin":{"kind":"auto-continuation"},"prompt":"Continue from where you left off."}}` + "\n" +
			`{"type":"attachment","uuid":"3","sessionId":"s","attachment":{"type":"queued_command","commandMode":"prompt","origin":{"kind":"human"},"prompt":"Hello"}}` + "\n", "Hello"},
		{"pasted text", claude("1", `"Why does this fail?\n\n<pasted_content id=\"9b65\">\nfirst line\n\nsecond line\n</pasted_content id=\"9b65\">\n"`), "Why does this fail?\n\nfirst line\n\nsecond line"},
		{"refusals without a word", claude("1", `[{"type":"tool_result","content":"The user doesn't want to proceed with this tool use. STOP what you are doing and wait for the user to tell you how to proceed."}]`) +
			claude("2", `[{"type":"tool_result","content":"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nThe user wants to clarify these questions.\n    This means they may have more."}]`) + claude("3", `"Hello"`), "Hello"},
		{"what a user says to a command", claude("1", `"<command-message>fix is running…</command-message>\n<command-name>/fix</command-name>\n<command-args>the login form, which takes no umlauts</command-args>"`) +
			claude("2", `"<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args></command-args>"`), "the login form, which takes no umlauts"},
		{"files that an older Gemini CLI reads for the user", gemini + `{"id":"1","type":"user","content":[{"text":"What is in @a.md?"},{"text":"\n--- Content from referenced files ---"},{"text":"\nContent from @a.md:\n"},{"text":"A plan."},{"text":"\n--- End of content ---"}]}` + "\n", "What is in @a.md?"},
		{"what Gemini CLI adds of a hook", gemini + `{"id":"1","type":"user","content":[{"text":"Hello"},{"text":"<hook_context>&lt;memories&gt;\n1. 2026-03-01\n> In spring.\n&lt;/memories&gt;\n</hook_context>"}]}` + "\n", "Hello"},
		{"files that Gemini CLI reads for the user", gemini + `{"id":"1","type":"user","content":[{"text":"What is in @a.md?"},{"text":"\n--- Content from referenced files ---"},{"text":"\nContent from @a.md:\n"},{"text":"A plan."},{"text":"\n--- End of content ---"}],"displayContent":[{"text":"What is in @a.md?"}]}` + "\n", "What is in @a.md?"},
		{"what Codex's editor adds", codex(`"\n# Context from my IDE setup:\n\n## Active file: a.go\n\n## Open tabs:\n- a.go: a.go\n\n## My request for Codex:\nHello\n"`), "Hello"},
		{"pictures in Codex", codex(`"# Files mentioned by the user:\n\n## a.png: /tmp/a.png\n\n## My request:\nHello\n"},{"type":"input_text","text":"<image name=[Image #1] path=\"/tmp/a.png\">"},{"type":"input_image","image_url":"data:"},{"type":"input_text","text":"</image>"`), "Hello"},
		{"a heading like that of Codex's editor", codex(`"## My request:\nHello"`), "## My request:\nHello"},
		{"what Codex says in the user's place", codex(`"<skill>\n<name>review</name>\nRead it all.\n</skill>"`, `"<user_shell_command>\n<command>ls</command>\n</user_shell_command>"`,
			`"<subagent_notification>\n{}\n</subagent_notification>"`, `"<codex_internal_context source=\"goal\">\nGo on.\n</codex_internal_context>"`, `"<hook_prompt hook_run_id=\"1\">Go on.</hook_prompt>"`, `"<recommended_plugins>\n- x\n</recommended_plugins>"`,
			`"<user_action>\n  <context>User initiated a review task. Here's the full review output from reviewer model.</context>\n  <action>review</action>\n</user_action>\n"`,
			`"Warning: apply_patch was requested via exec_command. Use the apply_patch tool instead of exec_command."`,
			`"Warning: The maximum number of unified exec processes you can keep open is 60 and you currently have 61 processes open."`, `"Hello"`), "Hello"},
		{"an object in one line", `{"sessionId":"s","projectHash":"h","messages":[{"id":"1","type":"user","content":"Hello"}]}`, "Hello"},
	} {
		path := filepath.Join(t.TempDir(), "session")
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		turns, _, err := transcript.Delta(path, 0)
		if err != nil || len(turns) != 1 {
			t.Errorf("%s: got %v, %v; want one turn", x.about, turns, err)
			continue
		}
		if turns[0].Text != x.want {
			t.Errorf("%s: got %q, want %q", x.about, turns[0].Text, x.want)
		}
	}
}

// A value of an odd type costs itself, and no later conversation. A byte order mark is skipped, and a huge conversation not read.
func TestOddExports(t *testing.T) {
	t.Parallel()
	claude := func(id, name string) string {
		return `{"uuid":"` + id + `","name":` + name + `,"chat_messages":[{"uuid":"1","sender":"human","text":"Hello"}]}`
	}
	gpt := func(id, hidden string) string {
		return `{"id":"` + id + `","current_node":"n","mapping":{"n":{"message":{"id":"1","author":{"role":"user"},"content":{"content_type":"text","parts":["Hello"]},"metadata":{"is_visually_hidden_from_conversation":` + hidden + `}}}}}`
	}
	for _, x := range []struct {
		format     transcript.Format
		text, want string
		failure    string
	}{
		{transcript.Claude, "[" + claude("a", `"x"`) + "," + claude("b", `{"x":1}`) + ",5," + claude("c", "null") + "]", "abc", "conversation 3: it is no conversation of claude.ai; exports of ChatGPT are read with --from chatgpt"},
		{transcript.ChatGPT, "[" + gpt("a", "false") + "," + gpt("b", `"true"`) + "," + gpt("c", `{}`) + "," + gpt("d", `null`) + "]", "acd", ""},
		{transcript.ChatGPT, "\ufeff[" + gpt("a", "false") + "]", "a", ""},
		{transcript.ChatGPT, "[" + claude("a", `"x"`) + "]", "", "conversation 1: it is no conversation of ChatGPT; exports of claude.ai are read with --from claude"},
		{transcript.Claude, "[" + claude("a", `"x"`), "a", "the list of conversations has no end"},
		{transcript.ChatGPT, `{"conversations":[]}`, "", "this is no list of conversations"},
		{transcript.ChatGPT, "[" + gpt("a", "false") + "," + gpt("b", "false")[:40], "a", "unexpected EOF"},
		{transcript.Claude, "[" + claude("a", `"x"`) + "," + claude("b", `"`+strings.Repeat("a", 65<<20)+`"`) + "]", "a", "a conversation has more than 67108864 bytes"},
	} {
		var got, failure string
		for turn, err := range transcript.Read(x.format, strings.NewReader(x.text), nil) {
			if got += turn.Thread; err != nil {
				failure = err.Error()
			}
		}
		if got != x.want {
			t.Errorf("%s %.60s: got %q, want %q", x.format, x.text, got, x.want)
		}
		if failure != x.failure {
			t.Errorf("%s %.60s: got error %q, want %q", x.format, x.text, failure, x.failure)
		}
	}
}

// Lines that cannot be read are named, and those around them are read. The last line is no damage while an agent writes it.
func TestDamage(t *testing.T) {
	t.Parallel()
	text := texts[transcript.Codex].text
	first, rest, _ := strings.Cut(text, "\n")
	long := `{"type":"x","payload":"` + strings.Repeat("a", 17<<20) + `"}`
	text = "{damaged\n" + first + "\n\n" + rest + long + "\n" + `{"type":"response_it`
	var got []string
	for turn, err := range transcript.Read(transcript.Codex, strings.NewReader(text), nil) {
		if err != nil {
			got = append(got, err.Error())
		} else {
			got = append(got, turn.Text)
		}
	}
	want := []string{"line 1: it is not JSON", "When is the crane serviced?", "line 11: it has more than 16777216 bytes", "In spring."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if format, err := transcript.Detect(strings.NewReader(text)); format != transcript.Codex || err != nil {
		t.Errorf("got the format %q, %v", format, err)
	}
}

// A file that grows is read in parts, at any place where a part ends, with each turn once. Only what an agent says last in a part can
// be more than in the whole: it may go on in the next part.
func TestDeltas(t *testing.T) {
	t.Parallel()
	for _, format := range []transcript.Format{transcript.ClaudeCode, transcript.Codex, transcript.Gemini} {
		x := texts[format]
		for cut := 1; cut < len(x.text); cut += 41 {
			path := filepath.Join(t.TempDir(), "session.jsonl")
			var got []string
			from := int64(0)
			for _, text := range []string{x.text[:cut], x.text, x.text} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				turns, next, err := transcript.Delta(path, from)
				if err != nil && text == x.text {
					t.Fatalf("%s: %v", format, err)
				}
				if from = next; err != nil {
					from = 0
				}
				for _, turn := range turns {
					if one := show(turn); !strings.Contains(one, "I look at the plan") && !slices.Contains(got, one) {
						got = append(got, one)
					}
				}
			}
			if !slices.Equal(got, x.turns) || from != int64(len(x.text)) {
				t.Errorf("%s cut at %d: got\n%s\nwant\n%s\nposition %d, want %d", format, cut, strings.Join(got, "\n"), strings.Join(x.turns, "\n"), from, len(x.text))
			}
		}
	}
	path := filepath.Join(t.TempDir(), "session.json")
	if err := os.WriteFile(path, []byte(olderGemini), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []int64{0, 1, 2, 9} {
		want := map[int64]int{0: 2, 1: 1, 2: 0, 9: 2}[from]
		if turns, next, err := transcript.Delta(path, from); len(turns) != want || next != 2 || err != nil {
			t.Errorf("one object from %d on: got %v, %d, %v; want %d turns and the position 2", from, turns, next, err, want)
		}
	}
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := transcript.Delta(path, 0); err == nil || !strings.Contains(err.Error(), "no transcript") {
		t.Errorf("another file: %v", err)
	}
}

// A long file is read in parts, of which only the first has the record that names the session, and one is within a record.
func TestLongDeltas(t *testing.T) {
	t.Parallel()
	for _, format := range []transcript.Format{transcript.Codex, transcript.Gemini} {
		head, rest, _ := strings.Cut(texts[format].text, "\n")
		long := strings.Repeat(`{"type":"x","payload":"`+strings.Repeat("a", 1<<20)+"\"}\n", 17)
		path := filepath.Join(t.TempDir(), "session.jsonl")
		huge := `{"type":"x","payload":"` + strings.Repeat("a", 40<<20) + "\"}\n"
		if err := os.WriteFile(path, []byte(head+"\n"+rest+long+huge+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		var turns []transcript.Turn
		for from, more := int64(0), true; more; {
			part, next, err := transcript.Delta(path, from)
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			turns = append(turns, part...)
			from, more = next, next != from
		}
		if len(turns) != 4 {
			t.Fatalf("%s: got %v; want 4 turns", format, turns)
		}
		for _, turn := range turns {
			if want, _, _ := strings.Cut(texts[format].turns[0], "/"); turn.Thread != want {
				t.Errorf("%s: %q is of the thread %q, want %q", format, turn.Text, turn.Thread, want)
			}
		}
	}
}

// What a session has copied of others are the messages of these, also of a copy of a copy, whether sessions are read by an import or one by one.
func TestCopies(t *testing.T) {
	t.Parallel()
	claude := func(session, id, from, text string) string {
		if from != "" {
			of, original, _ := strings.Cut(from, "/")
			from = fmt.Sprintf(`"forkedFrom":{"sessionId":%q,"messageUuid":%q},`, of, original)
		}
		return fmt.Sprintf(`{"type":"user","sessionId":%q,"uuid":%q,%s"message":{"content":%q}}`+"\n", session, id, from, text)
	}
	codex := func(session, from string, texts ...string) string {
		all := fmt.Sprintf(`{"timestamp":"2026-03-01T08:00:00Z","type":"session_meta","payload":{"id":%q,"forked_from_id":%q}}`+"\n", session, from)
		for i, text := range texts {
			role := []string{"user", "assistant"}[i%2]
			all += fmt.Sprintf(`{"timestamp":"2026-03-01T08:00:0%dZ","type":"response_item","payload":{"type":"message","role":%q,"content":[{"type":"input_text","text":%q}]}}`+"\n", i, role, text)
		}
		return all
	}
	for _, x := range []struct {
		format transcript.Format
		files  map[string]string
		want   string // the turns that have different ids
	}{
		{transcript.ClaudeCode, map[string]string{
			"c.jsonl": claude("c", "1", "b/1", "Alpha") + claude("c", "9", "b/2", "Beta") + claude("c", "3", "", "Gamma") + claude("c", "3", "", "Gamma"), // some versions write a copy twice
			"b.jsonl": claude("b", "1", "a/1", "Alpha") + claude("b", "2", "", "Beta"),
			"a.jsonl": claude("a", "1", "", "Alpha"),
			"x.jsonl": claude("x", "1", "x/1", "Loop") + claude("x", "2", "../a/1", "Else"),
		}, "../a/1 Else, a/1 Alpha, b/2 Beta, c/3 Gamma, x/1 Loop"},
		{transcript.Codex, map[string]string{
			"2026/03/01/rollout-1-a.jsonl": codex("a", "", "Alpha", "Answer", "More", "Rest"),
			"2026/03/02/rollout-2-b.jsonl": codex("b", "a", "Alpha", "Answer", "Beta", "To beta"),
			"2026/03/02/rollout-3-c.jsonl": codex("c", "b", "Alpha", "Answer", "Beta", "To beta", "Alpha"),
			"2026/03/02/rollout-4-d.jsonl": codex("d", "d", "Alpha"),
			"2026/03/02/rollout-5-e.jsonl": codex("e", "gone", "Alpha"),
		}, "a/100 Alpha, a/252 Answer, a/410 More, a/561 Rest, b/411 Beta, b/562 To beta, c/721 Alpha, d/101 Alpha, e/104 Alpha"},
	} {
		folder := t.TempDir()
		open := func(id string) (io.ReadCloser, error) {
			for name, text := range x.files {
				if strings.HasSuffix(name, id+".jsonl") {
					return io.NopCloser(strings.NewReader(text)), nil
				}
			}
			return nil, os.ErrNotExist
		}
		apart, whole := map[string]bool{}, map[string]bool{}
		for name, text := range x.files {
			path := filepath.Join(folder, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			for turn, err := range transcript.Read(x.format, strings.NewReader(text), open) {
				if err != nil {
					t.Fatal(err)
				}
				whole[turn.Thread+"/"+turn.ID+" "+turn.Text] = true
			}
		}
		for name := range x.files {
			turns, _, err := transcript.Delta(filepath.Join(folder, name), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, turn := range turns {
				apart[turn.Thread+"/"+turn.ID+" "+turn.Text] = true
			}
		}
		for _, found := range []map[string]bool{whole, apart} {
			if got := strings.Join(slices.Sorted(maps.Keys(found)), ", "); got != x.want {
				t.Errorf("%s: got %s\nwant %s", x.format, got, x.want)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for format, x := range texts {
		f.Add(string(format), x.text)
	}
	f.Fuzz(func(t *testing.T, format, text string) {
		for turn, err := range transcript.Read(transcript.Format(format), strings.NewReader(text), nil) {
			if err == nil && (turn.Text == "" || (turn.Role != transcript.User && turn.Role != transcript.Agent)) {
				t.Errorf("got %+v", turn)
			}
		}
	})
}

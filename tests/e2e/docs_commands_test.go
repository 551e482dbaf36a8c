package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"mvdan.cc/sh/v3/syntax"

	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/tests/docs"
)

// The documentation's commands are in blocks fenced as sh. A block runs as it stands, in the order of its page, unless its first
// line says "# Needs" something that a test lacks; then it is only checked that what it calls exists. A block that says "keeps
// running" holds servers, which serve the rest of the page.
var (
	needs   = regexp.MustCompile(`^# Needs \S+`)
	command = regexp.MustCompile(`(?m)^(\$ )?(bin/)?(triskele|memoryd|lexicald|densed|graphd|fuserd|make) `)
	// written is the name of a page that a program wrote, and that says by which command.
	written = regexp.MustCompile(`^docs/(bench|eval|evidence|embedder)/|^docs/(faults|start-transcript)\.md$`)
	// dire is the name of a page for a machine in trouble, or with servers that a test starts elsewhere: none of its commands runs here.
	dire  = regexp.MustCompile(`^docs/(runbooks|capacity|postgres)\.md$`)
	local = regexp.MustCompile(`127\.0\.0\.1:74[0-9]{2}`)
)

func runs(b docs.Block) bool  { return b.Language == "sh" && !needs.MatchString(b.Text) }
func stays(b docs.Block) bool { return strings.Contains(b.Text, "keeps running") }

// TestDocsRun runs every command of the documentation, each page in a folder and with a database of its own.
func TestDocsRun(t *testing.T) {
	t.Parallel()
	for name, p := range readPages(t) {
		var blocks []docs.Block
		for _, b := range p.Blocks {
			if runs(b) {
				blocks = append(blocks, b)
			}
		}
		if len(blocks) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReader(t)
			r.prepare(blocks)
			for _, b := range blocks {
				if stays(b) {
					r.serve(b)
				} else if out, err := r.shell(b.Text).CombinedOutput(); err != nil {
					t.Fatalf("%s:%d: %v\n%s", name, b.Line, err, out)
				}
			}
		})
	}
}

// reader is someone who follows a page on a machine of his own.
type reader struct {
	t         *testing.T
	dir       string
	env       []string
	addresses map[string]string // by the one that the page names
	servers   map[string]func() // ends them, by the address that they listen on
}

func newReader(t *testing.T) *reader {
	r := &reader{t: t, dir: t.TempDir(), addresses: map[string]string{}, servers: map[string]func(){}}
	docs, err := filepath.Abs(filepath.Join(repository, "docs"))
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"bin": programs, "docs": docs} {
		if err := os.Symlink(target, filepath.Join(r.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	gateway := r.address("127.0.0.1:7400")
	r.env = append(os.Environ(), "HOME="+r.dir, "XDG_DATA_HOME=", "XDG_STATE_HOME=", "XDG_CONFIG_HOME=",
		"PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"), "TRISKELE_LISTEN="+gateway, "TRISKELE_ADDRESS="+gateway)
	return r
}

// prepare gives the page what it takes for granted: a database behind $URL and a gateway, which a server of its own may replace.
func (r *reader) prepare(blocks []docs.Block) {
	if slices.ContainsFunc(blocks, func(b docs.Block) bool { return strings.Contains(b.Text, "$URL") }) {
		r.env = append(r.env, "URL="+pgtest.New(r.t))
	}
	r.serve(docs.Block{Text: "triskele up --listen 127.0.0.1:7400 --admin 127.0.0.1:7410"})
}

// address returns one that nobody listens on, the same for the same name.
func (r *reader) address(named string) string {
	if r.addresses[named] == "" {
		r.addresses[named] = freeAddress(r.t)
	}
	return r.addresses[named]
}

// shell prepares a run of a script. Of make, it runs what make would do without doing it: the targets are CI's to run.
func (r *reader) shell(script string) *exec.Cmd {
	root, err := filepath.Abs(repository)
	if err != nil {
		r.t.Fatal(err)
	}
	script = local.ReplaceAllStringFunc(script, r.address)
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	r.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c",
		`make() { command make --dry-run --directory "$root" "$@" > /dev/null; }`+"\n"+script)
	cmd.Dir, cmd.Env = r.dir, append(r.env, "root="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// serve starts the servers of a block and returns when they serve.
func (r *reader) serve(b docs.Block) {
	file, err := syntax.NewParser().Parse(strings.NewReader(b.Text), "")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, statement := range file.Stmts {
		statement.Background = false
		var script strings.Builder
		if err := syntax.NewPrinter().Print(&script, statement); err != nil {
			r.t.Fatal(err)
		}
		if call, ok := statement.Cmd.(*syntax.CallExpr); !ok || !command.MatchString(call.Args[0].Lit()+" ") {
			if out, err := r.shell(script.String()).CombinedOutput(); err != nil {
				r.t.Fatalf("%v\n%s", err, out)
			}
			continue
		}
		listen := regexp.MustCompile(`--listen[ =](\S+)`).FindStringSubmatch(script.String() + " --listen 127.0.0.1:7400")[1]
		if end := r.servers[listen]; end != nil {
			end()
		}
		cmd, output := r.shell("exec "+script.String()), &log{}
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		r.servers[listen] = sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if r.t.Failed() {
				r.t.Logf("%s\n%s", script.String(), last(output.String(), 4000))
			}
		})
		r.t.Cleanup(r.servers[listen])
		transport := insecure.NewCredentials()
		if strings.Contains(script.String(), "--tls-cert") {
			transport = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
		}
		conn, err := grpc.NewClient(r.address(listen), grpc.WithTransportCredentials(transport))
		if err != nil {
			r.t.Fatal(err)
		}
		awaitHealth(r.t, conn, script.String(), output)
		_ = conn.Close()
	}
}

// TestDocsName checks what does not run: blocks that need something, and commands and flags named within a sentence. Programs, their
// commands and flags exist, and so do make's targets; JSON is JSON; and code in other languages is that of a program that was run.
func TestDocsName(t *testing.T) {
	t.Parallel()
	for name, p := range readPages(t) {
		// What was decided is told in the words of its time; what is written from flags has patterns, not commands.
		if strings.HasPrefix(name, "docs/adr/") || strings.HasPrefix(string(p.Source), "<!-- Written by ") {
			continue
		}
		for _, b := range p.Blocks {
			where := fmt.Sprintf("%s:%d", name, b.Line)
			switch b.Language {
			case "sh":
				checkScript(t, where, b.Text)
			case "json":
				for _, part := range strings.SplitAfter(b.Text, "\n}\n") {
					if part != "" && !json.Valid([]byte(part)) {
						t.Errorf("%s: this is not JSON", where)
					}
				}
			case "go", "python", "typescript":
				checkExcerpt(t, where, b.Text)
			default:
				if !written.MatchString(name) && !dire.MatchString(name) && command.MatchString(b.Text) {
					t.Errorf("%s: a block of commands is to be fenced as sh", where)
				}
				for _, line := range strings.Split(b.Text, "\n") {
					if command.MatchString(line) {
						checkScript(t, where, strings.TrimPrefix(line, "$ "))
					}
				}
			}
		}
		for _, span := range p.Spans {
			if command.MatchString(span + " ") {
				checkScript(t, name, span)
			}
		}
	}
}

// checkScript checks the calls in a script.
func checkScript(t *testing.T, where, script string) {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var words []string
		for _, word := range call.Args {
			words = append(words, literal(word))
		}
		if i := slices.Index(words, "--"); i >= 0 && i+1 < len(words) { // what another program is to start, as agents do
			words = words[i+1:]
		}
		if program := path.Base(words[0]); command.MatchString(program + " ") {
			if problem := checkCall(program, words[1:]); problem != "" {
				t.Errorf("%s: %s: %s", where, strings.Join(words, " "), problem)
			}
		}
		return true
	})
}

// literal is a word as far as it is written out.
func literal(word *syntax.Word) string {
	var b strings.Builder
	syntax.Walk(word, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.Lit:
			b.WriteString(node.Value)
		case *syntax.SglQuoted:
			b.WriteString(node.Value)
		case *syntax.CmdSubst, *syntax.ParamExp:
			return false
		}
		return true
	})
	return b.String()
}

// checkCall says what is wrong with a call of a program.
func checkCall(program string, args []string) string {
	if program == "make" {
		for _, arg := range args {
			if arg != "" && !strings.ContainsAny(arg, "=[") && !targets()[arg] {
				return "make has no target " + arg
			}
			if arg == "" || strings.Contains(arg, "[") {
				break
			}
		}
		return ""
	}
	var chosen []string
	text := help(program)
	for len(args) > 0 && program == "triskele" {
		deeper := append(slices.Clone(chosen), args[0])
		if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(strings.Join(deeper, " ")) + `( |$)`).MatchString(help(program)) {
			break
		}
		chosen, args = deeper, args[1:]
		text = help(program, chosen...)
	}
	if program == "triskele" && len(chosen) == 0 && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return "there is no such command"
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case !strings.HasPrefix(arg, "-") || arg == "-":
		case strings.HasPrefix(arg, "--"):
			plain := strings.TrimPrefix(strings.TrimPrefix(name, "--"), "no-")
			if !regexp.MustCompile(`--(\[no-\])?(no-)?` + regexp.QuoteMeta(plain) + `\b`).MatchString(text) {
				return "there is no flag " + name
			}
		case !strings.Contains(text, "  "+name[:2]+","):
			return "there is no flag " + name
		}
	}
	return ""
}

var helps sync.Map

// help is what a program, or one of its commands, prints with --help.
func help(program string, chosen ...string) string {
	key := program + " " + strings.Join(chosen, " ")
	if text, ok := helps.Load(key); ok {
		return text.(string)
	}
	out, _ := exec.Command(filepath.Join(programs, program), append(chosen, "--help")...).Output()
	helps.Store(key, string(out))
	return string(out)
}

// targets are those of the Makefile.
var targets = sync.OnceValue(func() map[string]bool {
	text, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		panic(err)
	}
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(text), -1) {
		found[match[1]] = true
	}
	return found
})

// checkExcerpt checks that code is part of a program that tests or make run.
func checkExcerpt(t *testing.T, where, text string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(repository, "tests", "clients", "*"))
	for _, file := range append(files, filepath.Join(repository, "proto", "client", "example_test.go")) {
		source, err := os.ReadFile(file)
		if err == nil && strings.Contains(undented(string(source)), undented(text)) {
			return
		}
	}
	t.Errorf("%s: this is part of no program in tests/clients or the examples of proto/client", where)
}

// undented is a text without the white space at the beginning of lines.
func undented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}

//go:build browser

package page_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// esbuild makes one script of the client for a page, as those who use it do. Its licence is MIT.
const esbuild = "esbuild@0.28.2"

// bundle packs the TypeScript client, installs it into a clean folder, and returns it as a script that sets window.client.
func bundle(t *testing.T) []byte {
	t.Helper()
	work := t.TempDir()
	in := func(dir, name string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	source, clean := filepath.Join(work, "package"), filepath.Join(work, "clean")
	if err := os.CopyFS(source, os.DirFS("../../proto/typescript")); err != nil { // building leaves files behind
		t.Fatal(err)
	}
	if err := os.Mkdir(clean, 0o700); err != nil {
		t.Fatal(err)
	}
	in(source, "npm", "install", "--silent", "--no-fund", "--no-audit")
	in(source, "npm", "pack", "--silent", "--pack-destination", work)
	packed, err := filepath.Glob(filepath.Join(work, "triskele-*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("got %v packages, want one: %v", packed, err)
	}
	if err := os.WriteFile(filepath.Join(clean, "entry.js"), []byte(`import * as client from "triskele/web"; window.client = client;`), 0o600); err != nil {
		t.Fatal(err)
	}
	in(clean, "npm", "install", "--silent", "--no-fund", "--no-audit", packed[0], esbuild)
	in(clean, "node_modules/.bin/esbuild", "entry.js", "--bundle", "--format=iife", "--outfile=out.js", "--log-level=error")
	script, err := os.ReadFile(filepath.Join(clean, "out.js"))
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// TestTypeScriptInABrowser uses the packed client on a page of another origin.
func TestTypeScriptInABrowser(t *testing.T) {
	script := bundle(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/client.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(script)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!DOCTYPE html><title>A page</title><script src="client.js"></script>`))
	}))
	t.Cleanup(page.Close)
	address, _ := serve(t, page.URL)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections wait in its queue for ever
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	ctx, _, _ := browser(t)
	type outcome struct {
		Code, Field, Bound string
		Typed              bool
		Took               float64
		Value              []string
	}
	call := func(what string) (out outcome) {
		t.Helper()
		run(t, ctx, chromedp.Evaluate(`(async () => {
			const start = performance.now();
			try {
				const value = await (`+what+`);
				return {Took: performance.now() - start, Value: value};
			} catch (e) {
				return {Took: performance.now() - start, Typed: e instanceof client.TriskeleError, Code: client.Code[e.code], Field: e.field, Bound: e.bound};
			}
		})()`, &out, awaited))
		return out
	}
	run(t, ctx, chromedp.Navigate(page.URL), chromedp.Evaluate(`window.c = client.connect("http://`+address+`"); window.silent = client.connect("http://`+silent.Addr().String()+`"); window.gone = client.connect("`+gone.URL+`"); 0`, nil))

	got := call(`(async () => {
		const stored = await c.remember("browser", "Deploys are frozen from Thursday noon.", {tags: ["release"]});
		const answer = await c.recall("browser", "are deploys frozen?", {limit: 3, explain: true, atLeast: [stored.revisionToken]}, {timeoutMs: 10000});
		const listed = []; for await (const m of c.list("browser")) listed.push(m.content);
		return [answer.hits[0].memory.content, answer.hits[0].why, ...listed];
	})()`)
	if len(got.Value) != 3 || got.Value[0] != "Deploys are frozen from Thursday noon." || got.Value[1] == "" || got.Value[2] != got.Value[0] {
		t.Errorf("got %+v, want the memory recalled, explained and listed", got)
	}
	for what, want := range map[string]outcome{
		`c.recall("browser", "x", {limit: 5000})`:             {Code: "InvalidArgument", Field: "limit"},
		`c.remember("browser", "x".repeat(65537))`:            {Code: "InvalidArgument", Field: "memory.content"},
		`silent.remember("browser", "x".repeat(65537))`:       {Code: "InvalidArgument", Field: "memory.content"}, // not sent
		`silent.remember("browser", new Uint8Array([255]))`:   {Code: "InvalidArgument", Field: "memory.content"},
		`silent.recall("browser", "x", {}, {timeoutMs: 500})`: {Code: "DeadlineExceeded"},
		`gone.recall("browser", "x", {}, {timeoutMs: 2000})`:  {Code: "Unavailable"},
	} {
		got := call(what)
		if !got.Typed || got.Code != want.Code || got.Field != want.Field || (want.Field != "") != (got.Bound != "") {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
		if got.Took > float64(5*time.Second/time.Millisecond) {
			t.Errorf("%s: got an answer after %.0f ms, want it within the deadline", what, got.Took)
		}
	}
}

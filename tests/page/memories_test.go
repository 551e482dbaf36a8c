//go:build browser

package page_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// axe checks accessibility. It is used in this test alone, and its licence is MPL-2.0.
const axe = "axe-core@4.14.1"

// fromNPM installs packages into a folder of their own and returns it.
func fromNPM(t *testing.T, packages ...string) string {
	t.Helper()
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "npm", append([]string{"install", "--silent", "--no-fund", "--no-audit", "--prefix", dir}, packages...)...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install %v: %v\n%s", packages, err, out)
	}
	return dir
}

// accessible fails the test for each rule that the page breaks as it is now.
func accessible(t *testing.T, ctx context.Context, script, state string) {
	t.Helper()
	var found string
	run(t, ctx, chromedp.Evaluate(script, nil), chromedp.Evaluate(`axe.run().then((r) => JSON.stringify({held: r.passes.length, violations: r.violations.map((v) => ({rule: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary)}))}))`, &found, awaited))
	var report struct {
		Held       int
		Violations []struct {
			Rule, Help string
			Nodes      []string
		}
	}
	if err := json.Unmarshal([]byte(found), &report); err != nil {
		t.Fatal(err)
	}
	if report.Held < 20 {
		t.Errorf("%s: got %d rules that hold, want 20 or more", state, report.Held)
	}
	for _, v := range report.Violations {
		t.Errorf("%s: %s: %s\n%s", state, v.Rule, v.Help, strings.Join(v.Nodes, "\n"))
	}
}

// fits fails the test if a window has to be scrolled sideways.
func fits(t *testing.T, ctx context.Context, width int64) {
	t.Helper()
	var wide []string
	run(t, ctx, scheme("light", width), chromedp.Evaluate(`document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).map((e) => e.tagName + "." + e.className).slice(0, 5)`, &wide))
	if len(wide) > 0 {
		t.Errorf("%d pixels: %v go beyond the window", width, wide)
	}
}

const team = "team"

var large = flag.Int("memories", 20_000, "size of the large namespace")

// remembered fills a namespace with what the page has to show.
func remembered(t *testing.T, s *system) {
	t.Helper()
	long := strings.Repeat("Basalt is deployed by hand, in the order of the list that the team keeps. ", 60)
	memories := []*triskelev1.Memory{
		{Content: "Basalt is the queue that Ada looks after.", Title: "Basalt", Tags: []string{"service"}},
		{Content: "Ada asked for a dashboard of Basalt.", Title: "Basalt dashboard", Tags: []string{"service", "ops"}},
		{Content: "The vault's word is quetzal.", Sensitive: true},
		{Content: "An old plan.", CreatedAt: timestamppb.New(time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))},
	}
	for i := range int64(3) {
		memories = append(memories, &triskelev1.Memory{Content: fmt.Sprintf("Standup, turn %d: %s", i+1, long), Thread: "standup", Position: proto.Int64(i), Title: fmt.Sprintf("Standup about Basalt %d", i+1)})
	}
	for _, m := range memories {
		m.Namespace = team
	}
	if _, err := s.Import(t.Context(), memories); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitIndexed(t.Context(), team, nil); err != nil {
		t.Fatal(err)
	}
}

// held returns the memories that a filter finds, by title or else content.
func held(t *testing.T, s *system, filter *triskelev1.Filter) map[string]*triskelev1.Memory {
	t.Helper()
	out := map[string]*triskelev1.Memory{}
	for m, err := range s.List(t.Context(), &triskelev1.ListRequest{Namespace: team, Filter: filter}) {
		if err != nil {
			t.Fatal(err)
		}
		name := m.GetTitle()
		if name == "" {
			name = m.GetContent()
		}
		out[name] = m
	}
	return out
}

func TestMemoriesInABrowser(t *testing.T) {
	s := start(t)
	remembered(t, s)
	s.recall(30, time.Second)
	script, err := os.ReadFile(filepath.Join(fromNPM(t, axe), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, complaints, requests := browser(t)
	rows := func(want int) chromedp.Action {
		return chromedp.Poll(fmt.Sprintf(`document.querySelectorAll(".open-memory").length === %d`, want), nil)
	}
	says := func(text string) chromedp.Action {
		return chromedp.Poll(fmt.Sprintf(`document.querySelector("#told").textContent.includes(%q)`, text), nil)
	}
	set := func(form, name, value string) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`document.querySelector("#%s [name=%s]").value = %q`, form, name, value), nil)
	}
	press := func(label string) chromedp.Action {
		return chromedp.Click(fmt.Sprintf(`//section[@id="memories"]//button[normalize-space()=%q]`, label))
	}
	open := func(title string) chromedp.Action {
		return chromedp.Click(fmt.Sprintf(`//button[contains(@class, "open-memory")][span[@class="headline" and contains(., %q)]]`, title))
	}
	clear := chromedp.Tasks{set("browse", "text", ""), set("browse", "tags", ""), set("browse", "from", ""), set("browse", "before", "")}

	part := func(name string, of func(*testing.T)) {
		t.Helper()
		if !t.Run(name, of) {
			t.FailNow() // the rest begins where this ends
		}
	}
	part("browse", func(t *testing.T) {
		run(t, ctx, log.Enable(), scheme("light", 1180), chromedp.Navigate(s.url), set("browse", "namespace", team), press("Show"), rows(7))
		run(t, ctx, set("browse", "tags", "service, ops"), press("Show"), rows(1))
		run(t, ctx, clear, set("browse", "before", "2025-01-01"), press("Show"), rows(1))
		run(t, ctx, clear, set("browse", "text", "quetzal"), press("Show"), rows(1), chromedp.WaitVisible(`//span[@class="badge" and .="sensitive"]`))
		run(t, ctx, clear, press("Show"), rows(7))
	})

	part("open", func(t *testing.T) {
		var folded bool
		run(t, ctx, open("Standup about Basalt 2"), chromedp.WaitVisible(`//h3[contains(., "Thread standup")]`), chromedp.WaitVisible(`.opened .steps [aria-current]`),
			chromedp.WaitVisible(`//td[.="yes"]`), chromedp.WaitVisible(`svg.graph .concept`),
			chromedp.Evaluate(`document.querySelector(".opened p.fold").clientHeight < 220`, &folded))
		if !folded {
			t.Error("a long text is not folded")
		}
		accessible(t, ctx, string(script), "opened, light")
		picture(t, ctx, "memories", `#memories`)
		run(t, ctx, scheme("dark", 1180))
		accessible(t, ctx, string(script), "opened, dark")
		for _, width := range []int64{360, 1180, 3840} {
			fits(t, ctx, width)
		}
		run(t, ctx, scheme("light", 1180), open("Standup about Basalt 2"), open("The vault"), chromedp.WaitVisible(`//p[contains(., "no vector")]`), open("The vault"))
	})

	part("change", func(t *testing.T) {
		run(t, ctx, press("Remember something"), set("editor", "content", "Deploys are frozen from Thursday noon."), set("editor", "title", "Freeze"), set("editor", "tags", "release"))
		accessible(t, ctx, string(script), "the editor")
		run(t, ctx, chromedp.Click(`#save`), says("Remembered"), rows(8))
		if m := held(t, s, nil)["Freeze"]; m.GetContent() != "Deploys are frozen from Thursday noon." || m.GetTags()[0] != "release" {
			t.Fatalf("got %v, want what was typed", m)
		}
		run(t, ctx, open("Freeze"), press("Correct"), set("editor", "content", "Deploys are frozen from Friday noon."), chromedp.Click(`#save`), says("Changed"))
		if got := held(t, s, nil)["Freeze"].GetContent(); got != "Deploys are frozen from Friday noon." {
			t.Errorf("corrected: got %q", got)
		}
		run(t, ctx, press("Undo"), says("Taken back"))
		if got := held(t, s, nil)["Freeze"]; got.GetContent() != "Deploys are frozen from Thursday noon." || got.GetRevision() != 3 {
			t.Errorf("taken back: got %v", got)
		}
		run(t, ctx, rows(8), open("Freeze"), press("Mark sensitive"), says("Changed"))
		if !held(t, s, nil)["Freeze"].GetSensitive() {
			t.Error("it is not sensitive")
		}
		run(t, ctx, press("Undo"), says("Taken back"), rows(8), open("Freeze"), press("Supersede"), set("editor", "title", "Thaw"), set("editor", "content", "Deploys are allowed."), chromedp.Click(`#save`), says("Superseded"), rows(8))
		all := held(t, s, &triskelev1.Filter{IncludeSuperseded: true})
		if all["Freeze"].GetSupersededBy() != all["Thaw"].GetId() {
			t.Errorf("got superseded by %q, want %q", all["Freeze"].GetSupersededBy(), all["Thaw"].GetId())
		}
		run(t, ctx, open("Thaw"), chromedp.WaitVisible(`//h3[.="History, oldest first"]`), chromedp.WaitVisible(`//ol[@class="steps"]//button[.="Freeze"]`))
		run(t, ctx, press("Forget"), says("Forgotten"), rows(7))
		if m := held(t, s, nil)["Thaw"]; m != nil {
			t.Errorf("got %v, want it forgotten", m)
		}
		run(t, ctx, press("Undo: remember it again"), says("Remembered again"), rows(8))
		if got, want := held(t, s, nil)["Thaw"], all["Thaw"]; !proto.Equal(got, want) {
			t.Errorf("remembered again: got %v, want %v", got, want)
		}
		run(t, ctx, press("Remember something"), chromedp.Evaluate(`editor.content.value = "x".repeat(70000)`, nil), chromedp.Click(`#save`), says("Nothing was sent"))
		run(t, ctx, set("editor", "content", "x"), set("editor", "category", strings.Repeat("c", 65)), chromedp.Click(`#save`), says("category"), press("Cancel"))
	})

	part("keyboard", func(t *testing.T) {
		var opened string
		run(t, ctx, chromedp.Focus(`.open-memory`), chromedp.KeyEvent("\r"), chromedp.WaitVisible(`.opened dl`), chromedp.Evaluate(`document.activeElement.getAttribute("aria-expanded")`, &opened))
		if opened != "true" {
			t.Errorf("the keyboard opened nothing: %q", opened)
		}
		run(t, ctx, chromedp.KeyEvent("\r"), chromedp.WaitNotPresent(`.opened`))
	})

	part("the third hit", func(t *testing.T) {
		var below float64
		var why string
		run(t, ctx, chromedp.SetValue(`#question [name=namespace]`, team), chromedp.SetValue(`#question [name=query]`, "how is Basalt deployed in the standup"), chromedp.SetValue(`#question [name=budget]`, "5000"), chromedp.Click(`#question button`), chromedp.WaitVisible(`.hit:nth-child(4)`),
			chromedp.Evaluate(`document.querySelectorAll(".hit")[2].getBoundingClientRect().top - document.querySelectorAll(".hit")[0].getBoundingClientRect().top`, &below),
			chromedp.Text(`.hit .why`, &why))
		if below > 800 {
			t.Errorf("the third hit is %.0f pixels below the first, want it on the same screen", below)
		}
		if !strings.Contains(why, "Here for: ") || !strings.Contains(why, "“") {
			t.Errorf("got the reason %q, want one that quotes", why)
		}
		accessible(t, ctx, string(script), "an answer")
	})

	for _, text := range complaints() {
		if !strings.Contains(text, "favicon.ico") && !strings.Contains(text, "400 (Bad Request)") {
			t.Errorf("the browser complains: %s", text)
		}
	}
	for _, url := range requests() {
		if !strings.HasPrefix(url, s.url+"/") {
			t.Errorf("the page asked for %s", url)
		}
	}
}

// TestFirstList times the page's first list in a large namespace, while its indexes still follow.
func TestFirstList(t *testing.T) {
	s := start(t)
	stored := 0
	for until := time.Now().Add(30 * time.Minute); stored < *large && time.Now().Before(until); {
		batch := make([]*triskelev1.Memory, 1000)
		for i := range batch {
			batch[i] = &triskelev1.Memory{Namespace: "large", Content: fmt.Sprintf("Fact %d of the large namespace is that station %d reports to depot %d.", stored+i, (stored+i)%977, (stored+i)%31), Tags: []string{fmt.Sprintf("depot-%d", (stored+i)%31)}}
		}
		if _, err := s.Import(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		stored += len(batch)
	}
	ctx, _, _ := browser(t)
	run(t, ctx, chromedp.Navigate(s.url), chromedp.WaitVisible(`#index tbody tr`))
	for name, choice := range map[string]string{"all": "", "one tag": "depot-7"} {
		var took []float64
		run(t, ctx, chromedp.Evaluate(`browse.namespace.value = "large"; browse.tags.value = "`+choice+`"; (async () => {
			const took = [];
			for (let i = 0; i < 7; i++) { listed.replaceChildren(); const start = performance.now(); await show(""); took.push(performance.now() - start); if (document.querySelectorAll(".open-memory").length !== 50) took.push(1e9); }
			return took.sort((a, b) => a - b);
		})()`, &took, awaited))
		t.Logf("%d memories, %s: the first list took %.0f ms in the middle and %.0f ms at worst of 7, with the rows drawn", stored, name, took[3], took[len(took)-1])
		if took[len(took)-1] >= 1e9 {
			t.Errorf("%s: a list does not have 50 rows", name)
		}
	}
}

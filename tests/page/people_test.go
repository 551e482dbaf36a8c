//go:build browser

package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/proto"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// stored puts memories into the team's namespace.
func stored(t *testing.T, s *system, memories ...*triskelev1.Memory) {
	t.Helper()
	for _, m := range memories {
		m.Namespace = team
	}
	if _, err := s.Import(t.Context(), memories); err != nil {
		t.Fatal(err)
	}
}

// storedStations puts more memories into the team's namespace than a page of the list has.
func storedStations(t *testing.T, s *system) {
	t.Helper()
	var many []*triskelev1.Memory
	for i := range 60 {
		many = append(many, &triskelev1.Memory{Content: fmt.Sprintf("Station %d reports to depot %d.", i, i%7)})
	}
	stored(t, s, many...)
}

// becomes waits until an expression is true.
func becomes(expression string) chromedp.Action {
	return chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(20*time.Second))
}

// clicks clicks on what an expression finds, as often as said, while answers take a while.
func clicks(expression string, times int) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`{ const one = %s; for (let i = 0; i < %d; i++) setTimeout(() => one.click(), i * 450) }`, expression, times), nil)
}

// labelled is the first button with a label.
func labelled(label string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("button")].find((b) => b.textContent === %q)`, label)
}

// What is clicked again before the answer to the first click happens once.
func TestDoubleClicksInABrowser(t *testing.T) {
	s := start(t)
	stored(t, s, &triskelev1.Memory{Content: "The crane is serviced in spring."}, &triskelev1.Memory{Content: "Ada keeps the key."})
	s.recall(2, time.Second)
	ctx, _, _ := browser(t)
	var open int
	run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 2`),
		chromedp.Evaluate(`document.querySelector("[data-kind=all]").click()`, nil), becomes(`document.querySelectorAll(".recall").length >= 2`),
		chromedp.Evaluate(`{ const soon = fetch; fetch = async (...request) => { await new Promise((go) => setTimeout(go, 300)); return soon(...request) } }`, nil),
		chromedp.Evaluate(`for (const button of [".open-memory", ".open-memory", ".recall button", ".recall:nth-child(2) button"]) document.querySelector(button).click()`, nil),
		becomes(`document.querySelector(".opened") && document.querySelector(".recall .open")`), chromedp.Sleep(time.Second),
		chromedp.Evaluate(`document.querySelectorAll(".opened").length * 10 + document.querySelectorAll(".recall .open").length`, &open))
	if open != 11 {
		t.Errorf("got %d memories and %d recalls opened, want one of each", open/10, open%10)
	}
	run(t, ctx, clicks(labelled("Forget"), 2), becomes(`document.querySelectorAll(".open-memory").length === 1`), chromedp.Sleep(time.Second),
		clicks(labelled("Undo: remember it again"), 1), becomes(`document.querySelectorAll(".open-memory").length === 2`))
	if n := len(held(t, s, nil)); n != 2 {
		t.Errorf("got %d memories after one was forgotten by a double click and remembered again, want 2", n)
	}
}

// What follows a page of a list is of that list, whatever the form says and whatever list was asked for in vain.
func TestFurtherPagesInABrowser(t *testing.T) {
	s := start(t)
	storedStations(t, s)
	ctx, _, _ := browser(t)
	var foreign int
	for _, other := range []string{`browse.namespace.value = "demo"`, // older than what is listed
		`browse.namespace.value = "demo"; { const works = fetch; fetch = async () => { fetch = works; throw new TypeError("no network") } }; browse.requestSubmit()`} {
		run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 50`),
			chromedp.Evaluate(other, nil), chromedp.Sleep(500*time.Millisecond), chromedp.Evaluate(`further.click()`, nil), becomes(`document.querySelectorAll(".open-memory").length > 50`),
			chromedp.Evaluate(`[...document.querySelectorAll(".headline")].filter((h) => !h.textContent.startsWith("Station")).length + document.querySelectorAll("#told .bad").length`, &foreign))
		if foreign > 0 {
			t.Errorf("%s: got %d memories of another list, or errors about it, want none", other, foreign)
		}
	}
}

// What nobody has edited in the form stays as the memory has it, though a form shows other line ends and divides tags at commas.
func TestUneditedInABrowser(t *testing.T) {
	s := start(t)
	odd := &triskelev1.Memory{Title: "Two\nlines", Content: "First.\r\nSecond.", Tags: []string{"a, b", "c"}, Importance: proto.Float64(0.3), Category: "note"}
	stored(t, s, odd)
	ctx, _, _ := browser(t)
	run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.requestSubmit()`, nil), becomes(`document.querySelector(".open-memory .headline")?.textContent === "Two lines"`),
		chromedp.Evaluate(`document.querySelector(".open-memory").click()`, nil), becomes(labelled("Correct")), clicks(labelled("Correct"), 1), becomes(`!editor.hidden`),
		chromedp.Evaluate(`editor.category.value = "plan"; editor.requestSubmit()`, nil), becomes(`told.textContent.startsWith("Changed.")`))
	got := held(t, s, nil)[odd.GetTitle()]
	want := proto.CloneOf(odd)
	want.Category, want.Id, want.CreatedAt, want.UpdatedAt, want.Revision = "plan", got.GetId(), got.GetCreatedAt(), got.GetUpdatedAt(), 2
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A text is not cut within a character, which would be refused where it is asked for, and shown as none.
func TestEmojiInABrowser(t *testing.T) {
	s := start(t)
	stored(t, s, &triskelev1.Memory{Content: "x" + strings.Repeat("\U0001F600", 600)}, &triskelev1.Memory{Content: strings.Repeat("\U0001F600", 600)})
	if err := s.WaitIndexed(t.Context(), team, nil); err != nil {
		t.Fatal(err)
	}
	ctx, _, _ := browser(t)
	var whole bool
	run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 2`),
		chromedp.Evaluate(`for (const one of document.querySelectorAll(".open-memory")) one.click()`, nil), becomes(`document.querySelectorAll(".known h3, .known p:only-child:not(:empty)").length > 1 && !document.querySelector("#listed").textContent.includes("Asking the indexes")`),
		chromedp.Evaluate(`document.querySelectorAll(".known table").length === 2 && document.body.textContent.isWellFormed()`, &whole))
	if !whole {
		t.Error("an emoji was cut in half")
	}
}

// While the gateway is away the page says so, in its head and where something was asked for, and goes on when it is back.
func TestGatewayAwayInABrowser(t *testing.T) {
	s := start(t)
	stored(t, s, &triskelev1.Memory{Content: "The crane is serviced in spring."})
	ctx, _, _ := browser(t)
	const says = `The gateway does not answer.`
	run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 1`))
	for _, away := range []string{`throw new TypeError("Failed to fetch")`, `return new Response("<h1>Bad Gateway</h1>", {status: 502})`} { // none, or a proxy
		run(t, ctx, chromedp.Evaluate(`works = fetch; fetch = async () => { `+away+` }; document.querySelector(".open-memory").click(); question.query.value = "crane"; question.requestSubmit()`, nil),
			becomes(fmt.Sprintf(`[told, answer, gone].every((one) => one.textContent === %q && !one.hidden)`, says)),
			chromedp.Evaluate(`fetch = works; browse.requestSubmit()`, nil), becomes(`gone.hidden && told.textContent === ""`))
	}
}

// What came of a click, with the button that takes it back, is in sight, however far down the list the click was.
func TestToldInABrowser(t *testing.T) {
	s := start(t)
	storedStations(t, s)
	ctx, _, _ := browser(t)
	inSight := becomes(`(({ top, bottom }) => top > document.querySelector("header").clientHeight && bottom < innerHeight)(told.getBoundingClientRect())`)
	run(t, ctx, scheme("light", 1180), chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 50`),
		chromedp.Evaluate(`{ const last = [...document.querySelectorAll(".open-memory")].at(-1); last.click(); last.scrollIntoView({ block: "center" }) }`, nil), becomes(labelled("Forget")), clicks(labelled("Forget"), 1),
		becomes(`told.textContent.startsWith("Forgotten.")`), inSight,
		chromedp.Evaluate(`question.namespace.value = "team"; question.query.value = "station"; question.budget.value = "5000"; question.requestSubmit()`, nil), becomes(`document.querySelectorAll(".hit").length > 5`))
	if _, err := s.Memories.DeleteNamespace(t.Context(), &triskelev1.DeleteNamespaceRequest{Namespace: team}); err != nil {
		t.Fatal(err)
	}
	run(t, ctx, chromedp.Evaluate(`scrollTo(0, 0)`, nil), clicks(labelled("Open this memory"), 1), becomes(`told.textContent === "ids: no such memory"`), inSight)
}

// Escape closes the form, but not while it ends what an input method composes, as for Japanese.
func TestEscapeInABrowser(t *testing.T) {
	s := start(t)
	ctx, _, _ := browser(t)
	var open []bool
	run(t, ctx, chromedp.Navigate(s.url), becomes(`document.querySelector("#listed li")`), clicks(labelled("Remember something"), 1), becomes(`!editor.hidden`),
		chromedp.Evaluate(`[true, false].map((isComposing) => { editor.content.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", isComposing, bubbles: true})); return !editor.hidden })`, &open))
	if len(open) != 2 || !open[0] || open[1] {
		t.Errorf("got the form open %v after Escape while composing and after another one, want true and false", open)
	}
}

// A search that was incomplete is not said to have found nothing.
func TestIncompleteSearchInABrowser(t *testing.T) {
	s := start(t)
	ctx, _, _ := browser(t)
	run(t, ctx, chromedp.Navigate(s.url), becomes(`document.querySelector("#listed li")`), chromedp.Evaluate(`{
			const works = fetch;
			fetch = async (...request) => { // as in a namespace that is too large for --search-memory
				const answer = await (await works(...request)).json();
				return Response.json("hits" in answer ? {...answer, hits: [], degraded: true, degraded_reason: "The lexical leg is incomplete."} : answer);
			};
			browse.namespace.value = "demo"; browse.text.value = "basalt"; browse.requestSubmit();
		}`, nil), becomes(`listed.textContent === "The lexical leg is incomplete."`))
}

// A search for words shows the best hundred, and says so.
func TestManyFoundInABrowser(t *testing.T) {
	s := start(t)
	storedStations(t, s)
	storedStations(t, s)
	ctx, _, _ := browser(t)
	run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.text.value = "depot"; browse.requestSubmit()`, nil),
		becomes(`document.querySelectorAll(".open-memory").length === 100 && listed.lastChild.textContent.startsWith("These are the best 100.")`),
		chromedp.Evaluate(`browse.text.value = "depot 59"; browse.tags.value = "none"; browse.requestSubmit()`, nil), becomes(`listed.textContent === "No memory is like that."`))
}

// A memory has an address, which opens it in another window.
func TestAddressOfAMemoryInABrowser(t *testing.T) {
	s := start(t)
	stored(t, s, &triskelev1.Memory{Content: "The crane is serviced in spring."}, &triskelev1.Memory{Content: "Ada keeps the key."})
	ctx, _, _ := browser(t)
	var address string
	opened := becomes(`document.querySelectorAll(".open-memory").length === 1 && document.querySelector(".opened")?.textContent.includes("The crane is serviced")`)
	run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.text.value = "crane"; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 1`),
		chromedp.Evaluate(`document.querySelector(".open-memory").click()`, nil), opened, chromedp.Evaluate(`document.querySelector(".opened dd a").href`, &address))
	run(t, ctx, chromedp.Navigate(strings.Replace(address, "#", "?another#", 1)), opened,
		chromedp.Evaluate(`browse.text.value = ""; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 2`))
}

// Long words are broken wherever they are, and texts from right to left are read so.
func TestTextsInABrowser(t *testing.T) {
	s := start(t)
	long := strings.Repeat("W", 128)
	stored(t, s, &triskelev1.Memory{Content: "שלום hello", Title: long, Tags: []string{long}, Source: long, Thread: long + long})
	ctx, _, _ := browser(t)
	var rightToLeft bool
	run(t, ctx, chromedp.Navigate(s.url), chromedp.Evaluate(`browse.namespace.value = "team"; browse.requestSubmit()`, nil), becomes(`document.querySelectorAll(".open-memory").length === 1`),
		chromedp.Evaluate(`document.querySelector(".open-memory").click()`, nil), becomes(`document.querySelector(".opened h3")`), clicks(labelled("Correct"), 1), becomes(`!editor.hidden`),
		chromedp.Evaluate(`{ const text = document.querySelector(".opened p").firstChild, from = (word) => { const r = document.createRange(); r.setStart(text, text.data.indexOf(word)); r.setEnd(text, r.startOffset + word.length); return r.getBoundingClientRect().left };
			from("שלום") > from("hello") }`, &rightToLeft))
	if !rightToLeft {
		t.Error("a text that begins in Hebrew is shown from left to right")
	}
	for _, width := range []int64{360, 1180} {
		fits(t, ctx, width)
	}
}

//go:build browser

package page_test

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/demo"
)

var pictures = flag.String("pictures", "", "write screenshots into this folder")

// browser starts a headless Chromium and returns what it complains about and asks for.
func browser(t *testing.T) (_ context.Context, complaints, requests func() []string) {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.Flag("disable-quic", true))
	allocated, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var said, asked []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded: // violations of the policy among them
			said = append(said, e.Entry.Text+" "+e.Entry.URL)
		case *runtime.EventExceptionThrown:
			said = append(said, e.ExceptionDetails.Error())
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "data:") { // an icon of the browser's own
				asked = append(asked, e.Request.URL)
			}
		}
	})
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context of the first run
		t.Fatal(err)
	}
	read := func(of *[]string) func() []string {
		return func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(*of)
		}
	}
	return ctx, read(&said), read(&asked)
}

func run(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// scheme has the page drawn light or dark, in a window so many pixels wide.
func scheme(name string, width int64) chromedp.Action {
	return chromedp.Tasks{
		chromedp.EmulateViewport(width, 900),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}),
	}
}

func TestPageInABrowser(t *testing.T) {
	s := start(t)
	const attack = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	if _, err := s.Import(t.Context(), []*triskelev1.Memory{{Namespace: "hostile", Title: attack, Content: "Basalt " + attack}}); err != nil {
		t.Fatal(err)
	}
	steps, chart := 1, `#chart p, #chart canvas` // lines when the recalls fall into two steps of the history, words until then
	if *pictures != "" {
		steps, chart = 3, `#chart canvas`
	}
	for i := range steps {
		s.recall(300, time.Second)
		s.slow.Store(int64(time.Duration(i) * 15 * time.Millisecond))
		s.recall(10, time.Second)
		s.slow.Store(int64(time.Second))
		s.recall(3, 60*time.Millisecond)
		s.slow.Store(0)
		if i < steps-1 {
			next := time.Now().Truncate(10 * time.Second).Add(10 * time.Second)
			<-time.After(time.Until(next))
		}
	}

	ctx, complaints, requests := browser(t)
	var title, focus string
	var folded, wide bool
	run(t, ctx, log.Enable(), network.Enable(), scheme("light", 1180), chromedp.Navigate(s.url),
		chromedp.SetValue(`[name=namespace]`, demo.Namespace), chromedp.SetValue(`[name=query]`, s.queries[0].Text), chromedp.SetValue(`[name=limit]`, "3"), chromedp.Click(`#question button`),
		chromedp.WaitVisible(`.hit .stack i`), chromedp.WaitVisible(`#answer .falls .critical`), chromedp.WaitVisible(chart),
		chromedp.WaitVisible(`#index tbody tr`), chromedp.WaitVisible(`.recall .why`))
	picture(t, ctx, "ask", `#ask`)
	// The same by keyboard alone: to the first degraded recall, and its waterfall.
	run(t, ctx, chromedp.Focus(`.recall button`), chromedp.KeyEvent("\r"), chromedp.WaitVisible(`.recall .open .falls .bar i`),
		chromedp.Evaluate(`document.activeElement.getAttribute("aria-expanded")`, &focus))
	if focus != "true" {
		t.Errorf("the keyboard opened nothing: %q", focus)
	}
	run(t, ctx, scheme("dark", 1180), chromedp.Sleep(2500*time.Millisecond))
	picture(t, ctx, "legs-dark", `#legs, #recent`)
	run(t, ctx, scheme("light", 420), chromedp.Evaluate(`document.documentElement.scrollWidth <= innerWidth`, &folded))
	if !folded {
		t.Error("a narrow window has to be scrolled sideways")
	}
	picture(t, ctx, "narrow", `#ask`)
	// A memory that is an attack is shown as the text that it is.
	run(t, ctx, scheme("light", 1180), chromedp.SetValue(`[name=namespace]`, "hostile"), chromedp.SetValue(`[name=query]`, "basalt"), chromedp.Click(`#question button`),
		chromedp.WaitVisible(`//p[contains(., "onerror")]`), chromedp.Title(&title),
		chromedp.Evaluate(`document.querySelector("main img, main script") !== null`, &wide))
	if title != "Triskele" || wide {
		t.Errorf("the memory became part of the page: title %q", title)
	}
	for _, text := range complaints() {
		if !strings.Contains(text, "favicon.ico") {
			t.Errorf("the browser complains: %s", text)
		}
	}
	for _, url := range requests() {
		if !strings.HasPrefix(url, s.url+"/") {
			t.Errorf("the page asked for %s", url)
		}
	}
}

// picture keeps what these elements look like, if pictures are wanted.
func picture(t *testing.T, ctx context.Context, name, elements string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	var shot []byte
	var at struct{ X, Y, Width, Height float64 }
	run(t, ctx, chromedp.Evaluate(`(() => { scrollTo(0, 0); const all = [...document.querySelectorAll("`+elements+`")].map((e) => e.getBoundingClientRect());
		const y = Math.min(...all.map((r) => r.top)) - 8, x = Math.min(...all.map((r) => r.left)) - 8;
		return {X: Math.max(x, 0), Y: y, Width: Math.max(...all.map((r) => r.right)) + 8 - Math.max(x, 0), Height: Math.min(Math.max(...all.map((r) => r.bottom)) + 8 - y, 1500)} })()`, &at),
		chromedp.FullScreenshot(&shot, 100))
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	area := image.Rect(int(at.X), int(at.Y), int(at.X+at.Width), int(at.Y+at.Height)).Intersect(full.Bounds())
	out, err := os.Create(filepath.Join(*pictures, name+".png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(out, reduced(full, area)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// reduced is a part of a picture in its 256 most frequent colours, which is all that text on plain ground needs.
func reduced(full image.Image, area image.Rectangle) image.Image {
	counts := map[color.RGBA]int{}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			counts[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	var colours []color.RGBA
	for c := range counts {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int { return counts[b] - counts[a] })
	var palette color.Palette
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(image.Rect(0, 0, area.Dx(), area.Dy()), palette)
	draw.Draw(out, out.Bounds(), full, area.Min, draw.Src)
	return out
}

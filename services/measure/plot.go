package measure

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Line is the times of one thing by size: the line of its medians, and dashed that of its 95th percentiles.
type Line struct {
	Name     string
	P50, P95 []time.Duration // one per size
}

var colours = []string{"#0b6e4f", "#b3541e", "#2a4d9b", "#8a2a7f"}

// Plot draws lines by number of memories, both on logarithmic scales, as SVG. Sizes ascend.
func Plot(sizes []int, lines []Line) string {
	const width, height, left, right, top, bottom = 720, 400, 60, 150, 20, 40
	x := func(size int) float64 {
		lo, hi := math.Log10(float64(sizes[0])), math.Log10(float64(sizes[len(sizes)-1]))
		if hi == lo {
			return left
		}
		return left + (math.Log10(float64(size))-lo)/(hi-lo)*(width-left-right)
	}
	const least, most = 0.1, 10_000.0 // milliseconds
	y := func(d time.Duration) float64 {
		share := math.Log10(math.Max(d.Seconds()*1000, least)/least) / math.Log10(most/least)
		return height - bottom - share*(height-top-bottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
`, width, height)
	for t := least; t <= most; t *= 10 {
		at := y(time.Duration(t * float64(time.Millisecond)))
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g ms</text>`+"\n", left, at, width-right, left-6, at+4, t)
	}
	for _, size := range sizes {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(size), height-bottom+18, size)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">memories</text>`+"\n", (left+width-right)/2, height-6)
	for i, line := range lines {
		colour := colours[i%len(colours)]
		for _, s := range []struct {
			name, dash string
			times      []time.Duration
		}{{"p50", "", line.P50}, {"p95", ` stroke-dasharray="6 4"`, line.P95}} {
			points := make([]string, len(s.times))
			for j, d := range s.times {
				points[j] = fmt.Sprintf("%.1f,%.1f", x(sizes[j]), y(d))
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/><text x="%d" y="%.1f" fill="%s">%s %s</text>`+"\n",
				strings.Join(points, " "), colour, s.dash, width-right+8, y(s.times[len(s.times)-1])+4, colour, line.Name, s.name)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

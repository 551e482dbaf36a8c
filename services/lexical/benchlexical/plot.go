package main

import (
	"fmt"
	"math"
	"strings"
)

// plot draws the percentiles by number of memories, both on logarithmic scales.
func plot(measured []measurement) string {
	const width, height, left, right, top, bottom = 720, 400, 60, 150, 20, 40
	x := func(size int) float64 {
		lo, hi := math.Log10(float64(measured[0].size)), math.Log10(float64(measured[len(measured)-1].size))
		if hi == lo {
			return left
		}
		return left + (math.Log10(float64(size))-lo)/(hi-lo)*(width-left-right)
	}
	const least, most = 0.1, 10_000.0 // milliseconds
	y := func(milliseconds float64) float64 {
		share := math.Log10(math.Max(milliseconds, least)/least) / math.Log10(most/least)
		return height - bottom - share*(height-top-bottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
`, width, height)
	for t := least; t <= most; t *= 10 {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g ms</text>`+"\n", left, y(t), width-right, left-6, y(t)+4, t)
	}
	for _, m := range measured {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(m.size), height-bottom+18, m.size)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">memories</text>`+"\n", (left+width-right)/2, height-6)
	for i, colour := range []string{"#0b6e4f", "#b3541e", "#2f5d8a"}[:len(measured[0].scorers)] {
		for _, percent := range []int{50, 95} {
			var points []string
			var end float64
			for _, m := range measured {
				end = y(float64(m.scorers[i].at(percent)) / 1e6)
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(m.size), end))
			}
			dash := ""
			if percent == 95 {
				dash = ` stroke-dasharray="6 4"`
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/><text x="%d" y="%.1f" fill="%s">%s p%d</text>`+"\n",
				strings.Join(points, " "), colour, dash, width-right+8, end+4, colour, measured[0].scorers[i].name, percent)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

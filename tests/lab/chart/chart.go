// Package chart draws line charts for reports, as SVG without scripts or other files. The same chart gives the same text.
package chart

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Chart is a set of lines over one pair of axes.
type Chart struct {
	X, Y       Axis
	Series     []Series
	Width      int // in pixels; 0 for 720
	Height     int // 0 for 400
	LegendSize int // pixels right of the lines for their names; 0 for 170
}

// Axis is a scale. Values of a logarithmic one are above 0.
type Axis struct {
	Label string
	Log   bool
	Ticks []float64 // nil means round numbers around the values
}

// Series is a line.
type Series struct {
	Name   string
	Points []Point
	Dashed bool
	Colour int // index into the palette, modulo its length
}

// Point is in the units of the axes.
type Point struct{ X, Y float64 }

// palette is safe for colour-blind readers (Okabe and Ito, Color Universal Design, 2008).
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

const left, top, bottom = 64, 16, 48

// SVG draws the chart. It returns an empty string for a chart without points.
func (c Chart) SVG() string {
	width, height := cmp.Or(c.Width, 720), cmp.Or(c.Height, 400)
	right := width - cmp.Or(c.LegendSize, 170)
	var xs, ys []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	if len(xs) == 0 {
		return ""
	}
	xTicks, yTicks := c.X.ticks(xs), c.Y.ticks(ys)
	x := c.X.scale(append(xs, xTicks...), left, float64(right))
	y := c.Y.scale(append(ys, yTicks...), float64(height-bottom), top)

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
`, width, height)
	for _, t := range yTicks {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left, y(t), right, left-6, y(t)+4, number(t))
	}
	for _, t := range xTicks {
		fmt.Fprintf(&b, `<path d="M%.1f %dv4" stroke="#888"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(t), height-bottom, x(t), height-bottom+18, number(t))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+right)/2, height-10, html.EscapeString(c.X.Label))
	fmt.Fprintf(&b, `<text transform="translate(14 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+height-bottom)/2, html.EscapeString(c.Y.Label))

	// A name stands where its line ends. Names that would overlap are moved apart.
	type name struct {
		at     float64
		series int
	}
	var names []name
	for i, s := range c.Series {
		if len(s.Points) == 0 {
			continue
		}
		points := make([]string, len(s.Points))
		for j, p := range s.Points {
			points[j] = fmt.Sprintf("%.1f,%.1f", x(p.X), y(p.Y))
		}
		dash := ""
		if s.Dashed {
			dash = ` stroke-dasharray="6 4"`
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(points, " "), s.colour(), dash)
		names = append(names, name{y(s.Points[len(s.Points)-1].Y) + 4, i})
	}
	slices.SortStableFunc(names, func(a, b name) int { return cmp.Compare(a.at, b.at) })
	for i := range names {
		if i > 0 {
			names[i].at = max(names[i].at, names[i-1].at+14)
		}
	}
	for i := range names { // names below the axis move up
		names[i].at = min(names[i].at, float64(height-bottom-14*(len(names)-1-i)))
		s := c.Series[names[i].series]
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" fill="%s">%s</text>`+"\n", right+8, names[i].at, s.colour(), html.EscapeString(s.Name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (s Series) colour() string { return palette[s.Colour%len(palette)] }

// scale returns the function that maps values on the axis to pixels between from and to.
func (a Axis) scale(values []float64, from, to float64) func(float64) float64 {
	position := func(v float64) float64 {
		if a.Log {
			return math.Log10(v)
		}
		return v
	}
	low, high := position(slices.Min(values)), position(slices.Max(values))
	return func(v float64) float64 {
		if low == high {
			return from
		}
		return from + (position(v)-low)/(high-low)*(to-from)
	}
}

// ticks returns the axis's Ticks, or round numbers around the values.
func (a Axis) ticks(values []float64) []float64 {
	if len(a.Ticks) > 0 {
		return a.Ticks
	}
	low, high := slices.Min(values), slices.Max(values)
	var ticks []float64
	if a.Log {
		for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
		return ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(max(high-low, 1e-9))))
	for _, part := range []float64{0.2, 0.5, 1} {
		if (high-low)/(step*part) <= 8 {
			step *= part
			break
		}
	}
	for i := math.Floor(low / step); i <= math.Ceil(high/step); i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// number formats a value with at most six decimals.
func number(v float64) string { return fmt.Sprintf("%g", math.Round(v*1e6)/1e6) }

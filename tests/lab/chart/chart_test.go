package chart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/triskele/triskele/tests/lab/chart"
)

func TestSVG(t *testing.T) {
	for name, c := range map[string]chart.Chart{
		"linear": {Series: []chart.Series{{Name: "a <b>", Points: []chart.Point{{0, 0.2}, {1, 0.4}}}, {Name: "c", Points: []chart.Point{{0, 0.4}, {1, 0.4}}, Dashed: true, Colour: 1}}},
		"log":    {X: chart.Axis{Label: "n", Log: true}, Y: chart.Axis{Label: "ms", Log: true}, Series: []chart.Series{{Name: "a", Points: []chart.Point{{10, 0.01}, {1000, 30}}}}},
		"level":  {Series: []chart.Series{{Name: "a", Points: []chart.Point{{1, 1}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			svg := c.SVG()
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("a place that is no number:\n%s", svg)
			}
			if n := strings.Count(svg, "<polyline"); n != len(c.Series) {
				t.Errorf("%d lines, want %d", n, len(c.Series))
			}
			decoder := xml.NewDecoder(strings.NewReader(svg))
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("not well-formed: %v\n%s", err, svg)
				}
			}
		})
	}
}

// TestPlaces checks that values end up where the axes say: the highest at the top, the last at the right.
func TestPlaces(t *testing.T) {
	c := chart.Chart{
		X: chart.Axis{Ticks: []float64{0, 1}}, Y: chart.Axis{Ticks: []float64{0, 10}}, Width: 334, Height: 164, LegendSize: 170,
		Series: []chart.Series{{Name: "a", Points: []chart.Point{{0, 0}, {0.5, 10}, {1, 5}}}},
	}
	if svg := c.SVG(); !strings.Contains(svg, `points="64.0,116.0 114.0,16.0 164.0,66.0"`) {
		t.Error(svg)
	}
}

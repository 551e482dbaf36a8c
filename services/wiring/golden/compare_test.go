package golden_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/triskele/triskele/services/store/schema"
)

// ranks is the committed report.
var ranks = filepath.Join("testdata", "ranks.golden")

// compare fails the test if a report is not what is committed, and says what has become better and worse.
func compare(t *testing.T, store schema.Engine, got string) {
	t.Helper()
	want, err := os.ReadFile(ranks)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	t.Errorf("the ranking on %s has changed:\n%s\n%s\nIf that is meant, write %s anew with\n\tmake golden\nand commit it with the change.",
		store, diff(string(want), got), movement(string(want), got), ranks)
}

// diff returns the lines that differ, old ones with - and new ones with +, those about the same thing next to each other.
func diff(want, got string) string {
	old := map[string]string{}
	for line := range strings.Lines(want) {
		old[subject(line)] = line
	}
	var b strings.Builder
	kept := map[string]bool{}
	for line := range strings.Lines(got) {
		was, known := old[subject(line)]
		kept[subject(line)] = true
		if known && was != line {
			b.WriteString("- " + was)
		}
		if was != line {
			b.WriteString("+ " + line)
		}
	}
	for _, about := range slices.Sorted(maps.Keys(old)) {
		if !kept[about] {
			b.WriteString("- " + old[about])
		}
	}
	return b.String()
}

// subject is what a line is about: its first word, or all of a comment.
func subject(line string) string {
	if first, _, found := strings.Cut(line, " "); found && first != "#" {
		return first
	}
	return line
}

// movement says of each mean of the default setting, over all queries and by stratum, whether it rose or fell.
func movement(want, got string) string {
	before, now := means(want), means(got)
	var b strings.Builder
	for _, about := range slices.Sorted(maps.Keys(now)) {
		was := before[about]
		for i, name := range metricNames {
			if was == nil || was[i] == now[about][i] {
				continue
			}
			verb := "rose"
			if now[about][i] < was[i] {
				verb = "fell"
			}
			fmt.Fprintf(&b, "%s: %s %s from %.3f to %.3f\n", about, name, verb, was[i], now[about][i])
		}
	}
	if b.Len() == 0 {
		return "No mean of the default setting has changed.\n"
	}
	return b.String()
}

// means reads the means of the default setting from a report, in the order of metricNames.
func means(text string) map[string][]float64 {
	found := map[string][]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2+len(metricNames) || !strings.HasSuffix(fields[0], "/default") {
			continue
		}
		for _, field := range fields[2 : 2+len(metricNames)] {
			value, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil
			}
			found[fields[0]] = append(found[fields[0]], value)
		}
	}
	return found
}

// TestCompare breaks a report and looks at what would be said.
func TestCompare(t *testing.T) {
	t.Parallel()
	const want = "# comment\n\n\na/default 10 0.500 0.600 0.700 9.00 0 0\nq1 1 2 text\nq2 - 3 text\n"
	const got = "# comment\n\n\na/default 10 0.500 0.650 0.600 9.50 0 0\nq1 1 2 text\nq3 4 3 text\n"
	if d, w := diff(want, got), "- a/default 10 0.500 0.600 0.700 9.00 0 0\n+ a/default 10 0.500 0.650 0.600 9.50 0 0\n+ q3 4 3 text\n- q2 - 3 text\n"; d != w {
		t.Errorf("diff\n%s\nwant\n%s", d, w)
	}
	if m, w := movement(want, got), "a/default: recall@10 rose from 0.600 to 0.650\na/default: MRR@10 fell from 0.700 to 0.600\na/default: usable rose from 9.000 to 9.500\n"; m != w {
		t.Errorf("movement\n%s\nwant\n%s", m, w)
	}
}

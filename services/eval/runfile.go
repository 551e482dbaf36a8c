package eval

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// WriteRun writes the rankings of queries in the format of trec_eval: "query Q0 document rank score tag". trec_eval sorts by
// score, as a 32-bit number, and breaks ties in its own way. So WriteRun lowers a score that is not below the one before to the
// next smaller 32-bit number. The file appears only when it is complete.
func WriteRun(name, config string, queries []Query, rankings []Ranking) error {
	return writeFile(name, func(out io.Writer) {
		for i, query := range queries {
			last := float32(math.Inf(1))
			for at, id := range rankings[i].IDs {
				score := float32(rankings[i].Scores[id])
				if score >= last {
					score = math.Nextafter32(last, float32(math.Inf(-1)))
				}
				last = score
				_, _ = fmt.Fprintf(out, "%s Q0 %s %d %s triskele-%s\n", query.ID, id, at+1, strconv.FormatFloat(float64(score), 'g', -1, 32), strings.ReplaceAll(config, " ", "_"))
			}
		}
	})
}

// WriteJudgments writes the judgments of queries in the format of trec_eval: "query 0 document grade".
func WriteJudgments(name string, queries []Query) error {
	return writeFile(name, func(out io.Writer) {
		for _, query := range queries {
			for _, id := range slices.Sorted(maps.Keys(query.Grades)) {
				_, _ = fmt.Fprintf(out, "%s 0 %s %d\n", query.ID, id, query.Grades[id])
			}
		}
	})
}

// writeFile creates a file with the output of write. The file gets its name only when it is complete.
func writeFile(name string, write func(io.Writer)) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	write(out) // Flush returns the error of a failed write
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

// Comparison says how far two runs of the same set and configuration agree on the first ten documents.
type Comparison struct {
	Set     string  `json:"set"`
	Config  string  `json:"config"`
	Queries int     `json:"queries"`        // with a hit in at least one of the runs
	Same    float64 `json:"same"`           // share of queries with the same documents in the same order
	Tied    float64 `json:"same_but_ties"`  // like Same, but tied documents may be in any order
	Overlap float64 `json:"overlap_at_ten"` // mean share of documents that both runs have
}

const (
	// comparedDepth is how many documents of a ranking are compared.
	comparedDepth = 10
	// tie is the largest relative difference of two scores that count as equal.
	tie = 1e-4
)

// CompareRuns compares the run files that two folders of results have in common. It returns an error if there are none.
func CompareRuns(dirA, dirB string) ([]Comparison, error) {
	files, err := fs.Glob(os.DirFS(dirA), "runs/*/*.trec") // sorted
	if err != nil {
		return nil, err
	}
	var comparisons []Comparison
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(dirB, file)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		a, err := ReadRun(filepath.Join(dirA, file))
		if err != nil {
			return nil, err
		}
		b, err := ReadRun(filepath.Join(dirB, file))
		if err != nil {
			return nil, err
		}
		c := compare(a, b)
		c.Set, c.Config = path.Base(path.Dir(file)), strings.TrimSuffix(path.Base(file), ".trec")
		comparisons = append(comparisons, c)
	}
	if len(comparisons) == 0 {
		return nil, fmt.Errorf("%s and %s have no run file in common", dirA, dirB)
	}
	return comparisons, nil
}

// Ranking is one query's part of a run file, best first.
type Ranking struct {
	IDs    []string
	Scores map[string]float64
}

// ReadRun reads a run file. It returns the rankings by query.
func ReadRun(name string) (map[string]Ranking, error) {
	run := map[string]Ranking{}
	err := eachLine(name, func(line []byte) error {
		fields := strings.Fields(string(line))
		if len(fields) != 6 {
			return fmt.Errorf("%d columns, want 6", len(fields))
		}
		score, err := strconv.ParseFloat(fields[4], 64)
		if err != nil {
			return fmt.Errorf("score %q is not a number", fields[4])
		}
		r, known := run[fields[0]]
		if !known {
			r.Scores = map[string]float64{}
		}
		r.IDs = append(r.IDs, fields[2])
		r.Scores[fields[2]] = score
		run[fields[0]] = r
		return nil
	})
	return run, err
}

func compare(a, b map[string]Ranking) Comparison {
	queries := maps.Clone(a)
	maps.Copy(queries, b)
	same, tied, overlap := 0, 0, 0.0
	for id := range queries {
		a, b := a[id], b[id]
		topA, topB := a.IDs[:min(comparedDepth, len(a.IDs))], b.IDs[:min(comparedDepth, len(b.IDs))]
		if slices.Equal(topA, topB) {
			same++
		}
		if sameButTies(topA, topB, a.Scores, b.Scores) {
			tied++
		}
		shared := 0
		for _, id := range topA {
			if slices.Contains(topB, id) {
				shared++
			}
		}
		if longest := max(len(topA), len(topB)); longest > 0 {
			overlap += float64(shared) / float64(longest)
		}
	}
	n := float64(max(len(queries), 1))
	return Comparison{Queries: len(queries), Same: float64(same) / n, Tied: float64(tied) / n, Overlap: overlap / n}
}

// sameButTies reports whether, at every rank, the two documents are the same or are tied in both runs.
func sameButTies(topA, topB []string, scoresA, scoresB map[string]float64) bool {
	if len(topA) != len(topB) {
		return false
	}
	tied := func(scores map[string]float64, x, y string) bool {
		s, okX := scores[x]
		t, okY := scores[y]
		return okX && okY && math.Abs(s-t) <= tie*max(math.Abs(s), math.Abs(t))
	}
	for i := range topA {
		if topA[i] != topB[i] && !(tied(scoresA, topA[i], topB[i]) && tied(scoresB, topA[i], topB[i])) {
			return false
		}
	}
	return true
}

package eval

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/triskele/triskele/fuser/platform/replace"
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
func writeFile(name string, write func(io.Writer)) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return replace.File(name, func(part *os.File) error {
		out := bufio.NewWriter(part)
		write(out) // Flush returns the error of a failed write
		return errors.Join(out.Flush(), part.Chmod(0o644))
	})
}

// Ranking is one query's part of a run file, best first.
type Ranking struct {
	IDs    []string
	Scores map[string]float64
}

package measure

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/triskele/triskele/services/eval"
)

// ReadRun reads a run file, as eval.WriteRun writes it. It returns the rankings by query.
func ReadRun(name string) (map[string]eval.Ranking, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	run := map[string]eval.Ranking{}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 6 {
			return nil, fmt.Errorf("%s:%d: %d columns, want 6", name, number, len(fields))
		}
		score, err := strconv.ParseFloat(fields[4], 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: score %q is not a number", name, number, fields[4])
		}
		r, known := run[fields[0]]
		if !known {
			r.Scores = map[string]float64{}
		}
		r.IDs = append(r.IDs, fields[2])
		r.Scores[fields[2]] = score
		run[fields[0]] = r
	}
	return run, lines.Err()
}

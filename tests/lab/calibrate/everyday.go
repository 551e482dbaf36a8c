package calibrate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/triskele/triskele/services/eval"
)

// Everyday reads a folder of small stores, of one-line facts, long notes and a mix. A file has a line for each memory, an empty line, and a line for each question: the
// numbers of the lines that answer it, from 1 and with commas between, or -, and after a tab the question. Each question that has
// an answer is also asked in the next store, and everything the stores hold is written by the project.
func Everyday(folder string) (*eval.Set, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no stores", folder)
	}
	b := builder{random: rand.New(rand.NewPCG(1, 2)), set: &eval.Set{Name: "everyday", Documents: map[string]string{}}}
	for _, file := range files {
		b.set.Namespaces = append(b.set.Namespaces, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	for i, file := range files {
		if err := b.everyday(file, b.set.Namespaces[i], b.set.Namespaces[(i+1)%len(files)]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return b.set, nil
}

func (b *builder) everyday(file, namespace, next string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	memories, questions, found := strings.Cut(strings.TrimSpace(string(text)), "\n\n")
	if !found {
		return fmt.Errorf("no empty line between memories and questions")
	}
	var ids []string
	for _, line := range strings.Split(memories, "\n") {
		ids = append(ids, b.remember(namespace, line))
	}
	b.chat(namespace, 2*chatty)
	for n, line := range strings.Split(questions, "\n") {
		lines, question, found := strings.Cut(line, "\t")
		if !found {
			return fmt.Errorf("question %d has no tab", n+1)
		}
		grades := map[string]int{}
		for _, number := range strings.Split(lines, ",") {
			var at int
			if number == "-" {
				continue
			}
			if _, err := fmt.Sscanf(number, "%d", &at); err != nil || at < 1 || at > len(ids) {
				return fmt.Errorf("question %d: %q is no line of a memory", n+1, number)
			}
			grades[ids[at-1]] = 1
		}
		q := eval.Query{ID: fmt.Sprintf("%s-%d", namespace, n+1), Text: question, Namespace: namespace, Stratum: "absent", Grades: grades}
		if len(grades) == 0 {
			b.set.Queries = append(b.set.Queries, q)
			continue
		}
		q.Stratum = "answered"
		b.set.Queries = append(b.set.Queries, q)
		q.ID, q.Namespace, q.Stratum, q.Grades = q.ID+"-elsewhere", next, "elsewhere", nil
		b.set.Queries = append(b.set.Queries, q)
	}
	return nil
}

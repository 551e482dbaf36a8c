package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of JSONL: the largest memory, with every character escaped, is well below it.
const maxLine = 4 << 20

// lines calls fn with each line that is not blank and its number, from 1. A line that is too long is an error that names
// the file and the line.
func lines(file string, in io.Reader, fn func(number int, line []byte) error) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	number := 0
	for scanner.Scan() {
		number++
		line := bytes.TrimSpace(bytes.TrimPrefix(scanner.Bytes(), []byte("\ufeff")))
		if len(line) == 0 {
			continue
		}
		if err := fn(number, line); err != nil {
			return err
		}
	}
	err := scanner.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: the line is longer than %d bytes", file, number+1, maxLine)
	}
	return err
}

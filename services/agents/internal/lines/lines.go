// Package lines reads texts line by line, with a bound on each line.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// Line is a line without white space around it.
type Line struct {
	Text   []byte
	Long   bool  // it has more bytes than allowed, and Text is empty
	Number int   // from 1
	End    int64 // in the text, in bytes
}

// All yields the lines of a text that are not blank. The last one may lack its line feed. An error ends them.
func All(text io.Reader, most int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(text, 1<<16)
		var line Line
		for {
			raw, length, err := Read(in, most)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Line{}, err)
				return
			}
			line = Line{Long: int64(len(raw)) < length, Number: line.Number + 1, End: line.End + length}
			if line.Number == 1 {
				raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
			}
			line.Text = bytes.TrimSpace(raw)
			if (line.Long || len(line.Text) > 0) && !yield(line, nil) || err != nil {
				return
			}
		}
	}
}

// Read returns a line with its line feed, and its length. The line is nil if it has more than most bytes. The error at the end of the
// text is io.EOF, with a last line that lacks its line feed.
func Read(in *bufio.Reader, most int) (line []byte, length int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		if length <= int64(most) {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, length, err
		}
	}
}

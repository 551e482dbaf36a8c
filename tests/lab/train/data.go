package train

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// paragraph is a line of a text file.
type paragraph struct {
	Text   string `json:"t"`
	Source int32  `json:"s"`
}

// textPair is a line of a pairs file: two texts of which one would be asked for with the other.
type textPair struct {
	A      string `json:"a"`
	B      string `json:"b"`
	Kind   string `json:"k"`
	Source int32  `json:"s"`
}

// readLines reads every JSON line of the files in a folder whose names match a pattern, in the order of their names.
func readLines[T any](folder, pattern string, progress Progress) ([]T, error) {
	paths, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no file %s", folder, pattern)
	}
	slices.Sort(paths)
	var lines []T
	for i, path := range paths {
		progress("read "+pattern, i, len(paths))
		if lines, err = readFile(lines, path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	progress("read "+pattern, len(paths), len(paths))
	return lines, nil
}

func readFile[T any](lines []T, path string) (_ []T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var text io.Reader
	if strings.HasSuffix(path, ".gz") {
		text, err = gzip.NewReader(file)
	} else {
		var decoder *zstd.Decoder
		if decoder, err = zstd.NewReader(file); err == nil {
			defer decoder.Close()
			text = decoder
		}
	}
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bufio.NewReaderSize(text, 1<<20))
	for {
		var line T
		switch err := decoder.Decode(&line); err {
		case nil:
			lines = append(lines, line)
		case io.EOF:
			return lines, nil
		default:
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
	}
}

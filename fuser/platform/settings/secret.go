package settings

import (
	"cmp"
	"os"
	"strings"
)

// Secret returns the text of a file, without white space around it. Without a file it is the first of the values that is not empty.
func Secret(file string, values ...string) (string, error) {
	if file == "" {
		return cmp.Or(values...), nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// written is what connect has written to a file. Undo needs it to give the file back.
type written struct {
	Sum     string   `json:"sum"`            // SHA-256 of the text
	Existed bool     `json:"existed"`        // the copy has the text from before
	Made    []string `json:"made,omitempty"` // folders that connect made, innermost first
}

func sum(text []byte) string {
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}

// readRecord returns what connect has written, by the file's path.
func readRecord(path string) (map[string]written, error) {
	all := map[string]written{}
	text, err := read(path)
	if err != nil || text == nil {
		return all, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it, and undo edits the files", path, err)
	}
	return all, nil
}

// note records the change before it is made, and keeps a copy of the file from before the first one. It returns what
// is known of the file, with the folders that connect has made for it in this folder.
func (c Change) note(folder string) (written, error) {
	all, err := readRecord(c.record)
	if err != nil {
		return written{}, err
	}
	w, known := all[c.Path]
	if c.undo {
		delete(all, c.Path)
	} else {
		fresh := c.first || !known && !exists(c.Path+backup)
		if fresh {
			w.Existed = c.Before != nil
			if w.Existed {
				if err := write(c.Path+backup, c.Before, 0o600); err != nil {
					return w, err
				}
			}
		}
		for ; !exists(folder); folder = filepath.Dir(folder) {
			w.Made = append(w.Made, folder)
		}
		if fresh || w.Sum == sum(c.Before) {
			w.Sum = sum(c.After)
		} // else somebody has changed the file, so that undo must edit it
		all[c.Path] = w
	}
	if len(all) == 0 {
		return w, os.RemoveAll(c.record)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return w, err
	}
	if err := os.MkdirAll(filepath.Dir(c.record), 0o700); err != nil {
		return w, err
	}
	return w, write(c.record, text, 0o600)
}

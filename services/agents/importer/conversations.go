package importer

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/triskele/triskele/services/agents/capture"
	"github.com/triskele/triskele/services/agents/transcript"
)

// Conversations reads what was said from agents' sessions and from exports of chats: a memory for each turn, as package capture makes
// them, but without an end of life. A turn has the same id as when it is captured.
type Conversations struct {
	io.Closer // of an archive
	format    transcript.Format
	namespace string
	private   capture.Private
	folder    fs.FS // or an archive
	files     []conversationFile
	unread    []Item // what cannot be read
	total     int64  // of the files, in bytes
}

// disk is a folder. Unlike that of os.DirFS, it opens files whose names are not UTF-8.
type disk string

func (d disk) Open(name string) (fs.File, error) { return os.Open(d.path(name)) }

// Stat implements fs.StatFS. It follows links.
func (d disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(d.path(name)) }

// path is the path of a file of the folder. It is not cleaned: what ".." after a link means depends on the link.
func (d disk) path(name string) string {
	if d == "" {
		return name
	}
	return string(d) + "/" + name
}

type conversationFile struct {
	name string
	size int64
}

// compressed is the end of the names of sessions that Codex has compressed, as it does after a week.
const compressed = ".zst"

// subagents is the name of folders in which Claude Code keeps what is no session of the user's.
const subagents = "subagents"

// names are the patterns of files in folders and archives, by format.
var names = map[transcript.Format][]string{
	transcript.ClaudeCode: {"*.jsonl"}, transcript.Codex: {"rollout-*.jsonl", "rollout-*.jsonl" + compressed}, transcript.Gemini: {"session-*.json", "session-*.jsonl"},
	transcript.ChatGPT: {"conversations*.json"}, transcript.Claude: {"conversations*.json"},
}

// OpenConversations opens a file, a folder with all folders in it, or a zip archive, and leaves private sessions out. Close it when done.
func OpenConversations(format transcript.Format, location, namespace string, private capture.Private) (*Conversations, error) {
	c := &Conversations{Closer: io.NopCloser(nil), format: format, namespace: namespace, private: private, folder: disk(location)}
	info, err := os.Stat(location)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		err = fs.WalkDir(c.folder, ".", c.add)
	case strings.EqualFold(filepath.Ext(location), ".zip"):
		archive, failed := zip.OpenReader(location)
		if failed != nil {
			return nil, failed
		}
		c.folder, c.Closer = archive, archive
		err = fs.WalkDir(c.folder, ".", c.add)
	default:
		folder, name := filepath.Split(location)
		c.folder, c.files = disk(folder), []conversationFile{{name, info.Size()}}
	}
	if err == nil && len(c.files)+len(c.unread) == 0 {
		err = fmt.Errorf("%s has no file called %s", location, strings.Join(names[format], " or "))
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	for _, f := range c.files {
		c.total += f.size
	}
	return c, nil
}

// Total implements Source, in bytes.
func (c *Conversations) Total() int64 { return c.total }

// add adds a file if it is one of the format. It implements fs.WalkDirFunc.
func (c *Conversations) add(name string, entry fs.DirEntry, err error) error {
	if err != nil && name != "." {
		c.unread = append(c.unread, skip(name, "folder cannot be read", reason(err)))
		return fs.SkipDir
	}
	if err == nil && entry.IsDir() && c.format == transcript.ClaudeCode && path.Base(name) == subagents {
		return fs.SkipDir
	}
	if err != nil || entry.IsDir() {
		return err
	}
	named := slices.ContainsFunc(names[c.format], func(pattern string) bool { ok, _ := path.Match(pattern, path.Base(name)); return ok })
	switch info, err := fs.Stat(c.folder, name); {
	case err != nil && named:
		c.unread = append(c.unread, skip(name, "not readable", reason(err)))
	case err != nil:
	case info.IsDir():
		c.unread = append(c.unread, skip(name, "link to a folder", "it is not followed: import that folder by its own name"))
	case info.Mode().IsRegular() && named:
		c.files = append(c.files, conversationFile{name, info.Size()})
	}
	return nil
}

// Read implements Source. Turns that capture would leave out are left out.
func (c *Conversations) Read(_ context.Context, take func(Item) error) error {
	for _, item := range c.unread {
		if err := take(item); err != nil {
			return err
		}
	}
	done := int64(0)
	chosen := capture.Chooser{Private: c.private}
	for _, f := range c.files {
		if err := c.read(f, &chosen, func(item Item) error { item.Done = done; return take(item) }); err != nil {
			return err
		}
		done += f.size
	}
	return nil
}

func (c *Conversations) read(f conversationFile, chosen *capture.Chooser, take func(Item) error) error {
	if problem := c.foreign(f); problem != "" {
		return take(skip(f.name, "not readable", problem))
	}
	in, err := c.opened(f.name)
	if err != nil {
		return take(skip(f.name, "not readable", reason(err)))
	}
	defer func() { _ = in.Close() }()
	n, folder := 0, ""
	if file, onDisk := in.(*os.File); onDisk {
		folder = capture.FolderOf(file.Name())
	}
	for turn, err := range transcript.Read(c.format, in, c.session) {
		if damage, ok := errors.AsType[*transcript.Damage](err); ok {
			if err := take(skip(f.name+", "+damage.Place, "not readable", damage.Reason)); err != nil {
				return err
			}
			continue
		}
		n++
		item := Item{Position: fmt.Sprintf("%s:%d", f.name, n), Replaces: true}
		if err != nil {
			return take(skip(item.Position, "not readable", "the file is damaged from here on: "+err.Error()))
		}
		turn.Folder = cmp.Or(turn.Folder, folder)
		if keep, err := chosen.Choose(turn); err != nil {
			return err
		} else if keep != capture.Keep {
			continue
		}
		var redacted int
		item.Memory, redacted = capture.Memory(turn, c.namespace)
		if redacted > 0 {
			item.note("secrets replaced", fmt.Sprintf("%d in this turn", redacted))
		}
		if err := item.check(); err != nil {
			return err
		}
		if err := take(item); err != nil {
			return err
		}
	}
	return nil
}

// session opens a session by its id, with which the name of its file ends.
func (c *Conversations) session(id string) (io.ReadCloser, error) {
	i := slices.IndexFunc(c.files, func(f conversationFile) bool {
		return strings.HasSuffix(strings.TrimSuffix(f.name, compressed), id+".jsonl")
	})
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	return c.opened(c.files[i].name)
}

// opened opens a file, and decompresses it if its name says so.
func (c *Conversations) opened(name string) (io.ReadCloser, error) {
	in, err := c.folder.Open(name)
	if err != nil || path.Ext(name) != compressed {
		return in, err
	}
	decoder, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1)) // without goroutines, so that it need not be closed
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{decoder, in}, nil
}

// foreign says why a file is no session of the format, or returns "". Exports have no common form to know them by.
func (c *Conversations) foreign(f conversationFile) (problem string) {
	if c.format == transcript.ChatGPT || c.format == transcript.Claude || f.size == 0 {
		return ""
	}
	in, err := c.opened(f.name)
	if err != nil {
		return reason(err)
	}
	defer func() { _ = in.Close() }()
	switch found, err := transcript.Detect(in); {
	case err != nil:
		return err.Error()
	case found != c.format:
		return fmt.Sprintf("this is a session of another agent, which is read with --from %s", found)
	}
	return ""
}

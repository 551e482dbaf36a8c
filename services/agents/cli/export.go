package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/triskele/triskele/fuser/platform/replace"
	"github.com/triskele/triskele/services/agents/internal/render"
)

type exportCmd struct {
	Output string `short:"o" help:"File to write, which appears only when it is complete; standard output if not given." placeholder:"FILE"`
	namespaceFlag
	gatewayFlags
}

func (c *exportCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, func(s *session) error {
		if c.Output == "" || c.Output == "-" {
			_, err := c.export(ctx, env, s, env.Out)
			return err
		}
		var n int64
		if err := writeWhole(ctx, c.Output, func(out io.Writer) (err error) {
			n, err = c.export(ctx, env, s, out)
			return err
		}); err != nil {
			return err
		}
		return env.beside(c.Output).print(fmt.Sprintf("exported %s to %s\n", render.Count(n, "memory", "memories"), c.Output))
	})
}

// beside returns the environment for what a command says about a file that it has written. Standard error gets it if the file is
// standard output, by a name such as /dev/stdout.
func (e *Env) beside(path string) *Env {
	out, ok := e.Out.(*os.File)
	if !ok {
		return e
	}
	printed, failed := out.Stat()
	if written, err := os.Stat(path); err != nil || failed != nil || !os.SameFile(printed, written) {
		return e
	}
	other := *e
	other.Out = e.Err
	return &other
}

// writeWhole writes a file that only its owner can read. It replaces the file at the path, or that a link there leads to, once it is
// complete. It writes into what is no file, such as a pipe, until ctx ends.
func writeWhole(ctx context.Context, path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		out, err := openFile(ctx, path, os.O_WRONLY)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { _ = out.Close() })() // ends a write that nobody reads
		return errors.Join(write(out), out.Close())
	}
	return replace.File(replace.Target(path), func(part *os.File) error { return write(part) })
}

// openFile opens what is there. A pipe waits for its other end, until ctx ends.
func openFile(ctx context.Context, path string, flag int) (*os.File, error) {
	var out *os.File
	opened := make(chan error, 1)
	go func() {
		var err error
		out, err = os.OpenFile(path, flag, 0)
		opened <- err
	}()
	select {
	case err := <-opened:
		return out, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// export streams without a deadline, because its duration grows with the namespace.
func (c *exportCmd) export(ctx context.Context, env *Env, s *session, out io.Writer) (n int64, err error) {
	bar := newProgress(env, -1, true, "export")
	defer bar.done()
	buffered, written := bufio.NewWriter(out), int64(0)
	for m, err := range s.Export(ctx, c.Namespace) {
		if err != nil {
			return n, errors.Join(err, buffered.Flush())
		}
		line, err := render.JSONLine(m)
		if err != nil {
			return n, err
		}
		if _, err := buffered.Write(line); err != nil {
			return n, err
		}
		n++
		written += int64(len(line))
		bar.reached(written, n)
	}
	return n, buffered.Flush()
}

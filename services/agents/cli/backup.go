package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/triskele/triskele/services/agents/backup"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/wiring/backend"
)

type backupCmd struct {
	File string `arg:"" help:"File to write. It appears only when it is complete."`
	databaseFlags
	jsonFlag
}

func (c *backupCmd) Run(ctx context.Context, env *Env) error {
	return c.migrated(ctx, env, func(b *backend.Backend) error {
		var contents backup.Contents
		err := writeWhole(ctx, c.File, func(out io.Writer) (err error) {
			contents, err = backup.Write(ctx, b.Memory(), b.Lexical(unloaded(ctx, b), lexical.DefaultConfig()), out)
			return err
		})
		return env.beside(c.File).answer(err, c.JSON, contents, "wrote "+holding(contents)+" to "+c.File+"\n")
	})
}

type restoreCmd struct {
	File   string `arg:"" help:"File that triskele backup wrote."`
	Verify bool   `help:"Only verify the file."`
	databaseFlags
	jsonFlag
}

func (c *restoreCmd) Run(ctx context.Context, env *Env) error {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if c.Verify {
		contents, err := backup.Verify(file)
		return env.answer(err, c.JSON, contents, c.File+" is complete: "+holding(contents)+"\n")
	}
	return c.migrated(ctx, env, func(b *backend.Backend) error {
		contents, err := backup.Restore(ctx, b.Memory(), b.Lexical(unloaded(ctx, b), lexical.DefaultConfig()), file)
		return env.answer(err, c.JSON, contents, "restored "+holding(contents)+"\n")
	})
}

func holding(c backup.Contents) string {
	return fmt.Sprintf("%s of %s", render.Count(c.Memories, "memory", "memories"), render.Count(c.Namespaces, "namespace", "namespaces"))
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/wiring/backend"
)

type lexicalCmd struct {
	Settings lexicalSettingsCmd `cmd:"" help:"Show or change the lexical settings of a namespace."`
	Reindex  lexicalReindexCmd  `cmd:"" help:"Rebuild the lexical index of a namespace, for example after an upgrade."`
}

type lexicalSettingsCmd struct {
	Namespace string   `arg:"" help:"Namespace."`
	Language  *string  `help:"Language of its texts: ${languages}. A change rebuilds the index." placeholder:"NAME"`
	K1        *float64 `name:"k1" help:"BM25's k1, 0 to 10." placeholder:"K1"`
	B         *float64 `help:"BM25's b, 0 to 1." placeholder:"B"`
	Prefix    *bool    `help:"Whether the last word of a query also finds longer words." negatable:""`
	Scorer    *string  `help:"Scorer of requests that name none: ${scorers}, or default for the service's own." enum:"${scorers},default" placeholder:"NAME"`
	databaseFlags
	jsonFlag
}

// Validate implements kong's interface. No memory could be in a namespace with a name that is none.
func (c *lexicalSettingsCmd) Validate() error {
	return cmp.Or(c.databaseFlags.Validate(), checkNamespace(c.Namespace))
}

func (c *lexicalSettingsCmd) Run(ctx context.Context, env *Env) error {
	return c.lexical(ctx, env, func(leg *lexical.Leg) error {
		settings, err := leg.Settings(ctx, c.Namespace)
		if err != nil {
			return err
		}
		changed := settings
		override(&changed.Language, c.Language)
		override(&changed.K1, c.K1)
		override(&changed.B, c.B)
		override(&changed.Prefix, c.Prefix)
		if c.Scorer != nil {
			changed.Scorer = lexical.ScorerByName(*c.Scorer)
		}
		switch {
		case changed != settings:
			err = leg.Set(ctx, c.Namespace, changed)
		case c.Language != nil: // an earlier run may have been interrupted while it rebuilt the index
			err = leg.Reindex(ctx, c.Namespace)
		}
		if err != nil {
			return err
		}
		scorer := cmp.Or(lexical.ScorerName(changed.Scorer), "default")
		return env.show(c.JSON, map[string]any{"language": changed.Language, "k1": changed.K1, "b": changed.B, "prefix": changed.Prefix, "scorer": scorer},
			fmt.Sprintf("language %s\nk1       %g\nb        %g\nprefix   %t\nscorer   %s\n", changed.Language, changed.K1, changed.B, changed.Prefix, scorer))
	})
}

func override[T any](value *T, given *T) {
	if given != nil {
		*value = *given
	}
}

type lexicalReindexCmd struct {
	Namespace string `arg:"" help:"Namespace."`
	databaseFlags
}

func (c *lexicalReindexCmd) Run(ctx context.Context, env *Env) error {
	return c.migrated(ctx, env, func(b *backend.Backend) error {
		if _, err := b.Memory().Namespace(ctx, c.Namespace); errors.Is(err, memory.ErrNotFound) {
			return fmt.Errorf("namespace %q is unknown", c.Namespace)
		} else if err != nil {
			return err
		}
		return b.Lexical(unloaded(ctx, b), lexical.DefaultConfig()).Reindex(ctx, c.Namespace)
	})
}

// lexical calls fn with the lexical leg of a database that has its schema.
func (d databaseFlags) lexical(ctx context.Context, env *Env, fn func(*lexical.Leg) error) error {
	return d.migrated(ctx, env, func(b *backend.Backend) error { return fn(b.Lexical(unloaded(ctx, b), lexical.DefaultConfig())) }, "lexical")
}

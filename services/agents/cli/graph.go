package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/agents/internal/lines"
	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/embed/open"
	"github.com/triskele/triskele/services/graph"
	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/wiring/backend"
)

type graphCmd struct {
	Show      graphShowCmd      `cmd:"" help:"Show a concept's other names, memories and facts."`
	Neighbors graphNeighborsCmd `cmd:"" help:"List the neighbours of a concept."`
	Path      graphPathCmd      `cmd:"" help:"Show the shortest path from one concept to another."`
	Stats     graphStatsCmd     `cmd:"" help:"Count the parts of a namespace's graph."`
	Export    graphExportCmd    `cmd:"" help:"Write the graph for other programs."`
	Import    graphImportCmd    `cmd:"" help:"Add facts from a file of triples."`
	Extract   graphExtractCmd   `cmd:"" help:"Have the extractor's model read older memories, or switch extraction off."`
}

type graphFlags struct {
	Namespace string `short:"n" help:"Namespace." default:"default" env:"TRISKELE_NAMESPACE"`
	databaseFlags
	Embedder open.Flags `embed:"" group:"Embedder:"`
}

func (f *graphFlags) with(ctx context.Context, env *Env, fn func(*graph.Leg) error) error {
	var config graph.Config
	var err error
	if config.Embedder, _, err = f.Embedder.Open(env.Getenv); err != nil {
		return err
	}
	return f.migrated(ctx, env, func(b *backend.Backend) error {
		if _, err := b.Memory().Namespace(ctx, f.Namespace); errors.Is(err, memory.ErrNotFound) {
			return fmt.Errorf("namespace %q is unknown", f.Namespace)
		} else if err != nil {
			return err
		}
		return fn(b.Graph(unloaded(ctx, b), config))
	}, "memory", "graph")
}

func (f *graphFlags) view(ctx context.Context, env *Env, fn func(*graph.View) error) error {
	return f.with(ctx, env, func(index *graph.Leg) error {
		v, err := index.View(ctx, f.Namespace)
		if err != nil {
			return err
		}
		defer v.Close()
		return fn(v)
	})
}

// mentioned returns an error if no memory mentions one of the concepts.
func mentioned(v *graph.View, concepts ...string) error {
	for _, name := range concepts {
		if _, known := v.Concept(name); !known {
			return fmt.Errorf("no memory of the namespace mentions %q", name)
		}
	}
	return nil
}

type graphShowCmd struct {
	Concept string `arg:"" help:"Name of the concept, in any spelling."`
	jsonFlag
	graphFlags
}

func (c *graphShowCmd) Run(ctx context.Context, env *Env) error {
	return c.view(ctx, env, func(v *graph.View) error {
		concept, known := v.Concept(c.Concept)
		if !known {
			return mentioned(v, c.Concept)
		}
		style := env.style()
		var out strings.Builder
		out.WriteString(style.Bold(render.Plain(concept.Name)) + "\n")
		if len(concept.Aliases) > 0 {
			fmt.Fprintf(&out, "also      %s\n", render.Plain(strings.Join(concept.Aliases, ", ")))
		}
		fmt.Fprintf(&out, "mentioned in %s, the title of %d\n", render.Count(int64(len(concept.Memories)), "memory", "memories"), len(concept.Pages))
		for _, id := range concept.Memories {
			fmt.Fprintf(&out, "  %s\n", id)
		}
		for _, f := range concept.Facts {
			line := fmt.Sprintf("%s  %s  %s", f.Subject, f.Relation, f.Object)
			span := "since " + f.From.Format(time.DateOnly)
			if !f.To.IsZero() {
				span = f.From.Format(time.DateOnly) + " to " + f.To.Format(time.DateOnly)
			}
			fmt.Fprintf(&out, "%s\n  %s", render.Plain(line), style.Dim(span+", says "+f.Memory.String()))
			if f.ClosedBy != uuid.Nil {
				out.WriteString(style.Dim(", replaced by " + f.ClosedBy.String()))
			}
			out.WriteString("\n")
		}
		return env.show(c.JSON, concept, out.String())
	})
}

type graphNeighborsCmd struct {
	Concept string `arg:"" help:"Name of the concept, in any spelling."`
	Limit   int    `help:"Maximum number of neighbours." default:"25"`
	JSON    bool   `help:"Print each as a line of JSON."`
	graphFlags
}

func (c *graphNeighborsCmd) Run(ctx context.Context, env *Env) error {
	return c.view(ctx, env, func(v *graph.View) error {
		list := v.Neighbours(c.Concept)
		if len(list) == 0 {
			return cmp.Or(mentioned(v, c.Concept), errors.New("the concept has no neighbours"))
		}
		for _, n := range list[:min(len(list), max(c.Limit, 0))] {
			text := fmt.Sprintf("%4d  %s", n.Memories, render.Plain(n.Name))
			if len(n.Facts) > 0 {
				text += "  " + env.style().Dim(render.Plain(strings.Join(n.Facts, ", ")))
			}
			if err := env.showLine(c.JSON, n, text+"\n"); err != nil {
				return err
			}
		}
		return nil
	})
}

type graphPathCmd struct {
	From string `arg:"" help:"A concept."`
	To   string `arg:"" help:"Another concept."`
	jsonFlag
	graphFlags
}

func (c *graphPathCmd) Run(ctx context.Context, env *Env) error {
	return c.view(ctx, env, func(v *graph.View) error {
		steps := v.Path(c.From, c.To)
		if len(steps) == 0 {
			return cmp.Or(mentioned(v, c.From, c.To), errors.New("no path leads from one to the other"))
		}
		return env.show(c.JSON, steps, drawPath(steps))
	})
}

func drawPath(steps []leg.Step) string {
	var out strings.Builder
	for _, s := range steps {
		name := s.Concept
		if s.Memory != uuid.Nil {
			name = "memory " + s.Memory.String()
		}
		if s.Relation != "" {
			fmt.Fprintf(&out, "  %s\n", render.Plain(s.Relation))
		}
		fmt.Fprintf(&out, "%s\n", render.Plain(name))
	}
	return out.String()
}

type graphStatsCmd struct {
	jsonFlag
	graphFlags
}

func (c *graphStatsCmd) Run(ctx context.Context, env *Env) error {
	return c.with(ctx, env, func(index *graph.Leg) error {
		v, err := index.View(ctx, c.Namespace)
		if err != nil {
			return err
		}
		s := v.Stats()
		v.Close()
		read, err := index.Extracted(ctx, c.Namespace)
		return env.answer(err, c.JSON, struct {
			graph.Stats
			Read   int64 `json:"read"` // memories read by a model
			Tokens int64 `json:"tokens"`
		}{s, read.Memories, read.Tokens}, fmt.Sprintf("memories %10d\nconcepts %10d, %d of one memory, %d of too many to lead on\nmentions %10d\nfacts    %10d\nlinks    %10d\nvectors  %10d\nread     %10d by a model, for %d tokens\n",
			s.Memories, s.Concepts, s.Singletons, s.Hubs, s.Mentions, s.Facts, s.Links, s.Vectors, read.Memories, read.Tokens))
	})
}

type graphExtractCmd struct {
	Off bool `help:"Switch extraction off in the whole database and drop its queue. Facts stay."`
	jsonFlag
	graphFlags
}

func (c *graphExtractCmd) Run(ctx context.Context, env *Env) error {
	if c.Off {
		return c.migrated(ctx, env, func(b *backend.Backend) error {
			err := b.Graph(unloaded(ctx, b), graph.Config{}).SetExtraction(ctx, false)
			return env.answer(err, c.JSON, map[string]bool{"on": false}, "extraction is off\n")
		}, "memory", "graph")
	}
	return c.with(ctx, env, func(index *graph.Leg) error {
		on, err := index.Extraction(ctx)
		if err != nil {
			return err
		}
		if !on {
			return errors.New("extraction is off: start `triskele up` or graphd with --extractor-url")
		}
		n, err := index.EnqueueExtraction(ctx, c.Namespace)
		return env.answer(err, c.JSON, map[string]any{"on": true, "memories": n}, render.Count(n, "memory", "memories")+" to be read\n")
	})
}

type graphExportCmd struct {
	Format string `help:"graphml, dot, or triples as import reads them." enum:"graphml,dot,triples" default:"graphml"`
	graphFlags
}

type triple struct {
	Memory    uuid.UUID `json:"memory"`
	Subject   string    `json:"subject"`
	Relation  string    `json:"relation"`
	Object    string    `json:"object"`
	Single    bool      `json:"single,omitempty"`
	ValidFrom time.Time `json:"valid_from"`
	ValidTo   time.Time `json:"valid_to,omitzero"`
}

func (c *graphExportCmd) Run(ctx context.Context, env *Env) error {
	return c.view(ctx, env, func(v *graph.View) error {
		switch c.Format {
		case "graphml":
			return v.GraphML(env.Out)
		case "dot":
			return v.DOT(env.Out)
		}
		encoder := json.NewEncoder(env.Out)
		for _, s := range v.Triples() {
			t := triple{s.Memory, s.Subject, s.Relation, s.Object, s.Single, s.From, s.StatedTo}
			if err := encoder.Encode(t); err != nil {
				return err
			}
		}
		return nil
	})
}

type graphImportCmd struct {
	File   string `arg:"" help:"JSONL file, - for standard input."`
	Single bool   `help:"A subject has one object at a time for each relation of the file: the newest fact replaces the others."`
	jsonFlag
	graphFlags
}

const maxTriple = 8 << 10 // bytes of a line

// Run imports triples, each batch atomically.
func (c *graphImportCmd) Run(ctx context.Context, env *Env) error {
	in, err := env.open(ctx, c.File)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return c.with(ctx, env, func(index *graph.Leg) error {
		if err := index.CheckModel(ctx, c.Namespace); err != nil {
			return err
		}
		var batch []graph.Fact
		read, stored := 0, 0
		flush := func() error {
			n, err := index.PutFacts(ctx, c.Namespace, batch)
			stored, batch = stored+n, batch[:0]
			return err
		}
		for line, err := range lines.All(in, maxTriple) {
			if err != nil {
				return err
			}
			fact, err := c.fact(line)
			if err != nil {
				return err
			}
			read++
			if batch = append(batch, fact); len(batch) == graph.MaxFacts {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		err := flush()
		text := render.Count(int64(stored), "fact", "facts") + " stored"
		if read > stored {
			text += fmt.Sprintf(", %d left out: repeated, with subject and object the same, or of a missing or sensitive memory", read-stored)
		}
		return env.answer(err, c.JSON, map[string]int{"read": read, "stored": stored}, text+"\n")
	})
}

func (c *graphImportCmd) fact(line lines.Line) (graph.Fact, error) {
	var t triple
	switch {
	case line.Long:
		return graph.Fact{}, fmt.Errorf("line %d has more than %d bytes", line.Number, maxTriple)
	case json.Unmarshal(line.Text, &t) != nil:
		return graph.Fact{}, fmt.Errorf("line %d is not a triple", line.Number)
	}
	fact := graph.Fact{
		Memory: t.Memory, Subject: t.Subject, Relation: t.Relation, Object: t.Object, Single: t.Single || c.Single, From: t.ValidFrom.UTC(), To: t.ValidTo.UTC(),
	}
	if err := fact.Check(); err != nil {
		return fact, fmt.Errorf("line %d: %w", line.Number, err)
	}
	return fact, nil
}

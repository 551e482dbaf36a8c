package dense_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/store/queue"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/schema"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// remote is a model on another host.
func remote(e embed.Embedder) *watched {
	m := e.Model()
	m.Local = false
	return &watched{Embedder: modelled{e, m, &sync.Map{}}}
}

func sensitive(r *record.Record) { r.Sensitive = true }

func allow(t testing.TB, f *storetest.Fixture) int64 {
	t.Helper()
	n, err := models(f).AllowSensitive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func forbid(t testing.TB, f *storetest.Fixture) int64 {
	t.Helper()
	n, err := models(f).ForbidSensitive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func excluded(t testing.TB, s store) int64 {
	t.Helper()
	status, err := s.Status(t.Context(), "ns")
	if err != nil {
		t.Fatal(err)
	}
	return status.Excluded
}

func setSensitive(t testing.TB, f *storetest.Fixture, id uuid.UUID, to bool) {
	t.Helper()
	if _, err := f.Memory.Update(t.Context(), "ns", id, 0, func(r *record.Record) error { r.Sensitive = to; return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestLocalModelMayEmbedSensitiveMemories(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		if _, err := models(f).AllowSensitive(t.Context()); err == nil {
			t.Error("sensitive memories were allowed without a model")
		}
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		secret := c.add(t, f, s, "secret", "the safe opens with 4711", sensitive)
		plain := c.add(t, f, s, "plain", "the safe is in the hall", nil)
		if n := excluded(t, s); n != 1 || vectors(t, f) != 1 {
			t.Errorf("by default %d are excluded and %d have vectors", n, vectors(t, f))
		}

		if n := allow(t, f); n != 1 || vectors(t, f) != 1 {
			t.Errorf("%d enqueued, %d vectors", n, vectors(t, f))
		}
		f.Drain(t, "dense", s)
		c.expect(t, search(t, s, "the safe opens with 4711", nil), "secret", "plain")
		if n := excluded(t, s); n != 0 {
			t.Errorf("%d are excluded where none are", n)
		}
		c.add(t, f, s, "later", "the safe has a second key", sensitive)
		if vectors(t, f) != 3 {
			t.Errorf("%d vectors, want 3", vectors(t, f))
		}

		// Turning a memory sensitive, or back, purges first.
		for _, to := range []bool{true, false} {
			setSensitive(t, f, plain.ID, to)
			if n := vectors(t, f); n != 2 {
				t.Errorf("turned sensitive=%v: %d vectors before indexing, want 2", to, n)
			}
			f.Drain(t, "dense", s)
			if n := vectors(t, f); n != 3 {
				t.Errorf("turned sensitive=%v: %d vectors after indexing, want 3", to, n)
			}
		}
		// What was claimed before the flag changed is not written after.
		stale := plain
		stale.Sensitive = true
		if err := s.Index(t.Context(), []record.Record{stale}); err != nil || vectors(t, f) != 3 {
			t.Errorf("a record whose flag has changed: %v, %d vectors", err, vectors(t, f))
		}

		f.Insert(t, storetest.Record("ns", "a third key", sensitive))
		if n := forbid(t, f); n != 2 || vectors(t, f) != 1 || excluded(t, s) != 3 {
			t.Errorf("forbidden: %d removed, %d left, %d excluded", n, vectors(t, f), excluded(t, s))
		}
		if tasks := claim(t, f); len(tasks) != 0 {
			t.Errorf("tasks of sensitive memories are left: %v", tasks)
		}
		if err := s.Index(t.Context(), []record.Record{secret}); err != nil || vectors(t, f) != 1 {
			t.Errorf("indexed although forbidden: %v, %d vectors", err, vectors(t, f))
		}
		c.expect(t, search(t, s, "the safe opens with 4711", nil), "plain")
		if n := forbid(t, f); n != 0 {
			t.Errorf("forbidding again removed %d", n)
		}
	})
}

// The permission, and that a model is local, are the database's to check, whatever the application believes.
func TestDatabaseGuardsSensitiveVectors(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		s, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		secret := c.add(t, f, s, "secret", "the safe opens with 4711", sensitive)
		insert := func() error {
			vector := make([]float32, 256)
			vector[0] = 1
			if f.Engine == schema.Postgres {
				return exec(f, `INSERT INTO dense.vectors (namespace, memory_id, model_id, sensitive, revision, embedding) VALUES ('ns', $1, 1, true, 1, $2::float4[]::halfvec)`,
					secret.ID, vector)
			}
			return exec(f, `INSERT INTO dense_vectors (namespace, memory_id, model_id, sensitive, revision, embedding) VALUES ('ns', ?, 1, 1, 1, ?)`, secret.ID[:], halves(vector))
		}
		either := func(postgres, sqlite string) error {
			if f.Engine == schema.Postgres {
				return exec(f, postgres)
			}
			return exec(f, sqlite)
		}
		permit := func() error {
			return either(`INSERT INTO dense.model_rows (model_id, sensitive, local) SELECT id, true, local FROM dense.models`,
				`INSERT INTO dense_model_rows (model_id, sensitive, local) SELECT id, 1, local FROM dense_models`)
		}
		local := func(yes string) error {
			return either(`UPDATE dense.models SET local = `+yes, `UPDATE dense_models SET local = `+yes)
		}
		steps := []struct {
			what string
			do   func() error
			ok   bool
		}{
			{"a vector without permission", insert, false},
			{"moving the model away", func() error { return local("false") }, true},
			{"permission for a model elsewhere", permit, false},
			{"moving the model back", func() error { return local("true") }, true},
			{"permission for a local model", permit, true},
			{"a vector with permission", insert, true},
			{"moving the model away with its permission", func() error { return local("false") }, false},
			{"permission withdrawn from under its vectors", func() error {
				return either(`DELETE FROM dense.model_rows WHERE sensitive`, `DELETE FROM dense_model_rows WHERE sensitive`)
			}, false},
			{"a task without permission", func() error {
				return either(`INSERT INTO memory.index_queue (namespace, index_name, memory_id, sensitive, revision) SELECT namespace, 'dense', id, true, 1 FROM memory.memories`,
					`INSERT INTO index_queue (namespace, index_name, memory_id, sensitive, revision, enqueued_at, not_before) SELECT namespace, 'dense', id, 1, 1, 0, 0 FROM memories`)
			}, false},
		}
		for _, step := range steps {
			if err := step.do(); (err == nil) != step.ok {
				t.Errorf("%s: %v", step.what, err)
			}
		}
		if n := vectors(t, f); n != 1 {
			t.Errorf("%d vectors", n)
		}
	})
}

func exec(f *storetest.Fixture, statement string, args ...any) (err error) {
	if f.Engine == schema.Postgres {
		_, err = f.Pool.Exec(context.Background(), statement, args...)
	} else {
		_, err = f.DB.Write.ExecContext(context.Background(), statement, args...)
	}
	return err
}

func TestModelElsewhereNeverGetsSensitiveMemories(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		here, c := mustOpen(t, f, embed.NewHashed()), corpus{}
		secret := c.add(t, f, here, "secret", "canary 4711", sensitive)
		c.add(t, f, here, "plain", "the safe is in the hall", nil)

		// A process with the same model on another host is as good as any until sensitive memories are allowed.
		abroad := remote(embed.NewHashed())
		there := mustOpen(t, f, abroad)
		if _, err := models(f).AllowSensitive(t.Context()); err == nil || !strings.Contains(err.Error(), "(256 dimensions): it sends texts to another host") {
			t.Errorf("sensitive memories were allowed for a model elsewhere: %v", err)
		}
		here = mustOpen(t, f, embed.NewHashed())
		allow(t, f)
		if _, err := open(t, f, remote(embed.NewHashed())); err == nil || !strings.Contains(err.Error(), "triskele models embed-sensitive off") {
			t.Errorf("a process that would send sensitive memories away was let in: %v", err)
		}
		if err := there.Index(t.Context(), []record.Record{secret}); !errors.Is(err, queue.ErrPaused) {
			t.Errorf("a process that runs on with the model elsewhere: %v", err)
		}
		f.Drain(t, "dense", here)
		if n := vectors(t, f); n != 2 {
			t.Errorf("%d vectors, want 2", n)
		}

		// A change to a local model takes the permission along, one to a model elsewhere ends it.
		if done := reembed(t, f, small(t)); done.Embedded != 2 || vectors(t, f) != 4 {
			t.Errorf("to a local model: %+v, %d vectors", done, vectors(t, f))
		}
		away := remote(prefixed(embed.NewHashed(), "d: ", "q: "))
		if done := reembed(t, f, away); done.Embedded != 1 || vectors(t, f) != 3 {
			t.Errorf("to a model elsewhere: %+v, %d vectors, want one of each model", done, vectors(t, f))
		}
		f.Insert(t, storetest.Record("ns", "canary 4712", sensitive))
		f.Drain(t, "dense", mustOpen(t, f, away))
		for _, w := range []*watched{abroad, away} {
			for text := range w.texts {
				if strings.Contains(text, "canary") {
					t.Errorf("%q was sent away", text)
				}
			}
		}
		if _, err := models(f).AllowSensitive(t.Context()); err == nil {
			t.Error("sensitive memories were allowed for a model elsewhere")
		}
	})
}

// Whatever is under way when the permission ends, no vector of a sensitive memory is there afterwards.
func TestForbidDuringIndexing(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, f *storetest.Fixture) {
		e := &watched{Embedder: embed.NewHashed()}
		s, c := mustOpen(t, f, e), corpus{}
		secret := c.add(t, f, s, "secret", "the safe opens with 4711", sensitive)
		plain := c.add(t, f, s, "plain", "the safe is in the hall", nil)
		allow(t, f)
		e.before = func([]string) error { forbid(t, f); return nil }
		if err := s.Index(t.Context(), []record.Record{secret, plain}); err != nil || vectors(t, f) != 1 {
			t.Errorf("%v, %d vectors", err, vectors(t, f))
		}

		// While a model is being built, too.
		e.before = nil
		allow(t, f)
		f.Drain(t, "dense", s)
		next := &watched{Embedder: small(t)}
		next.before = func([]string) error { forbid(t, f); return nil }
		if done, err := models(f).Reembed(t.Context(), next, 0, ignore); err != nil || !done.Switched || vectors(t, f) != 2 {
			t.Errorf("%+v, %v, %d vectors", done, err, vectors(t, f))
		}
		if tasks := claim(t, f); len(tasks) != 0 {
			t.Errorf("left to do: %v", tasks)
		}
	})
}

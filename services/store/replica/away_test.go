package replica

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/triskele/triskele/services/store/sqldb"
)

// TestNodeAway: a server that says that a node behind it is away answers, so namespaces of other nodes are asked about.
func TestNodeAway(t *testing.T) {
	s := New(t.Context(), sqldb.Store{}, Config{}, noop.Meter{}, slog.New(slog.DiscardHandler))
	s.lost(t.Context(), errors.New("connection refused"))
	if s.Concern() == "" {
		t.Error("got no concern while the server does not answer")
	}
	s.lost(t.Context(), &pgconn.PgError{Code: "08006"})
	if got := s.Concern(); got != "" {
		t.Errorf("got %q while a node is away, want no concern", got)
	}
}

// recovering is a database that answers from a time on.
type recovering struct {
	source
	from time.Time
}

func (r recovering) poll(_ context.Context, namespaces []string, _ []position) ([]bool, error) {
	if time.Now().Before(r.from) {
		return nil, errors.New("connection refused")
	}
	return make([]bool, len(namespaces)), nil
}

func (recovering) prune(context.Context) error { return nil }

// TestBackWhileNobodyAsks: a process that nobody has asked for a while knows as well when the database answers again. Else its next
// search would go by what it had, and say that the database does not answer.
func TestBackWhileNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := New(ctx, sqldb.Store{}, Config{}, noop.Meter{}, slog.New(slog.DiscardHandler))
		s.source = recovering{from: time.Now().Add(5 * time.Minute)}
		img := newImage("n", "")
		img.loaded, img.used = true, time.Now()
		s.images.Add(img.key(), img)
		go s.Follow(ctx)
		time.Sleep(4 * time.Minute)
		if s.Concern() == "" {
			t.Error("got no concern while the database does not answer")
		}
		time.Sleep(time.Minute + time.Second)
		if got := s.Concern(); got != "" {
			t.Errorf("got %q a second after the database has answered, want no concern", got)
		}
		cancel()
		synctest.Wait()
	})
}

// behind is recovering, with changes that take long to read.
type behind struct{ recovering }

func (b behind) poll(ctx context.Context, namespaces []string, at []position) ([]bool, error) {
	changed, err := b.recovering.poll(ctx, namespaces, at)
	for i := range changed {
		changed[i] = true
	}
	return changed, err
}

func (behind) snapshot(ctx context.Context, _ string, _ bool, _ func(Tx) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestBackBeforeAllIsRead: as soon as the database answers, searches ask it themselves, and do not wait until the changes of all namespaces
// have been read.
func TestBackBeforeAllIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := New(ctx, sqldb.Store{}, Config{}, noop.Meter{}, slog.New(slog.DiscardHandler))
		s.source = behind{recovering{from: time.Now().Add(time.Second)}}
		img := newImage("n", "")
		img.rows, img.loaded, img.used = NewRows(), true, time.Now()
		s.images.Add(img.key(), img)
		go s.Follow(ctx)
		time.Sleep(2 * time.Second)
		if got := s.Concern(); got != "" {
			t.Errorf("got %q a second after the database has answered, want no concern", got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestSizeOfAnImage: the texts that rows are found by count, and so do the numbers of writes.
func TestSizeOfAnImage(t *testing.T) {
	img := newImage("n", "")
	img.rows = NewRows()
	const long, memories = 1000, 50
	for i := range memories {
		img.rows.Put(Memory{ID: uuid.New(), Tags: []string{strings.Repeat("x", long) + string(rune('a'+i))}})
	}
	before := img.size()
	if before < long*memories {
		t.Errorf("got %d bytes, want those of %d tags of %d bytes at least", before, memories, long)
	}
	u := update{sequences: make([]int64, 2*maxSequences)}
	for i := range u.sequences {
		u.sequences[i] = int64(i + 1)
	}
	u.apply(img, 1)
	if got := img.size() - before; got < 8*maxSequences {
		t.Errorf("got %d bytes for %d numbers, want 8 each at least", got, maxSequences)
	}
	if !slices.Contains(img.seen, 2*maxSequences) || slices.Contains(img.seen, maxSequences) {
		t.Errorf("of %d numbers of writes, the image does not know the last %d", len(u.sequences), maxSequences)
	}
}

// TestCrowdedOutAlone: of two namespaces that have no room together, the one that finds out gives way, and the other goes on.
func TestCrowdedOutAlone(t *testing.T) {
	t.Parallel()
	s := New(t.Context(), sqldb.Store{}, Config{}, noop.Meter{}, slog.New(slog.DiscardHandler))
	s.bytes = 100
	first, second := newImage("first", ""), newImage("second", "")
	for _, step := range []struct {
		of    *image
		bytes int64
		want  error
	}{{first, 60, nil}, {second, 60, errCrowded}, {first, 61, nil}, {second, 61, errCrowded}, {first, 99, nil}, {first, 101, ErrTooLarge}} {
		if err := s.fits(step.of, step.bytes); !errors.Is(err, step.want) {
			t.Errorf("%s with %d bytes: got %v, want %v", step.of.namespace, step.bytes, err, step.want)
		}
	}
}

// TestLoadsMakeRoom: a namespace that is being loaded makes room as it grows, by what was searched longest ago. One that may turn out too
// large leaves half of the memory to others, and what is known of those without a copy in memory stays.
func TestLoadsMakeRoom(t *testing.T) {
	t.Parallel()
	s := New(t.Context(), sqldb.Store{}, Config{}, noop.Meter{}, slog.New(slog.DiscardHandler))
	s.bytes = 100
	for _, x := range []struct {
		namespace string
		bytes     int64
	}{{"large", 0}, {"old", 40}, {"newer", 20}, {"newest", 25}} {
		img := newImage(x.namespace, "")
		img.loaded = x.bytes > 0
		s.images.Add(img.key(), img)
		s.weigh(img, x.bytes)
	}
	loading := newImage("loading", "")
	loading.loading = make(chan struct{})
	s.images.Add(loading.key(), loading)
	for _, step := range []struct {
		bytes int64
		want  string
	}{{15, "large old newer newest loading"}, {16, "large newer newest loading"}, {99, "large newer newest loading"}} {
		if err := s.fits(loading, step.bytes); err != nil {
			t.Fatal(err)
		}
		var kept []string
		for _, img := range s.images.Values() {
			kept = append(kept, img.namespace)
		}
		if got := strings.Join(kept, " "); got != step.want {
			t.Errorf("with %d bytes loaded: got %s, want %s", step.bytes, got, step.want)
		}
	}
}

// missing is a database without namespaces at first. It looks for one when it is let go.
type missing struct {
	source
	looking chan struct{}
	looks   atomic.Int64
	exists  atomic.Bool
}

func (m *missing) snapshot(context.Context, string, bool, func(Tx) error) error {
	m.looks.Add(1)
	err := errNoNamespace
	if m.exists.Load() {
		err = errors.New("it exists")
	}
	m.looking <- struct{}{}
	return err
}

// TestCreatedWhileItIsLookedFor: a namespace that was created before a search arrived is not taken for missing because another search
// had looked for it before.
func TestCreatedWhileItIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := New(ctx, sqldb.Store{}, Config{Memory: 1}, noop.Meter{}, slog.New(slog.DiscardHandler))
		s.Register("none", Records, func(*Rows) Part { return nothing{} })
		database := &missing{looking: make(chan struct{})}
		s.source = database
		first, second := make(chan error, 1), make(chan error, 1)
		search := func(into chan error) {
			v, err := s.View(ctx, "n", Need{}, 1)
			if err == nil {
				v.Close()
			}
			into <- err
		}
		go search(first)
		synctest.Wait() // it looks
		time.Sleep(time.Millisecond)
		database.exists.Store(true)
		go search(second)
		synctest.Wait()
		<-database.looking
		if err := <-first; err != nil {
			t.Errorf("the search before the namespace existed: got %v, want none", err)
		}
		synctest.Wait()
		if looks := database.looks.Load(); looks != 2 {
			t.Fatalf("the database was asked %d times, want once by each search", looks)
		}
		<-database.looking
		if err := <-second; err == nil {
			t.Error("the search after the namespace existed takes it for missing")
		}
		cancel()
	})
}

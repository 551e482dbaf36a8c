package replica

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqlite"
)

const (
	// inUseFor is how long after a search a namespace's image is kept up to date.
	inUseFor = 30 * time.Second
	// maxImages bounds the images, however small they are.
	maxImages = 10_000
	// retryLoad is the pause after loading failed, and retryLarge after an image turned out too large.
	retryLoad, retryLarge = time.Second, time.Minute
	// catchUpShare is the share of a search's time that catching up may take.
	catchUpShare = 0.5
	// writeShare is the same for a search that asks for a write: a standby may take half of the time to receive it.
	writeShare = 0.8
	// A search that has less time than leastWait to catch up says nothing about the database if it fails to: Follow finds out.
	leastWait = 50 * time.Millisecond
)

// Set keeps the images of namespaces.
type Set struct {
	config   Config
	bytes    int64 // bound on all images
	source   source
	log      *slog.Logger
	legs     []registered
	empty    *image // of namespaces that do not exist
	told     atomic.Int64
	versions atomic.Int64 // of images, so far
	away     atomic.Bool
	wake     chan struct{}
	loads    chan struct{} // a semaphore
	stop     context.Context

	mu     sync.Mutex
	images map[imageKey]*image
	recent list.List // of *image, the most recently searched first
	total  int64     // bytes of all images
}

// imageKey tells images apart.
type imageKey struct{ namespace, question string }

func (img *image) key() imageKey { return imageKey{img.namespace, img.question} }

// registered is a leg's part.
type registered struct {
	name  string
	kind  Kind
	empty func(*Rows) Part
}

// image is a namespace in memory.
type image struct {
	namespace string
	question  string // with Config.Brief: all that will be asked, unless empty
	element   *list.Element
	turn      chan struct{} // its holder changes the image; a mutex that can be waited for with a context

	// mu guards what searches read.
	mu      sync.RWMutex
	rows    *Rows
	parts   []Part
	seen    sequences
	version int64 // View.Version
	dead    bool  // another namespace has the name now

	// Guarded by turn.
	at      position
	weighed time.Time // when bytes was computed

	// Guarded by Set.mu.
	loading chan struct{} // closed after the running load; nil if none runs
	loaded  bool
	err     error     // of the last load
	retry   time.Time // after err
	checked time.Time // the database was asked for changes at this time or later
	told    int64     // Set.told at this time
	used    time.Time
	bytes   int64
}

// NewPostgres returns an empty Set that follows a database, or its standby if that is not nil. Loading ends with ctx.
func NewPostgres(ctx context.Context, pool *pgxpool.Pool, standby *postgres.Standby, config Config, meter metric.Meter, log *slog.Logger) *Set {
	return newSet(ctx, &postgresSource{pool: pool, standby: standby}, config, meter, log)
}

// NewSQLite returns an empty Set that follows a file. Loading ends with ctx.
func NewSQLite(ctx context.Context, db *sqlite.DB, config Config, meter metric.Meter, log *slog.Logger) *Set {
	return newSet(ctx, &sqliteSource{db: db}, config, meter, log)
}

func newSet(ctx context.Context, from source, config Config, meter metric.Meter, log *slog.Logger) *Set {
	s := &Set{
		config: config, bytes: config.Memory << 20, source: from, log: log, images: map[imageKey]*image{},
		wake: make(chan struct{}, 1), loads: make(chan struct{}, 2), stop: ctx, empty: &image{rows: NewRows(), loaded: true},
	}
	s.hold(0)
	for _, gauge := range []struct {
		name, unit, description string
		value                   func() int64
	}{
		{"triskele.replica.memory", "By", "Memory of the namespaces that searches keep in memory.", func() int64 { return s.total }},
		{"triskele.replica.namespaces", "{namespace}", "Namespaces that searches keep in memory.", func() int64 { return int64(len(s.images)) }},
	} {
		_, err := meter.Int64ObservableGauge(gauge.name, metric.WithUnit(gauge.unit), metric.WithDescription(gauge.description),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				o.Observe(gauge.value())
				return nil
			}))
		if err != nil {
			otel.Handle(err)
		}
	}
	return s
}

// Register adds a leg's part to the images, before the first search.
func (s *Set) Register(name string, kind Kind, empty func(*Rows) Part) {
	for _, l := range s.legs {
		if l.name == name {
			panic("replica: a part is called " + name + " already")
		}
	}
	s.legs = append(s.legs, registered{name, kind, empty})
	s.empty.parts = append(s.empty.parts, empty(s.empty.rows))
}

// Told says that something was committed in this process, so that later searches see it without waiting for Config.MaxAge.
func (s *Set) Told() { s.told.Add(1) }

// View returns the image of a namespace, which is at most Config.MaxAge old unless the database does not answer. A namespace
// that is not in memory is loaded; that may take the given share of ctx's time, 0 to 1. The caller must Close the view, and
// must not ask the database meanwhile.
func (s *Set) View(ctx context.Context, namespace string, need Need, share float64) (*View, error) {
	arrived, told := time.Now(), s.told.Load()
	for sure := need.AtLeast == 0; ; {
		img, err := s.loadedImage(ctx, namespace, need.Question, share)
		if err != nil {
			return nil, err
		}
		if img == s.empty && !sure {
			// A standby may not have the namespace yet. Reads of the search itself wait for the write; a load does not.
			absent, err := s.absent(ctx, namespace)
			if err != nil {
				return nil, err
			}
			if sure = true; !absent {
				continue
			}
		}
		view, err := s.view(ctx, img, need, arrived, told)
		if !errors.Is(err, errDead) {
			return view, err
		}
	}
}

// absent reports whether a namespace does not exist.
func (s *Set) absent(ctx context.Context, namespace string) (absent bool, err error) {
	err = s.source.snapshot(ctx, namespace, false, func(tx Tx) error {
		c, err := s.source.since(ctx, tx, namespace, position{})
		absent = !c.exists
		return err
	})
	return absent, err
}

// errDead says that another namespace has the name of an image.
var errDead = errors.New("the namespace is another one now")

func (s *Set) view(ctx context.Context, img *image, need Need, arrived time.Time, told int64) (*View, error) {
	place := s.place(need.Part)
	v := &View{}
	if img != s.empty && s.behind(img, place, need, arrived, told) {
		err := s.askInTime(ctx, img, need, arrived, told)
		switch {
		case errors.Is(err, errDead) || err != nil && (s.config.Fresh || ctx.Err() != nil):
			return nil, err
		case err != nil:
			v.Away, v.Stale = away, need.AtLeast > 0
		}
	}
	img.mu.RLock()
	if img.dead {
		img.mu.RUnlock()
		return nil, errDead
	}
	if v.Away != "" && !img.rows.knows(need.Filter.Metadata) {
		img.mu.RUnlock()
		return nil, errors.New("the database does not answer, and the metadata of the filter is not in memory")
	}
	if v.Stale && s.legs[place].kind == Records && img.seen.has(need.AtLeast) {
		v.Stale = false
	}
	v.Rows, v.Part, v.Version, v.close = img.rows, img.parts[place], img.version, img.mu.RUnlock
	v.Selection = img.rows.Select(need.Filter, need.AsOf)
	if img != s.empty {
		s.mu.Lock()
		v.Age = time.Since(img.checked)
		s.mu.Unlock()
	}
	return v, nil
}

func (s *Set) place(part string) int {
	for i, l := range s.legs {
		if l.name == part {
			return i
		}
	}
	panic("replica: no part is called " + part)
}

// behind reports whether a search has to ask the database first.
func (s *Set) behind(img *image, place int, need Need, arrived time.Time, told int64) bool {
	s.mu.Lock()
	checked, heard := img.checked, img.told
	s.mu.Unlock()
	if arrived.Sub(checked) > s.config.MaxAge || s.config.MaxAge == 0 || heard < told {
		return true
	}
	img.mu.RLock()
	defer img.mu.RUnlock()
	return img.dead || !img.rows.knows(need.Filter.Metadata) ||
		need.AtLeast > 0 && !(s.legs[place].kind == Records && img.seen.has(need.AtLeast))
}

// askInTime brings an image up to date within a share of ctx's time. While the database is known not to answer, it fails at
// once.
func (s *Set) askInTime(ctx context.Context, img *image, need Need, arrived time.Time, told int64) error {
	if s.away.Load() && !s.config.Fresh {
		return errAway
	}
	hurried := false
	if deadline, ok := ctx.Deadline(); ok {
		share := catchUpShare
		if need.AtLeast > 0 {
			share = writeShare
		}
		given := time.Duration(share * float64(time.Until(deadline)))
		hurried = given < leastWait
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, given)
		defer cancel()
	}
	err := s.catchUp(ctx, img, need, arrived, told, false)
	if err != nil && !hurried && !errors.Is(err, errDead) && !errors.Is(err, context.Canceled) {
		s.lost(ctx, err)
	}
	return err
}

var errAway = errors.New(away)

// lost notes that the database does not answer. If only a node behind it is away, it does, and searches go on to ask, each for its
// own namespace.
func (s *Set) lost(ctx context.Context, err error) {
	if postgres.IsNodeAway(err) {
		s.away.Store(false)
		return
	}
	if !s.away.Swap(true) {
		s.log.WarnContext(ctx, "searches go on with what is in memory: the database does not answer", "error", err.Error())
	}
}

// loadedImage returns the image of a namespace, loaded; that of an empty one if the namespace does not exist.
func (s *Set) loadedImage(ctx context.Context, namespace, question string, share float64) (*image, error) {
	wait := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, time.Duration(share*float64(time.Until(deadline))))
		defer cancel()
	}
	img, loading, err := s.find(namespace, question)
	if loading == nil {
		return img, err
	}
	select {
	case <-loading:
	case <-wait.Done():
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, ErrCold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(img.err, errNoNamespace) {
		return s.empty, nil
	}
	return img, img.err
}

// find returns a namespace's image, or that for a question with Config.Brief, and the channel that is closed when it will have been loaded; nil if it is.
func (s *Set) find(namespace, question string) (*image, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.config.Brief {
		question = ""
	}
	key := imageKey{namespace, question}
	img := s.images[key]
	if img == nil {
		img = &image{namespace: namespace, question: question, turn: make(chan struct{}, 1)}
		img.element = s.recent.PushFront(img)
		s.images[key] = img
		s.evict(img)
	}
	s.recent.MoveToFront(img.element)
	if now := time.Now(); now.Sub(img.used) > inUseFor {
		s.wakeFollower()
	}
	img.used = time.Now()
	switch {
	case img.loaded:
		return img, nil, nil
	case img.loading == nil && img.err != nil && time.Now().Before(img.retry):
		return nil, nil, img.err
	case img.loading == nil:
		img.loading = make(chan struct{})
		go s.load(img)
	}
	return img, img.loading, nil
}

// wakeFollower has Follow look which images are in use.
func (s *Set) wakeFollower() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// remove removes an image. Searches that have it go on.
func (s *Set) remove(img *image) {
	if s.images[img.key()] != img {
		return
	}
	s.recent.Remove(img.element)
	delete(s.images, img.key())
	s.total -= img.bytes
	s.hold(-img.bytes)
	img.bytes = 0
}

// weigh sets an image's size, and evicts others.
func (s *Set) weigh(img *image, bytes int64) {
	if s.images[img.key()] != img {
		return
	}
	s.total += bytes - img.bytes
	s.hold(bytes - img.bytes)
	img.bytes = bytes
	s.evict(img)
}

// evict removes the least recently searched images that are beyond the bounds, but not the given one.
func (s *Set) evict(but *image) {
	for e := s.recent.Back(); e != nil && (s.total > s.bytes || len(s.images) > maxImages); {
		img := e.Value.(*image)
		e = e.Prev()
		if img != but && img.loading == nil {
			s.remove(img)
		}
	}
}

// sequences are the numbers of the latest writes that an image has.
type sequences struct {
	known map[int64]bool
	order []int64
	next  int
}

// maxSequences bounds the numbers.
const maxSequences = 4096

func (s *sequences) has(n int64) bool { return s.known[n] }

func (s *sequences) add(n int64) {
	if s.known == nil {
		s.known = map[int64]bool{}
	}
	if s.known[n] {
		return
	}
	if len(s.order) < maxSequences {
		s.order = append(s.order, n)
	} else {
		delete(s.known, s.order[s.next])
		s.order[s.next] = n
		s.next = (s.next + 1) % maxSequences
	}
	s.known[n] = true
}

// Fresh reports whether searches fail while the database does not answer.
func (s *Set) Fresh() bool { return s.config.Fresh }

// Concern says that the database does not answer; "" if it does.
func (s *Set) Concern() string {
	if s.away.Load() {
		return away
	}
	return ""
}

// Len is the number of images.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.images)
}

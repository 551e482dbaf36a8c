package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/metric"

	"github.com/triskele/triskele/fuser/platform/panics"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	"github.com/triskele/triskele/services/store/postgres"
	"github.com/triskele/triskele/services/store/sqldb"
)

const (
	// inUseFor is how long after a search a namespace's image is kept up to date.
	inUseFor = 30 * time.Second
	// maxImages bounds the images, however small they are.
	maxImages = 10_000
	// maxSequences bounds the writes that an image knows that it has.
	maxSequences = 4096
	// retryLoad is the pause after loading failed, and retryLarge after an image turned out too large.
	retryLoad, retryLarge = time.Second, time.Minute
	// catchUpShare is the share of a search's time that catching up may take.
	catchUpShare = 0.5
	// writeShare is the same for a search that asks for a write: a standby may take half of the time to receive it.
	writeShare = 0.8
	// mostTries bounds how often a search takes another image because one is dead, or lacks what it needs.
	mostTries = 5
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
	// smallLoads is another one, for small namespaces while loads is taken.
	smallLoads chan struct{}
	stop       context.Context

	mu     sync.Mutex
	images *simplelru.LRU[imageKey, *image]
	total  int64 // bytes of all images that are loaded
	coming int64 // of those that are being loaded
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
	question  string        // with Config.Brief: all that will be asked, unless empty
	turn      chan struct{} // its holder changes the image; a mutex that can be waited for with a context

	// mu guards what searches read.
	mu      sync.RWMutex
	rows    *Rows
	parts   []Part
	seen    []int64 // numbers of the latest writes that it has
	version int64   // View.Version
	dead    bool    // another namespace has the name now

	completing atomic.Bool

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
	bytes   int64 // once it is loaded; coming before
	coming  int64
	tooMany int // memories that did not fit; 0 if that is not known
}

func newImage(namespace, question string) *image {
	return &image{namespace: namespace, question: question, turn: make(chan struct{}, 1)}
}

// New returns an empty Set that follows a database, or its standby if it has one. Loading ends with ctx.
func New(ctx context.Context, store sqldb.Store, config Config, meter metric.Meter, log *slog.Logger) *Set {
	var from source
	if store.File != nil {
		from = &sqliteSource{db: store.File}
	} else {
		half := 1
		if store.Pool != nil {
			half = max(1, int(store.Standby.Or(store.Pool).Config().MaxConns)/2)
		}
		from = &postgresSource{pool: store.Pool, standby: store.Standby, whole: make(chan struct{}, half)}
	}
	s := &Set{
		config: config, bytes: config.Memory << 20, source: from, log: log,
		wake: make(chan struct{}, 1), loads: make(chan struct{}, 2), smallLoads: make(chan struct{}, 2), stop: ctx, empty: newImage("", ""),
	}
	s.images, _ = simplelru.NewLRU[imageKey, *image](math.MaxInt, nil) // evict bounds it
	s.empty.rows, s.empty.loaded = NewRows(), true
	if config.Brief {
		debug.SetGCPercent(400) // such a process ends before its garbage matters
	} else {
		boundGarbage()
	}
	for _, gauge := range []struct {
		name, unit, description string
		value                   func() int64
	}{
		{"triskele.replica.memory", "By", "Memory of the namespaces that searches keep in memory.", func() int64 { return s.total }},
		{"triskele.replica.namespaces", "{namespace}", "Namespaces that searches keep in memory.", func() int64 { return int64(s.images.Len()) }},
	} {
		telemetry.Must(meter.Int64ObservableGauge(gauge.name, metric.WithUnit(gauge.unit), metric.WithDescription(gauge.description),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				o.Observe(gauge.value())
				return nil
			})))
	}
	return s
}

// Register adds a leg's part to the images, before the first search, and returns its place. Errors have the name.
func (s *Set) Register(name string, kind Kind, empty func(*Rows) Part) Place {
	s.legs = append(s.legs, registered{name, kind, empty})
	s.empty.parts = append(s.empty.parts, empty(s.empty.rows))
	return Place(len(s.legs) - 1)
}

// Told says that something was committed in this process, so that later searches see it without waiting for Config.MaxAge.
func (s *Set) Told() { s.told.Add(1) }

// View returns the image of a namespace, which is at most Config.MaxAge old unless the database does not answer. A namespace
// that is not in memory is loaded; that may take the given share of ctx's time, 0 to 1. The caller must Close the view, and
// must not ask the database meanwhile.
func (s *Set) View(ctx context.Context, namespace string, need Need, share float64) (*View, error) {
	arrived, told := time.Now(), s.told.Load()
	sure := need.AtLeast == 0
	for range mostTries {
		img, err := s.loadedImage(ctx, namespace, need.Question, share, arrived)
		if errors.Is(err, errDead) {
			continue
		}
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
		if !errors.Is(err, errDead) && !errors.Is(err, errForgot) {
			return view, err
		}
	}
	return nil, ErrCold
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

var (
	// errForgot says that another search's keys have pushed out those of a filter.
	errForgot = errors.New("the metadata of the filter has been forgotten")
	// errDead says that another namespace has the name of an image, or that its changes cannot be read.
	errDead = errors.New("the namespace is another one now")
	// errBusy says that bringing an image up to date takes longer than a search has. The database answers.
	errBusy = fmt.Errorf("%s: %w", busy, context.DeadlineExceeded)
)

func (s *Set) view(ctx context.Context, img *image, need Need, arrived time.Time, told int64) (*View, error) {
	v := &View{}
	lacking := errForgot // what a filter's keys are missing for
	if img != s.empty {
		asks, err := s.behind(ctx, img, need, arrived, told)
		if err != nil {
			return nil, err
		}
		if asks {
			err = s.askInTime(ctx, img, need, arrived, told)
		}
		switch {
		case errors.Is(err, errDead) || err != nil && (s.config.Fresh || ctx.Err() != nil):
			return nil, err
		case errors.Is(err, errBusy):
			v.Reason, v.Stale, lacking = busy, need.AtLeast > 0, ErrCold
		case err != nil:
			v.Reason, v.Away, v.Stale, lacking = away, true, need.AtLeast > 0, ErrUnanswered
		}
	}
	if err := img.rLock(ctx); err != nil {
		return nil, err
	}
	held := true // until the view closes, which a panic must not prevent
	defer func() {
		if held {
			img.mu.RUnlock()
		}
	}()
	if img.dead {
		return nil, errDead
	}
	if img != s.empty && len(img.rows.missing(need.Filter.Metadata)) > 0 {
		return nil, lacking
	}
	if v.Stale && s.legs[need.Part].kind == Records && slices.Contains(img.seen, need.AtLeast) {
		v.Stale = false
	}
	v.Rows, v.Part, v.Version, v.close = img.rows, img.parts[need.Part], img.version, img.mu.RUnlock
	v.Selection = img.rows.Select(need.Filter, need.AsOf)
	if img != s.empty {
		s.mu.Lock()
		v.Age = time.Since(img.checked)
		s.mu.Unlock()
	}
	held = false
	return v, nil
}

// rLock locks for reading. A change waits for the searches that go on, and all others wait for the change: some have less time.
func (img *image) rLock(ctx context.Context) error {
	for !img.mu.TryRLock() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
	}
	return nil
}

// behind reports whether a search has to ask the database first.
func (s *Set) behind(ctx context.Context, img *image, need Need, arrived time.Time, told int64) (bool, error) {
	s.mu.Lock()
	checked, heard := img.checked, img.told
	s.mu.Unlock()
	if arrived.Sub(checked) > s.config.MaxAge || s.config.MaxAge == 0 || heard < told {
		return true, nil
	}
	if err := img.rLock(ctx); err != nil {
		return false, err
	}
	defer img.mu.RUnlock()
	return img.dead || len(img.rows.missing(need.Filter.Metadata)) > 0 ||
		need.AtLeast > 0 && !(s.legs[need.Part].kind == Records && slices.Contains(img.seen, need.AtLeast)), nil
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
	switch {
	case errors.Is(err, errBusy) || err != nil && hurried && (ctx.Err() != nil || postgres.IsTimeout(err)):
		s.complete(img, need)
		return errBusy
	case err == nil || errors.Is(err, errDead) || errors.Is(err, context.Canceled):
	case answered(err):
		s.bury(img)
		return errDead
	default:
		s.lost(ctx, err)
	}
	return err
}

// complete reads a filter's metadata for the searches to come, if one had too little time to.
func (s *Set) complete(img *image, need Need) {
	if len(need.Filter.Metadata) == 0 || !img.completing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer img.completing.Store(false)
		ctx, cancel := context.WithTimeout(s.stop, catchUpTime)
		defer cancel()
		_ = panics.Catch(ctx, s.log, "read the metadata of a filter", func() error {
			return s.catchUp(ctx, img, Need{Filter: need.Filter}, time.Now(), 0, true)
		})
	}()
}

// answered reports whether an error shows that the database answers, but what it has cannot be read or kept.
func answered(err error) bool {
	var server *pgconn.PgError
	var row *rowError
	var panicked *panics.Error
	return errors.Is(err, ErrTooLarge) ||
		!postgres.IsTimeout(err) && !postgres.IsUnreachable(err) && (errors.As(err, &row) || errors.As(err, &panicked) || errors.As(err, &server))
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

// loadedImage returns the image of a namespace, loaded; that of an empty one if the namespace does not exist. The error is errDead if it
// did not before a search arrived.
func (s *Set) loadedImage(ctx context.Context, namespace, question string, share float64, arrived time.Time) (*image, error) {
	img, loading, err := s.find(namespace, question)
	if loading == nil {
		return img, err
	}
	wait := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, time.Duration(share*float64(time.Until(deadline))))
		defer cancel()
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
	switch {
	case !errors.Is(img.err, errNoNamespace):
	case img.checked.Before(arrived):
		return nil, errDead
	default:
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
	img, known := s.images.Get(key)
	if !known {
		img = newImage(namespace, question)
		s.images.Add(key, img)
		if s.evict(img); s.images.Len() > maxImages { // all others are being loaded
			s.remove(img)
			return nil, nil, ErrCold
		}
	}
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
	if held, _ := s.images.Peek(img.key()); held != img {
		return
	}
	s.images.Remove(img.key())
	s.total -= img.bytes
	img.bytes = 0
}

// weigh sets an image's size, and evicts others.
func (s *Set) weigh(img *image, bytes int64) {
	if held, _ := s.images.Peek(img.key()); held != img {
		return
	}
	s.total += bytes - img.bytes
	img.bytes = bytes
	s.evict(img)
}

// evict removes the least recently searched images that are beyond the bounds, but not the given one. Images that are being loaded get half
// of the memory at most until they are loaded: one may turn out too large.
func (s *Set) evict(but *image) {
	beyond := func() bool { return s.total+min(s.coming, s.bytes/2) > s.bytes || s.images.Len() > maxImages }
	if !beyond() {
		return // without a list of all
	}
	for _, img := range s.images.Values() {
		if img != but && img.loading == nil && (img.loaded || s.images.Len() > maxImages) {
			s.remove(img)
		}
		if !beyond() {
			return
		}
	}
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

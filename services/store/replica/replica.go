// Package replica keeps copies of namespaces in memory, which follow the database. All legs search in them; the database is
// the truth. The general process is:
//
//  1. A leg registers its Part: what it keeps of each memory beside the Rows that all legs share.
//  2. A search asks the Set for a View of its namespace. The first one has the namespace's image loaded (load.go).
//  3. Each change of a memory, its words, its vectors or its graph writes the memory's id into the log, in the same
//     transaction. Follow polls the log for namespaces in use, and reads changed memories anew (follow.go).
//  4. The View has a Selection: the rows of live memories that pass the search's filter (selection.go).
//
// A change is applied by reading what the database has of a memory now. So changes may be applied twice, and parts may be
// read from later snapshots than the one that the log is compared with.
//
// While the database does not answer, views get older and say so. Images that are too old for the log are loaded anew.
package replica

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/store/record"
)

// Part is what a leg keeps of each memory of a namespace, beside the Rows. Read is called without a lock and must not touch
// what searches see; all else is called when no search runs.
type Part interface {
	// Read reads what the database has of memories, and returns what then applies it: under the lock, after the memories'
	// rows are known. A memory without data is one that the part has to forget. If ids is nil, it is to read all memories: the
	// rows are known already, nobody searches yet, and Read applies what it reads itself and may return nil.
	Read(ctx context.Context, tx Tx, namespace string, ids []uuid.UUID) (apply func(), err error)
	// Drop forgets a row, whose memory has been deleted.
	Drop(row uint32)
	// Bytes is about the memory that the part takes.
	Bytes() int64
}

// Kind says what a change of a memory changed, so that each part reads only what concerns it.
type Kind = string

// Kinds of changes, as in the log.
const (
	Records Kind = "m" // the memory itself, with its words
	Vectors Kind = "d" // its vectors
	Graph   Kind = "g" // its concepts, facts and links
)

// Config is the settings of an operator, as flags.
type Config struct {
	Memory int64         `name:"search-memory" help:"MiB of memory for the namespaces that searches keep in memory. The least recently searched leaves first." default:"2048" env:"TRISKELE_SEARCH_MEMORY" placeholder:"MIB"`
	MaxAge time.Duration `name:"search-max-age" help:"How old what is in memory may be when it is searched; 0 asks the database before each search." default:"50ms" env:"TRISKELE_SEARCH_MAX_AGE"`
	// Fresh refuses to answer from memory while the database does not answer.
	Fresh bool `name:"search-fresh" help:"Fail searches while the database does not answer, instead of searching what is in memory." env:"TRISKELE_SEARCH_FRESH"`
	// Brief loads a namespace for each question anew, but only what that needs: for a process that asks one.
	Brief bool `kong:"-"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{Memory: 2048, MaxAge: 50 * time.Millisecond} }

// Validate checks the limits.
func (c Config) Validate() error {
	if c.Memory < 1 {
		return errors.New("--search-memory must be 1 MiB or more")
	}
	if c.MaxAge < 0 || c.MaxAge > time.Minute {
		return errors.New("--search-max-age must be from 0 to 1m")
	}
	return nil
}

// Place is where a leg's part is in each image.
type Place int

// Need is what a search needs of a namespace's image.
type Need struct {
	Part    Place // of the leg's part
	Filter  record.Filter
	AsOf    time.Time // zero means now
	AtLeast int64     // sequence number of a write that the image must have; 0 means none
	// Question is what will be asked, for Config.Brief; empty for anything.
	Question string
}

// View is a namespace's image at one point of the order of commits. It holds the image's lock until Close.
type View struct {
	*Rows
	*Selection
	Freshness
	Part   Part
	Reason string // why the image is older than Config.MaxAge; "" if it is not
	close  func()
}

// Freshness says how current a copy in memory is.
type Freshness struct {
	Age     time.Duration // how old it may be
	Version int64         // another number after each change, of no other copy of this process; 0 if there is none
	Away    bool          // the database does not answer, so that the copy gets older
	Stale   bool          // it lacks the write of Need.AtLeast
}

// Close ends the use of a view.
func (v *View) Close() {
	v.release()
	v.close()
}

var (
	// ErrCold is the error for an image that was not loaded in time. Loading goes on.
	ErrCold = errors.New("the namespace is not in memory yet")
	// ErrTooLarge is the error for a namespace that does not fit into the memory for images.
	ErrTooLarge = errors.New("the namespace is too large to be kept in memory (--search-memory)")
	// ErrUnanswered is the error for a filter that only the database can answer.
	ErrUnanswered = errors.New("the database does not answer, and the metadata of the filter is not in memory")
)

// away is a View's reason when the database does not answer.
const away = "the database does not answer: searched what is in memory"

// busy is the reason when bringing the image up to date takes longer than the search has.
const busy = "changes are being read: searched what is in memory"

package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/gateway"
	"github.com/triskele/triskele/fuser/platform/telemetry"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/agents/backup"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/lexical"
	"github.com/triskele/triskele/services/memory"
	"github.com/triskele/triskele/services/store/postgres/pgtest"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/wiring/standalone"
	"github.com/triskele/triskele/services/wiring/storetest"
)

// place makes databases of one engine.
type place struct {
	engine string
	fresh  func(t *testing.T) standalone.Config
}

var (
	onSQLite = place{"sqlite", func(t *testing.T) standalone.Config {
		return standalone.Config{SQLite: filepath.Join(t.TempDir(), "t.db")}
	}}
	onPostgres = place{"postgres", func(t *testing.T) standalone.Config { return standalone.Config{Postgres: pgtest.New(t)} }}
)

type services struct {
	*standalone.System
	t      *testing.T
	recall triskelev1.RecallServiceClient
	memory triskelev1.MemoryServiceClient
}

func start(t *testing.T, config standalone.Config) *services {
	t.Helper()
	process, err := telemetry.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	config.Embedder, config.Gateway = embed.NewHashed(), gateway.DefaultConfig()
	config.Gateway.Budget.Max = time.Minute
	system, err := standalone.Start(t.Context(), config, process, storetest.Log())
	if err != nil {
		t.Fatal(err)
	}
	return &services{system, t, triskelev1.NewRecallServiceClient(system.Conn), triskelev1.NewMemoryServiceClient(system.Conn)}
}

// stop ends the services and closes their database.
func (s *services) stop() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *services) words() *lexical.Leg {
	return s.Backend.Lexical(s.Backend.Images(s.t.Context(), storetest.Strict(), storetest.Log()), lexical.DefaultConfig())
}

func (s *services) remember(m *triskelev1.Memory) *triskelev1.Memory {
	s.t.Helper()
	resp, err := s.memory.Remember(s.t.Context(), &triskelev1.RememberRequest{Memory: m})
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetMemory()
}

// answer is what a recall returns, once no index has anything left to do: ids, scores and contents.
func (s *services) answer() []string {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		resp, err := s.recall.GetIndexStatus(s.t.Context(), &triskelev1.RecallServiceGetIndexStatusRequest{Namespace: "birds"})
		if err != nil {
			s.t.Fatal(err)
		}
		if !slices.ContainsFunc(resp.GetLegs(), func(l *triskelev1.LegIndexStatus) bool { return l.GetStatus().GetPending() > 0 }) {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatal("the indexes do not catch up")
		}
	}
	resp, err := s.recall.Recall(s.t.Context(), &triskelev1.RecallRequest{
		Namespaces: []string{"birds"}, Query: "where does the Kestrel 3 keep its backup", Budget: durationpb.New(time.Minute),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, h := range resp.GetHits() {
		text, err := prototext.MarshalOptions{}.Marshal(h.GetMemory())
		if err != nil {
			s.t.Fatal(err)
		}
		// prototext varies its white space from one build of the program to another, not within one.
		out = append(out, fmt.Sprintf("%.6f %s", h.GetScore(), text))
	}
	return out
}

// TestDrill backs a database up while memories are stored, destroys it, restores the backup into an empty one, and finds
// everything that was acknowledged before the backup began, and the same answer to a recall.
func TestDrill(t *testing.T) {
	for _, way := range []struct{ from, to place }{{onSQLite, onSQLite}, {onPostgres, onPostgres}, {onPostgres, onSQLite}} {
		t.Run(way.from.engine+" to "+way.to.engine, func(t *testing.T) {
			t.Parallel()
			drill(t, way.from, way.to)
		})
	}
}

func drill(t *testing.T, from, to place) {
	old := from.fresh(t)
	s := start(t, old)
	for i := range 20 {
		s.remember(&triskelev1.Memory{
			Namespace: "birds", Title: fmt.Sprintf("Kestrel %d", i), Tags: []string{"Kestrel"}, Sensitive: i%7 == 0,
			Content: fmt.Sprintf("The Kestrel project keeps its backup number %d on the host heron-db-%d.", i, i%3),
		})
	}
	first := s.remember(&triskelev1.Memory{Namespace: "birds", Content: "The Kestrel nests on the tower."})
	if _, err := s.memory.Supersede(t.Context(), &triskelev1.SupersedeRequest{
		Id: first.GetId(), Replacement: &triskelev1.Memory{Namespace: "birds", Content: "The Kestrel nests on the bridge."},
	}); err != nil {
		t.Fatal(err)
	}
	settings := lexical.DefaultSettings()
	settings.Language, settings.Prefix = "german", true
	if err := s.words().Set(t.Context(), "v-de", settings); err != nil {
		t.Fatal(err)
	}
	s.remember(&triskelev1.Memory{Namespace: "v-de", Content: "Der Falke nistet auf der Brücke."})
	if err := s.words().Set(t.Context(), "v-later", settings); err != nil { // before its first memory
		t.Fatal(err)
	}
	emptied := s.remember(&triskelev1.Memory{Namespace: "emptied", Content: "The Kestrel is gone."})
	if _, err := s.memory.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: "emptied", Ids: []string{emptied.GetId()}}); err != nil {
		t.Fatal(err)
	}
	before := s.answer()
	if len(before) == 0 {
		t.Fatal("the recall finds nothing")
	}

	var writing sync.WaitGroup
	var acknowledged struct {
		sync.Mutex
		ids []string
	}
	stored := make(chan struct{}, 1)
	stop := make(chan struct{})
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			resp, err := s.memory.Remember(t.Context(), &triskelev1.RememberRequest{Memory: &triskelev1.Memory{Namespace: "busy", Content: fmt.Sprintf("Note %d.", i)}})
			if err != nil {
				t.Error(err)
				return
			}
			acknowledged.Lock()
			acknowledged.ids = append(acknowledged.ids, resp.GetMemory().GetId())
			acknowledged.Unlock()
			if i == 10 {
				stored <- struct{}{}
			}
		}
	})
	<-stored
	acknowledged.Lock()
	wanted := slices.Clone(acknowledged.ids)
	acknowledged.Unlock()
	var file bytes.Buffer
	wrote, err := backup.Write(t.Context(), s.Backend.Memory(), s.words(), &file)
	close(stop)
	writing.Wait()
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if old.SQLite != "" { // PostgreSQL's is dropped by the test's end; nobody opens it again
		if err := os.Remove(old.SQLite); err != nil {
			t.Fatal(err)
		}
	}

	s = start(t, to.fresh(t))
	defer s.stop()
	for range 2 { // the second time changes nothing
		restored, err := backup.Restore(t.Context(), s.Backend.Memory(), s.words(), bytes.NewReader(file.Bytes()))
		if err != nil || restored != wrote {
			t.Fatalf("wrote %v, restored %v, %v", wrote, restored, err)
		}
	}
	for ids := range slices.Chunk(wanted, 100) {
		resp, err := s.memory.Get(t.Context(), &triskelev1.GetRequest{Namespace: "busy", Ids: ids})
		if err != nil || len(resp.GetMemories()) != len(ids) {
			t.Errorf("of %d memories acknowledged before the backup %d are there: %v", len(ids), len(resp.GetMemories()), err)
		}
	}
	for _, namespace := range []string{"v-de", "v-later"} {
		if got, err := s.words().Settings(t.Context(), namespace); err != nil || got != settings {
			t.Errorf("settings of %s are %+v, %v", namespace, got, err)
		}
	}
	if strings.Contains(file.String(), "emptied") {
		t.Error("the backup has a namespace that a restore does not make")
	}
	var again bytes.Buffer
	if _, err := backup.Write(t.Context(), s.Backend.Memory(), s.words(), &again); err != nil || !bytes.Equal(again.Bytes(), file.Bytes()) {
		t.Errorf("a backup of what was restored differs: %v", err)
	}
	if from.engine == to.engine { // engines score differently
		if after := s.answer(); !slices.Equal(before, after) {
			t.Errorf("before\n%q\nafter\n%q", before, after)
		}
	}
}

// TestDamaged changes and cuts a backup in every place that matters; nothing is stored of any of them.
func TestDamaged(t *testing.T) {
	t.Parallel()
	s := start(t, onSQLite.fresh(t))
	for i := range 3 {
		s.remember(&triskelev1.Memory{Namespace: "birds", Content: fmt.Sprintf("The Kestrel has %d eggs.", i)})
	}
	var whole bytes.Buffer
	if _, err := backup.Write(t.Context(), s.Backend.Memory(), s.words(), &whole); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s = start(t, onSQLite.fresh(t))
	defer s.stop()
	text := whole.Bytes()
	lines := bytes.SplitAfter(text, []byte("\n"))
	damaged := map[string][]byte{
		"empty":            nil,
		"another number":   bytes.Replace(text, []byte("has 1 eggs"), []byte("has 7 eggs"), 1),
		"a line lost":      bytes.Replace(text, lines[3], nil, 1),
		"two lines turned": bytes.Join([][]byte{lines[0], lines[1], lines[3], lines[2], lines[4], lines[5]}, nil),
		"the end lost":     bytes.Join(lines[:len(lines)-2], nil),
		"something after":  append(slices.Clone(text), lines[2]...),
		"cut":              text[:len(text)/2],
		"a blank":          bytes.Replace(text, []byte(`"memory":`), []byte(`"memory": `), 1),
		"a newer format":   bytes.Replace(text, []byte(`"triskele_backup":2`), []byte(`"triskele_backup":3`), 1),
		"no beginning":     bytes.Join(lines[1:], nil),
	}
	for name, text := range damaged {
		_, err := backup.Restore(t.Context(), s.Backend.Memory(), s.words(), bytes.NewReader(text))
		var where *backup.DamagedError
		if !errors.As(err, &where) {
			t.Errorf("%s: %v", name, err)
		}
		if list, err := s.Backend.Memory().ListNamespaces(t.Context(), "birds", "", 1); err != nil || len(list) != 0 {
			t.Fatalf("%s: something was stored: %v, %v", name, list, err)
		}
	}
}

// renaming renames a namespace after its first scan.
type renaming struct {
	backup.Store
	rename func() error
}

func (r *renaming) Scan(ctx context.Context, namespace string, batch int, fn func([]record.Record) error) error {
	err := r.Store.Scan(ctx, namespace, batch, fn)
	if rename := r.rename; rename != nil {
		r.rename = nil
		err = errors.Join(err, rename())
	}
	return err
}

// TestRenamedMeanwhile: a namespace is not lost when it gets the name of one that had its turn, and each comes once.
func TestRenamedMeanwhile(t *testing.T) {
	t.Parallel()
	s := start(t, onSQLite.fresh(t))
	defer s.stop()
	for _, namespace := range []string{"m", "z"} {
		s.remember(&triskelev1.Memory{Namespace: namespace, Content: "The Kestrel nests in " + namespace + "."})
	}
	store := s.Backend.Memory()
	var file bytes.Buffer
	_, err := backup.Write(t.Context(), &renaming{store, func() error {
		_, err := store.RenameNamespace(t.Context(), "z", "a")
		return err
	}}, s.words(), &file)
	if err != nil {
		t.Fatal(err)
	}
	for _, nest := range []string{"m", "z"} {
		if n := strings.Count(file.String(), "nests in "+nest+"."); n != 1 {
			t.Errorf("what was in %s is there %d times:\n%s", nest, n, &file)
		}
	}
	if _, err := backup.Verify(&file); err != nil {
		t.Error(err)
	}
}

// TestConflict: a memory that is there with other contents is named by where it is in the file, beyond the first batch too.
func TestConflict(t *testing.T) {
	t.Parallel()
	s := start(t, onSQLite.fresh(t))
	defer s.stop()
	records := make([]record.Record, 700)
	for i := range records {
		records[i] = storetest.Record("birds", fmt.Sprintf("The Kestrel has %d eggs.", i), func(r *record.Record) {
			r.CreatedAt = time.UnixMicro(int64(i)).UTC()
		})
	}
	if _, err := s.Backend.Memory().Insert(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := backup.Write(t.Context(), s.Backend.Memory(), s.words(), &file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backend.Memory().Update(t.Context(), "birds", records[612].ID, 0, func(r *record.Record) error {
		r.Content = "The Kestrel has flown."
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err := backup.Restore(t.Context(), s.Backend.Memory(), s.words(), bytes.NewReader(file.Bytes()))
	var conflict *memory.ConflictError
	if !errors.As(err, &conflict) || conflict.Index != 612 || conflict.ID != records[612].ID || !strings.Contains(err.Error(), "memory 613 ") {
		t.Errorf("%v, want that of memory 612, %s", err, records[612].ID)
	}
}

package lexical

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/triskele/triskele/services/leg"
	"github.com/triskele/triskele/services/store/record"
	"github.com/triskele/triskele/services/store/replica"
)

// image is an image without a database, and the records that it was made from.
type image struct {
	rows    *replica.Rows
	index   *inverted
	records map[uuid.UUID]record.Record
}

func newImage(s Settings) *image {
	rows := replica.NewRows()
	index := newInverted(rows)
	index.set(s)
	return &image{rows, index, map[uuid.UUID]record.Record{}}
}

func (m *image) put(r record.Record) {
	memory := replica.Memory{
		ID: r.ID, Importance: r.Importance, Created: r.CreatedAt.UnixMicro(), From: r.CreatedAt.UnixMicro(), Tags: r.Tags,
		Category: r.Category,
	}
	if r.SupersededBy != uuid.Nil {
		memory.To = r.UpdatedAt.UnixMicro()
	}
	m.index.put(context.Background(), m.rows.Put(memory), encode(r, m.index.settings.language().occurrences(r)))
	m.records[r.ID] = r
}

func (m *image) drop(id uuid.UUID) {
	row, _ := m.rows.Row(id)
	m.index.Drop(row)
	m.rows.Drop(row)
	delete(m.records, id)
}

func (m *image) search(t testing.TB, q leg.Query) leg.Result {
	t.Helper()
	s := newBM25(t.Context(), m.index, m.rows.Select(q.Filter, q.AsOf), understand(q.Text, m.index.settings))
	result, err := s.search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// oracle computes hits by the definition of BM25F over all records. Like the engine it sums up in the order of phrases and
// then terms, the rarest first.
func (m *image) oracle(q leg.Query) []leg.Hit {
	type document struct {
		terms  map[string]float64
		at     map[string][]int
		length float64
	}
	l := m.index.settings.language()
	documents := map[uuid.UUID]document{}
	var total float64
	df := map[string]int64{}
	for id, r := range m.records {
		d := document{terms: map[string]float64{}, at: map[string][]int{}}
		offset := 0
		for i, text := range []string{r.Content + "\n" + r.Title, strings.Join(r.Keywords, "\n"), strings.Join(r.Tags, "\n"), r.Category} {
			end := 0
			for _, t := range l.tokens(text) {
				weight := []float64{10, 4, 2, 1}[i]
				if t.stop {
					weight = 1
				}
				if at := d.at[t.term]; len(at) == 0 || at[len(at)-1] != offset+t.position {
					d.terms[t.term] += weight
					d.length += weight
					d.at[t.term] = append(at, offset+t.position)
				}
				end = t.position + 2
			}
			offset += end
		}
		d.length = min(d.length, math.MaxUint16)
		documents[id] = d
		total += d.length
		for term := range d.terms {
			df[term]++
		}
	}
	n := int64(len(documents))
	understood := understand(q.Text, m.index.settings)
	var terms []queryTerm
	for _, t := range understood.terms {
		if df[t.term] > 0 {
			terms = append(terms, t)
		}
	}
	group := int64(0)
	if understood.prefix != "" {
		var longer []string
		for term := range df {
			if term != understood.prefix && strings.HasPrefix(term, understood.prefix) {
				longer = append(longer, term)
			}
		}
		slices.Sort(longer)
		for _, term := range longer[:min(32, len(longer))] {
			if !slices.ContainsFunc(understood.terms, func(t queryTerm) bool { return t.term == term }) {
				terms = append(terms, queryTerm{term: term, uses: 1, prefixed: true})
				group += df[term]
			}
		}
	}
	rarity := map[string]float64{}
	for _, t := range terms {
		rarity[t.term] = idf(n, df[t.term])
		if t.prefixed {
			rarity[t.term] = idf(n, min(group, n))
		}
	}
	excess := understood.excess(rarity)
	weight := func(t queryTerm) float64 { return rarity[t.term] * (float64(t.uses) - excess[t.term]) }
	if len(terms) > maxTerms {
		slices.SortStableFunc(terms, func(a, b queryTerm) int { return cmp.Compare(weight(b), weight(a)) })
		terms = terms[:maxTerms]
	}
	slices.SortStableFunc(terms, func(a, b queryTerm) int { return cmp.Compare(df[a.term], df[b.term]) })
	scores := map[uuid.UUID]float64{}
	for _, phrase := range understood.phrases {
		words := phraseTokens(phrase)
		var with []uuid.UUID
		for id, d := range documents {
			for _, first := range d.at[words[0].term] {
				if !slices.ContainsFunc(words, func(t token) bool {
					return !slices.Contains(d.at[t.term], first+t.position-words[0].position)
				}) {
					with = append(with, id)
					break
				}
			}
		}
		for _, id := range with {
			scores[id] += idf(n, int64(len(with)))
		}
	}
	s := m.index.settings
	for _, t := range terms {
		for id, d := range documents {
			if tf := d.terms[t.term]; tf > 0 {
				scores[id] += weight(t) * ((s.K1 + 1) * tf / (tf + 10*s.K1*(1-s.B) + 10*s.K1*s.B/(total/float64(n))*d.length))
			}
		}
	}
	selected := m.rows.Select(q.Filter, q.AsOf)
	var hits []leg.Hit
	for id, score := range scores {
		row, _ := m.rows.Row(id)
		if selected.Has(row) && score > 0 && (q.MinScore == nil || score >= *q.MinScore) {
			hits = append(hits, leg.HitAt(m.rows, row, score))
		}
	}
	slices.SortFunc(hits, leg.CompareHits)
	return hits[:min(len(hits), q.Depth)]
}

// writer makes records and queries of a small Zipfian vocabulary, with phrases, identifiers and repetitions.
type writer struct {
	*rand.Rand
	zipf *rand.Zipf
}

func newWriter(seed uint64, words int) writer {
	random := rand.New(rand.NewPCG(seed, 7))
	return writer{random, rand.NewZipf(random, 1.1, 5, uint64(words-1))}
}

func (w writer) text(n int) string {
	words := make([]string, n)
	for i := range words {
		switch k := w.zipf.Uint64(); {
		case w.IntN(20) == 0:
			words[i] = fmt.Sprintf("w%d-w%d", k, w.zipf.Uint64())
		case w.IntN(20) == 0:
			words[i] = "the"
		case w.IntN(40) == 0:
			words[i] = fmt.Sprintf("東w%d京", k)
		default:
			words[i] = fmt.Sprintf("w%d", k)
		}
	}
	return strings.Join(words, " ")
}

func (w writer) record() record.Record {
	id := uuid.UUID{}
	for i := range id {
		id[i] = byte(w.IntN(256))
	}
	r := record.Record{ID: id}
	w.fill(&r)
	return r
}

func (w writer) fill(r *record.Record) {
	r.Content, r.Title, r.Keywords, r.Tags, r.Category, r.SupersededBy = w.text(w.IntN(30)), "", nil, nil, "", uuid.Nil
	r.Importance = float64(w.IntN(3)) / 4
	r.CreatedAt = time.UnixMicro(int64(w.IntN(50)))
	if w.IntN(3) == 0 {
		r.Title, r.Keywords = w.text(3), []string{w.text(2), w.text(1)}
	}
	if w.IntN(30) == 0 {
		r.Content += strings.Repeat(" w1 w2", 40) // frequencies that a posting cannot have
	}
	for _, share := range []int{10, 100, 1000} {
		if w.IntN(share) < share/10 || w.IntN(share) == 0 {
			r.Tags = append(r.Tags, fmt.Sprint("tag", share))
		}
	}
	if w.IntN(5) == 0 {
		r.Category = "w3"
	}
	if w.IntN(10) == 0 {
		r.SupersededBy, r.UpdatedAt = uuid.UUID{1}, time.UnixMicro(60)
	}
}

func (w writer) query() leg.Query {
	q := leg.Query{Text: w.text(1 + w.IntN(6)), Depth: 1 + w.IntN(20)}
	if w.IntN(3) == 0 {
		q.Text += ` "` + w.text(2) + `"`
	}
	if w.IntN(3) == 0 {
		q.Text = strings.TrimSuffix(q.Text, `"`)
	}
	switch w.IntN(5) {
	case 0:
		q.Filter.TagsAny = []string{"tag10"}
	case 1:
		q.Filter.TagsAny = []string{"tag1000", "tag100"}
	case 2:
		q.Filter.IncludeSuperseded = true
	}
	if w.IntN(10) == 0 {
		q.AsOf = time.UnixMicro(30)
	}
	return q
}

// TestOracle compares searches with the definition, after random histories. Scores must be equal to the last digit.
func TestOracle(t *testing.T) {
	for i, s := range []Settings{
		DefaultSettings(), {Language: "simple", K1: 1.6, B: 0.9}, {Language: "english", K1: 0.4, B: 1, Prefix: true}, {Language: "german", K1: 0},
	} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			w := newWriter(uint64(i), 120)
			m := newImage(s)
			var ids []uuid.UUID
			for step := range 800 {
				switch action := w.IntN(10); {
				case action < 6 || len(ids) < 5:
					r := w.record()
					ids = append(ids, r.ID)
					m.put(r)
				case action < 8:
					r := m.records[ids[w.IntN(len(ids))]]
					w.fill(&r)
					m.put(r)
				default:
					at := w.IntN(len(ids))
					m.drop(ids[at])
					ids = slices.Delete(ids, at, at+1)
				}
				if step%8 == 0 {
					q := w.query()
					if first := m.oracle(q); len(first) > 2 && w.IntN(4) == 0 {
						q.MinScore = &first[len(first)/2].Score
					}
					m.compare(t, q)
				}
			}
			m.check(t)
			m.compareLoaded(t)
		})
	}
}

// compare compares a search and Scores with the definition.
func (m *image) compare(t *testing.T, q leg.Query) {
	t.Helper()
	got, want := m.search(t, q).Hits, m.oracle(q)
	for i := range got {
		if !(got[i].Matched >= 0 && got[i].Matched <= 1) {
			t.Fatalf("%q: hit %d matches %v of the query, want 0 to 1", q.Text, i+1, got[i].Matched)
		}
		got[i].Matched = 0 // TestMatched has its values
	}
	if len(got)+len(want) > 0 && !slices.Equal(got, want) {
		t.Fatalf("%+v: got the hits\n%+v, want\n%+v", q, got, want)
	}
	var ids []uuid.UUID
	for _, hit := range want {
		ids = append(ids, hit.ID)
	}
	scores := newBM25(t.Context(), m.index, m.rows.Select(record.Filter{}, time.Time{}), understand(q.Text, m.index.settings)).scoresOf(q, ids)
	if len(scores) != len(want) {
		t.Fatalf("%q: got %d scores, want %d", q.Text, len(scores), len(want))
	}
	for _, score := range scores {
		if i := slices.Index(ids, score.ID); want[i].Score != score.Score {
			t.Fatalf("%q: got the score %v alone, %v in a search", q.Text, score.Score, want[i].Score)
		}
	}
}

// A memory's match is the share of the query's weight in its words. Words that no memory has count in full.
func TestMatched(t *testing.T) {
	m := newImage(DefaultSettings())
	w := newWriter(1, 10)
	for _, text := range []string{"pager pin", "pager", "other"} {
		r := w.record()
		r.Title, r.Content, r.Keywords, r.Tags = "", text, nil, nil
		m.put(r)
	}
	result := m.search(t, leg.Query{Text: "pager pin quokka", Depth: 10})
	pager, pin, quokka := idf(3, 2), idf(3, 1), idf(3, 0)
	all := pager + pin + quokka
	if result.Attainable != all || result.Memories != 3 || result.Terms != 3 || len(result.Hits) != 2 {
		t.Fatalf("attainable %v of %d memories by %d terms, %d hits, want %v, 3, 3 and 2", result.Attainable, result.Memories, result.Terms, len(result.Hits), all)
	}
	for i, want := range []float64{(pin + pager) / all, pager / all} {
		if got := result.Hits[i].Matched; math.Abs(got-want) > 1e-12 {
			t.Errorf("hit %d matches %v of the query, want %v", i+1, got, want)
		}
	}
}

// check compares the statistics and the dictionary with the records.
func (m *image) check(t *testing.T) {
	t.Helper()
	terms := map[string]int{}
	for _, r := range m.records {
		seen := map[string]bool{}
		for _, o := range m.index.settings.language().occurrences(r) {
			if !seen[o.term] {
				terms[o.term]++
			}
			seen[o.term] = true
		}
	}
	if got := len(m.index.numbers); got != len(terms) {
		t.Errorf("got %d terms, want %d", got, len(terms))
	}
	for name, df := range terms {
		number, _ := m.index.known(name)
		if got := m.index.terms[number].postings; len(got) != df || !slices.IsSorted(got) {
			t.Errorf("got the postings %v of %q, want %d in order", got, name, df)
		}
	}
	if got := m.index.documents; got != int64(len(m.records)) {
		t.Errorf("got %d documents, want %d", got, len(m.records))
	}
	for number, term := range m.index.terms {
		if got := m.index.letters[number]; term.name != "" && got != letterSet(term.name) {
			t.Errorf("term %d is %q, and its letters are %x", number, term.name, got)
		}
		if known, _ := m.index.known(term.name); term.name != "" && known != uint32(number) || term.name == "" && len(term.postings) > 0 {
			t.Errorf("term %d is %+v, and the dictionary has number %d", number, term, known)
		}
	}
}

// TestLoadMany: an index that was loaded has the postings of one to which the memories were added one by one.
func TestLoadMany(t *testing.T) {
	t.Parallel()
	w, one := newWriter(7, 3*loadRows), newImage(DefaultSettings())
	for range 3 * loadRows {
		one.put(w.record())
	}
	loaded := newInverted(one.rows)
	if err := loaded.load(t.Context(), func(put func(uuid.UUID, []byte)) error {
		for id, r := range one.records { // in random order
			put(id, encode(r, one.index.settings.language().occurrences(r)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := loaded.documents, one.index.documents; got != want || want < 2*loadRows {
		t.Errorf("got %d documents, want %d, and at least %d", got, want, 2*loadRows)
	}
	if got, want := len(loaded.numbers), len(one.index.numbers); got != want {
		t.Errorf("got %d terms, want %d", got, want)
	}
	for _, want := range one.index.terms {
		number, _ := loaded.known(want.name)
		got := loaded.terms[number]
		if !slices.Equal(got.postings, want.postings) || got.maxFrequency != want.maxFrequency || got.minLength != want.minLength {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	panicking := newInverted(one.rows)
	panicking.numbers = nil // the first term panics
	if err := panicking.load(t.Context(), func(put func(uuid.UUID, []byte)) error {
		for id, r := range one.records {
			put(id, encode(r, one.index.settings.language().occurrences(r)))
		}
		return nil
	}); err == nil {
		t.Error("got no error of a panic")
	}
}

// loaded returns an image that was loaded from the records, for a question unless that is empty.
func (m *image) loaded(t *testing.T, question string) *image {
	t.Helper()
	loaded := newImage(m.index.settings)
	loaded.rows, loaded.records = m.rows, m.records
	loaded.index.rows = m.rows
	loaded.rows.Question = question
	loaded.index.expect(m.index.settings)
	if err := loaded.index.load(t.Context(), func(put func(uuid.UUID, []byte)) error {
		for id, r := range m.records { // in random order
			put(id, encode(r, m.index.settings.language().occurrences(r)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	loaded.index.sorted = nil
	loaded.index.set(m.index.settings)
	return loaded
}

// compareLoaded loads the records in another order, and compares searches. An image for one question has the same answer.
func (m *image) compareLoaded(t *testing.T) {
	t.Helper()
	loaded := m.loaded(t, "")
	loaded.check(t)
	w := newWriter(99, 120)
	for i := range 50 {
		q := w.query()
		if i < 20 {
			if got, want := m.loaded(t, q.Text).search(t, q), m.search(t, q); !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v: loaded for this question there is\n%+v, want\n%+v", q, got, want)
			}
		}
		if got, want := loaded.search(t, q).Hits, m.search(t, q).Hits; !slices.Equal(got, want) {
			t.Fatalf("%+v: loaded anew there are the hits\n%+v, want\n%+v", q, got, want)
		}
	}
	for id := range loaded.records {
		loaded.drop(id)
	}
	if left := loaded.index; len(left.numbers) > 0 || left.documents != 0 || left.length != 0 || len(left.sorted) > 0 {
		t.Errorf("after all memories went, there are %d terms, %d documents of length %d", len(left.numbers), left.documents, left.length)
	}
	if left := len(loaded.index.many); left > 0 {
		t.Errorf("after all memories went, %d high frequencies are left", left)
	}
	if left, row := loaded.index.bytes, int64(len(loaded.index.lengths))*22; left != row {
		t.Errorf("after all memories went, %d bytes are left, want %d", left, row)
	}
}

// TestDamagedDocument: a memory whose row is damaged is not indexed, and others are.
func TestDamagedDocument(t *testing.T) {
	m := newImage(DefaultSettings())
	w := newWriter(1, 50)
	r, other := w.record(), w.record()
	r.Content, other.Content = "heron secret", "heron"
	m.put(r)
	m.put(other)
	row := encode(r, m.index.settings.language().occurrences(r))
	m.index.put(t.Context(), m.rows.Put(replica.Memory{ID: r.ID}), row[:len(row)-1])
	if hits := m.search(t, leg.Query{Text: "heron", Depth: 10, Filter: record.Filter{IncludeSuperseded: true}}).Hits; len(hits) != 1 || hits[0].ID != other.ID {
		t.Errorf("got the hits %+v, want the other memory alone", hits)
	}
	if _, known := m.index.known("secret"); known || m.index.documents != 1 {
		t.Errorf("a word that no memory has is known: %t; %d documents, want 1", known, m.index.documents)
	}
}

// TestOutOfTime: a search whose time is over says so, or fails if it has found nothing.
func TestOutOfTime(t *testing.T) {
	m := newImage(DefaultSettings())
	w := newWriter(1, 50)
	for range 3 * windowRows {
		r := w.record()
		r.SupersededBy, r.Content = uuid.Nil, r.Content+" heron"
		m.put(r)
	}
	for checks, truncated := range map[int]bool{0: false, 2: true} {
		ctx := &countdown{t.Context(), checks}
		s := newBM25(ctx, m.index, m.rows.Select(record.Filter{}, time.Time{}), understand("heron", m.index.settings))
		result, err := s.search(ctx, leg.Query{Text: "heron", Depth: 5})
		if truncated != (len(result.Hits) == 5 && result.Reason != "" && result.State != 0) || truncated == (err != nil) {
			t.Errorf("after %d checks: %d hits, %v, %q, %v", checks, len(result.Hits), result.State, result.Reason, err)
		}
	}
}

// TestLongPhrases: a quotation as long as a memory is looked for in all that have its words without as much work for each of its words as
// a memory has words.
func TestLongPhrases(t *testing.T) {
	m := newImage(DefaultSettings())
	w := newWriter(1, 50)
	words := strings.Repeat("heron ", 5000)
	for range 20 {
		r := w.record()
		r.SupersededBy, r.Content = uuid.Nil, words
		m.put(r)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := newBM25(t.Context(), m.index, m.rows.Select(record.Filter{}, time.Time{}), understand(`"`+words+`"`, m.index.settings))
	runtime.ReadMemStats(&after)
	if len(s.terms) == 0 || !s.terms[0].phrase || s.terms[0].df != 20 {
		t.Errorf("got %+v, want a phrase that 20 memories have", s.terms)
	}
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 {
		t.Errorf("got %d MiB allocated, want 64 at most", got)
	}
}

// TestMatchesInTime: nothing is looked for in memories that come after the deadline.
func TestMatchesInTime(t *testing.T) {
	ctx := &countdown{t.Context(), 2}
	got, err := DefaultSettings().matches(ctx, "heron", make([]record.Record, 100))
	if !errors.Is(err, context.DeadlineExceeded) || ctx.left < -1 {
		t.Errorf("got %d matches and %v after %d checks, want the deadline at the third", len(got), err, 2-ctx.left)
	}
}

// countdown is a context that ends after some checks.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// FuzzDocument decodes what a database may have in place of a row. What is valid encodes again to equal terms.
func FuzzDocument(f *testing.F) {
	w := newWriter(3, 300)
	for range 10 {
		r := w.record()
		r.Content += " " + strings.Repeat("x", 300) + " " + strings.Repeat("x", 200) + "y"
		f.Add(encode(r, languages["english"].occurrences(r)))
	}
	f.Add([]byte{})
	f.Add(make([]byte, documentHeader))
	f.Add(encode(record.Record{}, []occurrence{{"beta", 0, 0}, {"alpha", 1, 0}}))
	f.Fuzz(func(t *testing.T, row []byte) {
		var d document
		if d.decode(row) != nil {
			return
		}
		sum, last := 0, ""
		for _, term := range d.terms {
			name := string(term.name)
			if name <= last || len(name) > maxTermBytes || term.tf <= 0 {
				t.Fatalf("the term %q follows %q", name, last)
			}
			positions := appendPositions(nil, term.occurrences)
			if !slices.IsSorted(positions) || occurrencesSize(term.occurrences) != len(term.occurrences) {
				t.Fatalf("the positions of %q are %v", name, positions)
			}
			sum, last = sum+term.tf, name
		}
		if d.length > sum || d.length < 0 {
			t.Fatalf("the length is %d, the frequencies add up to %d", d.length, sum)
		}
	})
}

// TestEncode decodes what was encoded.
func TestEncode(t *testing.T) {
	w := newWriter(5, 500)
	for range 200 {
		r := w.record()
		want := languages["english"].occurrences(r)
		var d document
		if err := d.decode(encode(r, want)); err != nil {
			t.Fatal(err)
		}
		if d.content != hashOf(r.Content) || d.title != hashOf(r.Title) {
			t.Errorf("got the hashes %x and %x, want those of the content and the title", d.content, d.title)
		}
		var got []occurrence
		for _, term := range d.terms {
			for _, position := range appendPositions(nil, term.occurrences) {
				got = append(got, occurrence{string(term.name), int(position), 0})
			}
		}
		if !slices.EqualFunc(got, want, func(a, b occurrence) bool { return a.term == b.term && a.position == b.position }) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// TestHostileDocuments: frequencies beyond those that postings hold take no longer. Else memories that repeat a thousand words would hold
// a search up for seconds beyond its deadline.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	m := newImage(DefaultSettings())
	const terms, times, memories = 500, 60, 600
	var occurrences []occurrence
	for term := range terms {
		for i := range times {
			occurrences = append(occurrences, occurrence{fmt.Sprintf("w%04d", term), i*terms + term, 0})
		}
	}
	row := encode(record.Record{}, occurrences)
	for range memories {
		m.index.put(t.Context(), m.rows.Put(replica.Memory{ID: uuid.New()}), row)
	}
	var words []string
	for term := range maxTerms {
		words = append(words, fmt.Sprintf("w%04d", terms-1-term))
	}
	start := time.Now()
	result := m.search(t, leg.Query{Text: strings.Join(words, " "), Depth: 10})
	if took := time.Since(start); took > 2*time.Second || len(result.Hits) != 10 {
		t.Errorf("got %d hits in %v, want 10 in less than 2 s", len(result.Hits), took)
	}
}

package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// example is a pair of encoded texts.
type example struct{ a, b side }

// sampler draws batches.
type sampler struct {
	options  Options
	random   *rand.Rand
	pairs    []example
	texts    [][]int32 // paragraphs to make pairs from
	all      drawer
	bySource []drawer
	sources  drawer // over bySource
}

// drawer draws items in proportion to their weights.
type drawer struct {
	items []int32
	until []float64 // the sum of the weights up to and with each item's
}

func (d *drawer) add(item int32, weight float64) {
	if n := len(d.until); n > 0 {
		weight += d.until[n-1]
	}
	d.items, d.until = append(d.items, item), append(d.until, weight)
}

func (d *drawer) draw(random *rand.Rand) int32 {
	x := random.Float64() * d.until[len(d.until)-1]
	return d.items[min(sort.SearchFloat64s(d.until, x), len(d.items)-1)]
}

// newSide counts the words of a text. One that occurs n times counts n to the power repeat.
func newSide(words []int32, repeat float64) side {
	sorted := slices.Sorted(slices.Values(words))
	var s side
	for i := 0; i < len(sorted); {
		from := i
		for i < len(sorted) && sorted[i] == sorted[from] {
			i++
		}
		s.words, s.times = append(s.words, sorted[from]), append(s.times, float32(math.Pow(float64(i-from), repeat)))
		s.key = mix(s.key ^ uint64(sorted[from])<<8 ^ uint64(i-from))
	}
	return s
}

func newSampler(options Options, d *data, random *rand.Rand) *sampler {
	s := &sampler{options: options, random: random, texts: d.texts}
	bySource := map[int32]*drawer{}
	var order []int32
	for i, pair := range d.pairs {
		weight, named := options.Kinds[pair.Kind]
		if !named {
			weight = 1
		}
		if weight == 0 || len(d.a[i]) == 0 || len(d.b[i]) == 0 {
			continue
		}
		item := int32(len(s.pairs))
		s.pairs = append(s.pairs, example{newSide(d.a[i], options.Repeat), newSide(d.b[i], options.Repeat)})
		s.all.add(item, weight)
		if bySource[pair.Source] == nil {
			bySource[pair.Source] = &drawer{}
			order = append(order, pair.Source)
		}
		bySource[pair.Source].add(item, weight)
	}
	slices.Sort(order)
	for _, source := range order {
		pairs := bySource[source]
		s.sources.add(int32(len(s.bySource)), math.Pow(pairs.until[len(pairs.until)-1], options.SourcePower))
		s.bySource = append(s.bySource, *pairs)
	}
	return s
}

// batch draws options.Batch examples. A part of them comes from one source, where the wrong answers are harder to tell
// from the right ones; a part is made of single texts.
func (s *sampler) batch() (a, b []side) {
	n := s.options.Batch
	source := &s.bySource[s.sources.draw(s.random)]
	for i := range n {
		var e example
		switch {
		case i < int(float64(n)*s.options.Alone):
			e = s.alone()
		case i < int(float64(n)*(s.options.Alone+s.options.OneSource)):
			e = s.pairs[source.draw(s.random)]
		default:
			e = s.pairs[s.all.draw(s.random)]
		}
		a, b = append(a, e.a), append(b, e.b)
	}
	return a, b
}

// alone makes a pair of one text: a part of it asks for the rest, as in the inverse cloze task (Lee, Chang and Toutanova
// 2019). A tenth of the words stays on both sides.
func (s *sampler) alone() example {
	for {
		words := s.texts[s.random.IntN(len(s.texts))]
		if len(words) < 12 {
			continue
		}
		span := 4 + s.random.IntN(min(len(words)/2, 16)-3)
		from := s.random.IntN(len(words) - span + 1)
		rest := make([]int32, 0, len(words))
		for i, word := range words {
			if i < from || i >= from+span || s.random.Float64() < s.options.Shared {
				rest = append(rest, word)
			}
		}
		return example{newSide(words[from:from+span], s.options.Repeat), newSide(rest, s.options.Repeat)}
	}
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/triskele/triskele/services/embed/static"
)

const (
	topics        = 400
	topicWords    = 60  // of a topic, the nearest ones to its first in the built-in model
	subjectWords  = 12  // of a subject, from one topic
	perSubject    = 40  // texts
	exponent      = 1.1 // of the frequency of a word by its rank
	rankOffset    = 50
	firstTopical  = 500 // topics begin with words beyond this rank, which mean something
	topicalBeyond = 12_000
)

// corpus generates texts of the built-in model's words, the same for the same seed and size. A text is about a subject, and
// a subject is some words of a topic, so vectors form clusters, as those of people's notes do: with independent random
// vectors an index of neighbourhoods would have nothing to hold on to.
type corpus struct {
	random   *rand.Rand
	words    []string // most frequent first
	zipf     *rand.Zipf
	subjects []subject
}

// subject is what a few dozen texts are about: words, and names that no dictionary has.
type subject struct{ words, names []string }

func newCorpus(ctx context.Context, seed uint64, size int) (corpus, error) {
	model, err := static.Builtin()
	if err != nil {
		return corpus{}, err
	}
	c := corpus{random: rand.New(rand.NewPCG(seed, uint64(size))), words: slices.Collect(model.Vocabulary())}
	c.zipf = rand.NewZipf(c.random, exponent, rankOffset, uint64(len(c.words)-1))
	vectors, err := model.EmbedDocuments(ctx, c.words[:topicalBeyond])
	if err != nil {
		return corpus{}, err
	}
	var all [][]string
	for range topics {
		all = append(all, c.topic(vectors, firstTopical+c.random.IntN(topicalBeyond-firstTopical)))
	}
	for range max(1, size/perSubject) {
		topic := all[c.random.IntN(topics)]
		var s subject
		for _, k := range c.random.Perm(topicWords)[:subjectWords] {
			s.words = append(s.words, topic[k])
		}
		s.names = []string{c.name(), c.name() + fmt.Sprint(c.random.IntN(100))}
		c.subjects = append(c.subjects, s)
	}
	return c, nil
}

// topic returns the words that are most like one of them.
func (c corpus) topic(vectors [][]float32, of int) []string {
	type neighbour struct {
		word  int
		score float32
	}
	neighbours := make([]neighbour, len(vectors))
	for i, vector := range vectors {
		neighbours[i].word = i
		for j, x := range vector {
			neighbours[i].score += x * vectors[of][j]
		}
	}
	slices.SortFunc(neighbours, func(a, b neighbour) int {
		if a.score > b.score {
			return -1
		}
		return 1
	})
	words := make([]string, topicWords)
	for i := range words {
		words[i] = c.words[neighbours[i].word]
	}
	return words
}

// name is a person's or a thing's.
func (c corpus) name() string {
	const consonants, vowels = "bdfgklmnprtvz", "aeiou"
	var b strings.Builder
	for range 2 + c.random.IntN(2) {
		b.WriteByte(consonants[c.random.IntN(len(consonants))])
		b.WriteByte(vowels[c.random.IntN(len(vowels))])
	}
	return b.String()
}

// text returns a number of words: four in ten of a subject and one a name of it, the rest any, as often as they occur in
// English.
func (c corpus) text(s subject, words int) string {
	chosen := make([]string, words)
	for i := range chosen {
		switch roll := c.random.IntN(10); {
		case roll < 4:
			chosen[i] = s.words[c.random.IntN(len(s.words))]
		case roll < 5:
			chosen[i] = s.names[c.random.IntN(len(s.names))]
		default:
			chosen[i] = c.words[c.zipf.Uint64()]
		}
	}
	return strings.Join(chosen, " ")
}

// memory is 8 to 40 words about one of the subjects.
func (c corpus) memory() string {
	return c.text(c.subjects[c.random.IntN(len(c.subjects))], 8+c.random.IntN(33))
}

// query is 3 to 10 words about one of the subjects.
func (c corpus) query() string {
	return c.text(c.subjects[c.random.IntN(len(c.subjects))], 3+c.random.IntN(8))
}

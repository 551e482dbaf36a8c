package main

import (
	"math/rand/v2"
	"strings"
)

// The vocabulary's distribution: word k has probability proportional to (offset + k)^-exponent, as content words of a
// natural language have when its stop words are left out. The most frequent word is in about a sixth of the memories.
const (
	vocabulary = 200_000
	exponent   = 1.1
	offset     = 50
)

// corpus generates memories, the same for the same seed.
type corpus struct {
	random *rand.Rand
	zipf   *rand.Zipf
}

func newCorpus(seed uint64) corpus {
	random := rand.New(rand.NewPCG(seed, 1))
	return corpus{random, rand.NewZipf(random, exponent, offset, vocabulary-1)}
}

// memory returns 20 to 80 words.
func (c corpus) memory() string {
	words := make([]string, 20+c.random.IntN(61))
	for i := range words {
		words[i] = word(c.zipf.Uint64())
	}
	return strings.Join(words, " ")
}

// query returns 3 to 10 words of a memory.
func (c corpus) query(memory string) string {
	words := strings.Fields(memory)
	c.random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return strings.Join(words[:3+c.random.IntN(8)], " ")
}

// word spells a number in syllables.
func word(k uint64) string {
	const consonants, vowels = "bdfgklmnprtvz", "aiou"
	var b strings.Builder
	for k += 52; k > 0; k /= 52 {
		b.WriteByte(consonants[k%52/4])
		b.WriteByte(vowels[k%4])
	}
	return b.String()
}

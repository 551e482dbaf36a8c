package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The vocabulary's distribution: word k has probability proportional to (offset + k)^-exponent, as content words of a
// natural language have when its stop words are left out.
const (
	vocabulary = 200_000
	exponent   = 1.1
	offset     = 50
	subjects   = 500 // that memories have as their titles, so that there is a graph
)

// note is a memory.
type note struct {
	title, content string
	tags           []string // of shares
}

// share is a tag that a part of the memories has, so that a filter of it passes so many.
type share struct {
	tag  string
	part float64
}

var shares = []share{{"10 %", .1}, {"1 %", .01}, {"0.1 %", .001}}

// notes generates n of 20 to 80 words, the same for the same seed.
func notes(seed uint64, n int) []note {
	random := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(random, exponent, offset, vocabulary-1)
	out := make([]note, n)
	for i := range out {
		words := make([]string, 20+random.IntN(61))
		for j := range words {
			words[j] = word(zipf.Uint64())
		}
		out[i] = note{title: fmt.Sprintf("Project %s", strings.ToUpper(word(uint64(1e6+random.IntN(subjects))))), content: strings.Join(words, " ")}
		for _, s := range shares {
			if random.Float64() < s.part {
				out[i].tags = append(out[i].tags, s.tag)
			}
		}
	}
	return out
}

// question is a query and the text it was made of.
type question struct{ text, source string }

// questions makes queries of 3 to 10 words of a text, one in three with the title.
func questions(seed uint64, texts []note, n int) []question {
	random := rand.New(rand.NewPCG(seed, 2))
	out := make([]question, n)
	for i := range out {
		source := texts[random.IntN(len(texts))]
		words := strings.Fields(source.content)
		random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		words = words[:3+random.IntN(8)]
		if i%3 == 0 {
			words = append(words, source.title)
		}
		out[i] = question{strings.Join(words, " "), source.content}
	}
	return out
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

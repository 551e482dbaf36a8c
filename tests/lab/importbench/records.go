package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
)

const (
	vocabulary = 20_000
	words      = 40 // of a record
	secret     = 50 // one record of so many is sensitive
)

// line is a record as it is imported.
type line struct {
	Content    string         `json:"content"`
	Title      string         `json:"title"`
	Tags       []string       `json:"tags"`
	Importance float64        `json:"importance"`
	Sensitive  bool           `json:"sensitive,omitempty"`
	Metadata   map[string]int `json:"metadata"`
}

// records yields n records with Zipf-like words, the same each time. Metadata n is the record's number, from 0.
func records(n int) func(yield func(line) bool) {
	return func(yield func(line) bool) {
		r := rand.New(rand.NewPCG(1, 2))
		names := make([]string, vocabulary)
		for i := range names {
			letters := make([]byte, 3+r.IntN(7))
			for j := range letters {
				letters[j] = byte('a' + r.IntN(26))
			}
			names[i] = string(letters)
		}
		// Of rank k with a probability like 1/k.
		word := func() string { return names[int(math.Pow(vocabulary, r.Float64()))-1] }
		for i := range n {
			text := make([]string, words)
			for j := range text {
				text[j] = word()
			}
			if !yield(line{
				Content: fmt.Sprintf("Record %d. %s", i, strings.Join(text, " ")), Title: fmt.Sprintf("Record %d", i),
				Tags: []string{names[r.IntN(50)], names[r.IntN(500)]}, Importance: math.Round(1000*r.Float64()) / 1000,
				Sensitive: i%secret == 0, Metadata: map[string]int{"n": i},
			}) {
				return
			}
		}
	}
}

// generate writes n records to a file.
func generate(path string, n int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	buffered := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffered)
	for l := range records(n) {
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return file.Close()
}

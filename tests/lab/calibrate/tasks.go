package calibrate

import (
	"bufio"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/eval"
)

// pair is a text and one that answers it, of a kind and a source.
type pair struct {
	Asked    string `json:"a"`
	Answered string `json:"b"`
	Kind     string `json:"k"`
	Source   int    `json:"s"`
}

// kinds are the kinds of pairs in which the first text asks for the second, with the share of the namespaces that they get.
var kinds = map[string]int{
	"question-answer": 4, "heading-para": 4, "title-para": 2, "title-desc": 2, "term-definition": 2, "same-intent": 5, "rule-question": 1,
	"paraphrase": 1, "dialog-reply": 1,
}

// sizes are the namespaces of the training tasks: how many memories, and how many namespaces of that size.
var sizes = []struct{ memories, namespaces int }{
	{5, 14}, {10, 14}, {20, 18}, {50, 12}, {100, 9}, {300, 7}, {1000, 5}, {3000, 2}, {10_000, 1}, {20_000, 1},
}

const (
	mostAsked    = 60  // questions of a sort, per namespace
	longestAsked = 400 // bytes
	longestTold  = 4000
)

// readPairs reads the pairs in which one text asks for the other, by kind and source, in the files' order.
func readPairs(folder string) (map[string][]pair, error) {
	files, err := filepath.Glob(filepath.Join(folder, "pairs-*.jsonl.gz"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no pairs-*.jsonl.gz: %w", folder, cmp.Or(err, os.ErrNotExist))
	}
	groups := map[string][]pair{}
	for _, file := range files {
		if err := eachPair(file, func(p pair) {
			if kinds[p.Kind] > 0 && len(p.Asked) <= longestAsked && len(p.Answered) <= longestTold {
				group := fmt.Sprintf("%s %03d", p.Kind, p.Source)
				groups[group] = append(groups[group], p)
			}
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return groups, nil
}

func eachPair(file string, fn func(pair)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p pair
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return err
		}
		fn(p)
	}
	return lines.Err()
}

// topic is a set of texts that mean the same or answer one another: of a heading its paragraphs, of an intent its wordings.
type topic struct {
	asked, told []string
}

// topics joins the pairs that share a text.
func topics(pairs []pair) []topic {
	of := map[string]int{} // by text
	parent := []int{}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	number := func(text string) int {
		i, known := of[text]
		if !known {
			i = len(parent)
			of[text], parent = i, append(parent, i)
		}
		return i
	}
	for _, p := range pairs {
		a, b := find(number("a "+p.Asked)), find(number("b "+p.Answered))
		parent[max(a, b)] = min(a, b)
		if p.Kind == "same-intent" || p.Kind == "paraphrase" { // either text may be asked or told
			c := find(number("b " + p.Asked))
			a = find(a)
			parent[max(a, c)] = min(a, c)
		}
	}
	at := map[int]int{}
	var out []topic
	seen := map[string]bool{}
	for _, p := range pairs {
		root := find(of["a "+p.Asked])
		i, known := at[root]
		if !known {
			i = len(out)
			at[root], out = i, append(out, topic{})
		}
		if !seen["a"+p.Asked] {
			seen["a"+p.Asked] = true
			out[i].asked = append(out[i].asked, p.Asked)
		}
		if !seen["b"+p.Answered] {
			seen["b"+p.Answered] = true
			out[i].told = append(out[i].told, p.Answered)
		}
	}
	return out
}

// Tasks makes a set of namespaces of different sizes from pairs. Each is asked what it answers, what the same source answers
// but it does not, and what another source answers. The same seed gives the same set.
func Tasks(folder string, seed uint64) (*eval.Set, error) {
	groups, err := readPairs(folder)
	if err != nil {
		return nil, err
	}
	var names []string // of groups, as often as their kind is wanted
	byKind := map[string][]string{}
	for name := range groups {
		byKind[strings.Fields(name)[0]] = append(byKind[strings.Fields(name)[0]], name)
	}
	var order []string
	for kind, n := range kinds {
		for range n {
			order = append(order, kind)
		}
		slices.Sort(byKind[kind])
	}
	slices.Sort(order)
	b := builder{random: rand.New(rand.NewPCG(seed, 1)), set: &eval.Set{Name: "tasks", Documents: map[string]string{}}}
	cache := map[string][]topic{}
	of := func(name string) []topic {
		if cache[name] == nil {
			cache[name] = topics(groups[name])
		}
		return cache[name]
	}
	for _, size := range sizes {
		for range size.namespaces {
			var own []topic
			for len(own) < size.memories/2+8 && len(own) < 4000 {
				kind := order[b.random.IntN(len(order))]
				names = byKind[kind]
				own = append(own, of(names[b.random.IntN(len(names))])...)
			}
			kind := order[b.random.IntN(len(order))]
			other := of(byKind[kind][b.random.IntN(len(byKind[kind]))])
			b.namespace(size.memories, own, other)
		}
	}
	return b.set, nil
}

type builder struct {
	random *rand.Rand
	set    *eval.Set
}

// namespace adds a namespace with memories of some topics. Half of the time the topics are neighbours in their source.
func (b *builder) namespace(memories int, own, other []topic) {
	name := fmt.Sprintf("task%03d", len(b.set.Namespaces))
	b.set.Namespaces = append(b.set.Namespaces, name)
	order := b.random.Perm(len(own))
	if b.random.IntN(2) == 0 {
		from := b.random.IntN(len(own))
		for i := range order {
			order[i] = (from + i) % len(own)
		}
	}
	// A third of the namespaces are documents and conversations: a memory is a sentence, its thread some topics in order.
	threaded := b.random.IntN(3) == 0
	most := 1 + b.random.IntN(3) // memories of a topic
	var inside, outside []topic
	documents := map[int]map[string]int{} // of the topics inside
	stored := 0
	for _, at := range order {
		t := own[at]
		if stored >= memories || b.random.IntN(5) == 0 {
			outside = append(outside, t)
			continue
		}
		grades := map[string]int{}
		for _, text := range t.told[:min(most, len(t.told), memories-stored)] {
			texts, thread := []string{text}, ""
			if threaded {
				texts, thread = sentences(text), fmt.Sprintf("%s-%d", name, len(inside)/topicsInThread)
			}
			for _, text := range texts[:min(len(texts), mostAnswering)] {
				grades[b.remember(name, text)] = 1
				if threaded {
					memory := b.set.Memories[len(b.set.Memories)-1]
					memory.Thread, memory.Position = thread, proto.Int64(int64(stored))
				}
				stored++
			}
		}
		documents[len(inside)] = grades
		inside = append(inside, t)
	}
	for n, at := range b.random.Perm(len(inside)) {
		if n == mostAsked {
			break
		}
		b.ask(name, inside[at], "answered", documents[at])
	}
	b.chat(name, chatty)
	b.askSome(name, outside, "absent")
	b.askSome(name, other, "elsewhere")
}

// A thread has so many topics, and an answer at most so many sentences.
const topicsInThread, mostAnswering = 12, 8

// sentences splits a text roughly.
func sentences(text string) (of []string) {
	for _, part := range endOfSentence.Split(text, -1) {
		if part = strings.TrimSpace(part); part != "" {
			of = append(of, part)
		}
	}
	if len(of) == 0 {
		return []string{text}
	}
	return of
}

var endOfSentence = regexp.MustCompile(`[.?!]["'”)]?\s+|\n+`)

//go:embed smalltalk.txt
var smallTalk string

// chatty is how many prompts of small talk a namespace is asked. Nothing answers them.
const chatty = 6

// chat asks for what people say to agents all day, about nothing that is remembered.
func (b *builder) chat(namespace string, n int) {
	prompts := strings.Split(strings.TrimSpace(smallTalk), "\n")
	for range n {
		b.ask(namespace, topic{asked: prompts}, "elsewhere", nil)
	}
}

func (b *builder) askSome(namespace string, of []topic, category string) {
	for n, at := range b.random.Perm(len(of)) {
		if n == mostAsked/2 {
			break
		}
		b.ask(namespace, of[at], category, nil)
	}
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (b *builder) remember(namespace, text string) string {
	n := len(b.set.Memories)
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s %d", namespace, n)).String()
	b.set.Memories = append(b.set.Memories, &triskelev1.Memory{
		Id: id, Namespace: namespace, Content: text, CreatedAt: timestamppb.New(epoch.Add(-time.Duration(n) * time.Second)),
	})
	b.set.Documents[id] = id
	return id
}

func (b *builder) ask(namespace string, t topic, category string, grades map[string]int) {
	text := t.asked[b.random.IntN(len(t.asked))]
	b.set.Queries = append(b.set.Queries, eval.Query{
		ID: fmt.Sprintf("%s-%s-%d", namespace, category, len(b.set.Queries)), Text: text, Namespace: namespace, Stratum: category, Grades: grades,
	})
}

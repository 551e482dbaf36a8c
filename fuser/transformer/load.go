package transformer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/triskele/triskele/fuser/transformer/safetensors"
	"github.com/triskele/triskele/fuser/transformer/wordpiece"
)

// config is a model's config.json.
type config struct {
	Type         string  `json:"model_type"`
	Hidden       int     `json:"hidden_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Intermediate int     `json:"intermediate_size"`
	Positions    int     `json:"max_position_embeddings"`
	Segments     int     `json:"type_vocab_size"`
	Epsilon      float64 `json:"layer_norm_eps"`
	Activation   string  `json:"hidden_act"`
	Position     string  `json:"position_embedding_type"`
	Decoder      bool    `json:"is_decoder"`
}

// largest bounds the sizes of a configuration, since memory is reserved by them.
const largest = 1 << 20

// readConfig reads and checks a config.json. A setting that would change the numbers and is not supported is an error.
func readConfig(folder fs.FS) (config, error) {
	c := config{Activation: "gelu", Position: "absolute"}
	text, err := fs.ReadFile(folder, "config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return c, errors.New("the folder has no config.json: it must be a model of Hugging Face")
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("config.json: %w", err)
	}
	switch {
	case c.Type != "bert":
		return c, fmt.Errorf("config.json: model_type %q is not supported: it must be bert", c.Type)
	case c.Activation != "gelu" && c.Activation != "relu":
		return c, fmt.Errorf("config.json: hidden_act %q is not supported: it must be gelu or relu", c.Activation)
	case c.Position != "absolute":
		return c, fmt.Errorf("config.json: position_embedding_type %q is not supported: it must be absolute", c.Position)
	case c.Decoder:
		return c, errors.New("config.json: is_decoder is not supported: it must be false")
	case !(c.Epsilon > 0):
		return c, errors.New("config.json: layer_norm_eps must be a number above 0")
	}
	for _, field := range []struct {
		name         string
		value, least int
	}{
		{"hidden_size", c.Hidden, 1},
		{"num_hidden_layers", c.Layers, 1},
		{"num_attention_heads", c.Heads, 1},
		{"intermediate_size", c.Intermediate, 1},
		{"max_position_embeddings", c.Positions, 3}, // [CLS], a token and [SEP]
		{"type_vocab_size", c.Segments, 1},
	} {
		if field.value < field.least {
			return c, fmt.Errorf("config.json: %s is %d: it must be at least %d", field.name, field.value, field.least)
		}
		if field.value > largest {
			return c, fmt.Errorf("config.json: %s is %d: it must be at most %d", field.name, field.value, largest)
		}
	}
	if c.Hidden%c.Heads != 0 {
		return c, fmt.Errorf("config.json: num_attention_heads is %d: it must divide hidden_size, %d", c.Heads, c.Hidden)
	}
	return c, nil
}

// Load reads a model of the BERT architecture from a folder as Hugging Face's transformers write it: config.json,
// model.safetensors, and tokenizer.json or vocab.txt. Weights may also be bytes (I8): a tensor NAME.scale then has what each row
// is multiplied by.
func Load(folder fs.FS) (*Model, error) {
	c, err := readConfig(folder)
	if err != nil {
		return nil, err
	}
	m := &Model{config: c}
	if m.tokenizer, err = wordpiece.Load(folder); err != nil {
		return nil, err
	}
	for token, id := range map[string]*int{"[CLS]": &m.start, "[SEP]": &m.end} {
		var known bool
		if *id, known = m.tokenizer.ID(token); !known {
			return nil, fmt.Errorf("the tokenizer has no token %s", token)
		}
	}
	file, err := folder.Open("model.safetensors")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the folder has no model.safetensors: save the model with save_pretrained(..., safe_serialization=True)")
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, random := file.(io.ReaderAt)
	about, err := file.Stat()
	if err == nil && !random {
		err = errors.New("model.safetensors cannot be read in parts")
	}
	if err != nil {
		return nil, err
	}
	tensors, err := safetensors.Read(data, about.Size())
	if err == nil {
		err = m.load(&reader{tensors: tensors})
	}
	if err != nil {
		return nil, fmt.Errorf("model.safetensors: %w", err)
	}
	return m, nil
}

// load reads the weights, and those of the head if there are any.
func (m *Model) load(r *reader) error {
	c := m.config
	// The inputs and outputs of the heads have places of their own, as a tile's columns must not mix two heads.
	m.width, m.head = up(c.Hidden, columns), up(c.Hidden/c.Heads, columns)
	hidden, inner, heads := places(c.Hidden, c.Hidden, m.width), places(c.Intermediate, c.Intermediate, 0), places(c.Hidden, c.Hidden/c.Heads, m.head)
	m.words = r.table("embeddings.word_embeddings.weight", -1, c.Hidden)
	m.positions = r.floats("embeddings.position_embeddings.weight", c.Positions, c.Hidden)
	m.segments = r.floats("embeddings.token_type_embeddings.weight", c.Segments, c.Hidden)
	m.norm = r.norm("embeddings.LayerNorm", c)
	for i := 0; i < c.Layers && r.err == nil; i++ {
		name := fmt.Sprintf("encoder.layer.%d.", i)
		l := layer{attend: linear{in: m.width, out: 3 * c.Heads * m.head}}
		for part, kind := range []string{"query", "key", "value"} {
			to := make([]int, len(heads))
			for k, place := range heads {
				to[k] = place + part*c.Heads*m.head
			}
			r.linear(name+"attention.self."+kind, &l.attend, hidden, to)
		}
		l.merge = linear{in: c.Heads * m.head, out: m.width}
		r.linear(name+"attention.output.dense", &l.merge, heads, hidden)
		l.merged = r.norm(name+"attention.output.LayerNorm", c)
		l.widen = linear{in: m.width, out: up(c.Intermediate, columns)}
		r.linear(name+"intermediate.dense", &l.widen, hidden, inner)
		l.narrow = linear{in: l.widen.out, out: m.width}
		r.linear(name+"output.dense", &l.narrow, inner, hidden)
		l.narrowed = r.norm(name+"output.LayerNorm", c)
		m.layers = append(m.layers, l)
	}
	if r.err == nil && m.words.rows() < m.tokenizer.Size() {
		return fmt.Errorf("there are embeddings of %d tokens, and the tokenizer has %d", m.words.rows(), m.tokenizer.Size())
	}
	m.loadHead(r, hidden)
	return r.err
}

// loadHead reads the head of a cross-encoder, or remembers what it lacks.
func (m *Model) loadHead(r *reader, hidden []int) {
	classifier := r.tensors["classifier.weight"]
	_, pooler := r.find("pooler.dense.weight")
	switch {
	case classifier.Shape == nil || !pooler:
		m.scores = errors.New("the model is no reranker: model.safetensors lacks pooler.dense or classifier, which a cross-encoder has")
	case len(classifier.Shape) != 2 || classifier.Shape[0] != 1:
		m.scores = fmt.Errorf("the model is no reranker: classifier.weight has the shape %v, and a cross-encoder has one label", classifier.Shape)
	case m.config.Segments < 2:
		m.scores = fmt.Errorf("the model is no reranker: type_vocab_size is %d, and a cross-encoder has 2", m.config.Segments)
	default:
		m.pooler = linear{in: m.width, out: m.width}
		r.linear("pooler.dense", &m.pooler, hidden, hidden)
		m.classifier = r.floats("classifier.weight", 1, m.config.Hidden)
		if bias := r.floats("classifier.bias", 1); r.err == nil {
			m.bias = bias[0]
		}
	}
}

// up rounds n up to a multiple.
func up(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// places returns where each of n numbers is if each group of them takes width places.
func places(n, group, width int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = i/group*width + i%group
	}
	return at
}

// reader reads tensors until the first error.
type reader struct {
	tensors map[string]safetensors.Tensor
	err     error
}

// find returns a tensor, whose name may have the prefix of models with a head.
func (r *reader) find(name string) (safetensors.Tensor, bool) {
	t, found := r.tensors[name]
	if !found {
		t, found = r.tensors["bert."+name]
	}
	return t, found
}

// table returns a tensor of a shape, whose rows are read one by one. Bytes stay bytes. A size below 0 may be any.
func (r *reader) table(name string, shape ...int) (read table) {
	if r.err != nil {
		return read
	}
	t, found := r.find(name)
	var err error
	switch {
	case !found:
		r.err = fmt.Errorf("the tensor %s is missing", name)
	case !slices.EqualFunc(t.Shape, shape, func(has, want int) bool { return want < 0 || has == want }):
		r.err = fmt.Errorf("tensor %s has the shape %v: config.json makes it %v", name, t.Shape, shape)
	case t.Type == "I8":
		read.scales = r.floats(name+".scale", t.Shape[0])
		read.bytes, err = t.Bytes()
	case t.Type == "F32" || t.Type == "F16" || t.Type == "BF16":
		read.floats, err = t.Floats()
	default:
		r.err = fmt.Errorf("tensor %s has the type %s, which is not supported: it must be F32, F16, BF16 or I8", name, t.Type)
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("tensor %s: %w", name, err)
	}
	if r.err == nil {
		read.width = t.Count() / t.Shape[0]
	}
	return read
}

// floats returns the numbers of a tensor, or nil after an error.
func (r *reader) floats(name string, shape ...int) []float32 {
	t := r.table(name, shape...)
	if t.floats != nil || r.err != nil {
		return t.floats
	}
	numbers := make([]float32, len(t.bytes))
	for i := range t.rows() {
		t.read(numbers[i*t.width:][:t.width], i)
	}
	return numbers
}

func (r *reader) norm(name string, c config) norm {
	return norm{weight: r.floats(name+".weight", c.Hidden), bias: r.floats(name+".bias", c.Hidden), epsilon: c.Epsilon}
}

// linear reads weights into l. from and to are the places of the inputs and outputs.
func (r *reader) linear(name string, l *linear, from, to []int) {
	weights, bias := r.table(name+".weight", len(to), len(from)), r.floats(name+".bias", len(to))
	switch {
	case r.err != nil:
	case weights.bytes == nil && l.bytes != nil:
		t, _ := r.find(name + ".weight")
		r.err = fmt.Errorf("tensor %s has the type %s: those beside it are I8", name+".weight", t.Type)
	default:
		l.set(weights, bias, from, to)
	}
}

package transformer_test

import (
	"fmt"
	"math"

	"github.com/triskele/triskele/fuser/transformer/modeltest"
)

// reference runs a model in float64 with plain loops, as Devlin et al. and Hugging Face's transformers describe it.
type reference struct {
	shape   modeltest.Shape
	tensors map[string]modeltest.Tensor
	relu    bool
}

func (f reference) linear(name string, x [][]float64) [][]float64 {
	w, b := f.tensors[name+".weight"], f.tensors[name+".bias"]
	y := make([][]float64, len(x))
	for i, row := range x {
		y[i] = make([]float64, w.Shape[0])
		for o := range y[i] {
			y[i][o] = float64(b.Data[o])
			for k, v := range row {
				y[i][o] += v * float64(w.Data[o*len(row)+k])
			}
		}
	}
	return y
}

func (f reference) norm(name string, x, y [][]float64) [][]float64 {
	out := make([][]float64, len(x))
	for i, row := range x {
		n := float64(len(row))
		sums := make([]float64, len(row))
		var mean, variance float64
		for k := range row {
			sums[k] = row[k] + y[i][k]
			mean += sums[k] / n
		}
		for _, v := range sums {
			variance += (v - mean) * (v - mean) / n
		}
		for k, v := range sums {
			sums[k] = (v-mean)/math.Sqrt(variance+1e-12)*float64(f.tensors[name+".weight"].Data[k]) + float64(f.tensors[name+".bias"].Data[k])
		}
		out[i] = sums
	}
	return out
}

func (f reference) attend(name string, x [][]float64) [][]float64 {
	q, k, v := f.linear(name+"query", x), f.linear(name+"key", x), f.linear(name+"value", x)
	out, width := make([][]float64, len(x)), f.shape.Hidden/f.shape.Heads
	for i := range x {
		out[i] = make([]float64, f.shape.Hidden)
		for from := 0; from < f.shape.Hidden; from += width {
			weights, sum := make([]float64, len(x)), 0.0
			for j := range x {
				for d := from; d < from+width; d++ {
					weights[j] += q[i][d] * k[j][d] / math.Sqrt(float64(width))
				}
				weights[j] = math.Exp(weights[j])
				sum += weights[j]
			}
			for j := range x {
				for d := from; d < from+width; d++ {
					out[i][d] += weights[j] / sum * v[j][d]
				}
			}
		}
	}
	return out
}

// hidden returns the states of a sequence whose last tokens are of the second segment.
func (f reference) hidden(ids []int, second int) [][]float64 {
	h := f.shape.Hidden
	x, zero := make([][]float64, len(ids)), make([][]float64, len(ids))
	row := func(kind string, i, k int) float64 {
		return float64(f.tensors["embeddings."+kind+"_embeddings.weight"].Data[i*h+k])
	}
	for i, id := range ids {
		x[i], zero[i] = make([]float64, h), make([]float64, h)
		segment := 0
		if i >= len(ids)-second {
			segment = 1
		}
		for k := range h {
			x[i][k] = row("word", id, k) + row("position", i, k) + row("token_type", segment, k)
		}
	}
	x = f.norm("embeddings.LayerNorm", x, zero)
	for l := range f.shape.Layers {
		layer := fmt.Sprintf("encoder.layer.%d.", l)
		x = f.norm(layer+"attention.output.LayerNorm", x, f.linear(layer+"attention.output.dense", f.attend(layer+"attention.self.", x)))
		wide := f.linear(layer+"intermediate.dense", x)
		for _, row := range wide {
			for k, v := range row {
				row[k] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
				if f.relu {
					row[k] = max(v, 0)
				}
			}
		}
		x = f.norm(layer+"output.LayerNorm", x, f.linear(layer+"output.dense", wide))
	}
	return x
}

func (f reference) score(ids []int, second int) float64 {
	pooled := f.linear("pooler.dense", f.hidden(ids, second)[:1])
	for k, v := range pooled[0] {
		pooled[0][k] = math.Tanh(v)
	}
	return f.linear("classifier", pooled)[0][0]
}

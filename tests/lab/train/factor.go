package train

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// factor returns the rows of U·|Λ|^o.Power, each of length 1, for the eigenvalues of the symmetric matrix m that are
// largest by amount. It finds them by subspace iteration from a random start (Halko, Martinsson and Tropp, "Finding
// Structure with Randomness", SIAM Review 53(2), 2011, algorithm 4.4).
func factor(m *sparse, o Options, random *rand.Rand, progress Progress) ([][]float32, error) {
	n := len(m.values)
	wide := min(n, o.Columns+o.Columns/4)
	basis := mat.NewDense(n, wide, nil)
	for i := range basis.RawMatrix().Data {
		basis.RawMatrix().Data[i] = random.NormFloat64()
	}
	for sweep := range o.Sweeps {
		progress("factor", sweep, o.Sweeps+1)
		basis = m.times(basis)
		if err := orthonormalize(basis); err != nil {
			return nil, err
		}
	}
	progress("factor", o.Sweeps, o.Sweeps+1)
	image := m.times(basis)
	var small mat.Dense
	small.Mul(basis.T(), image)
	symmetric := mat.NewSymDense(wide, nil)
	for i := range wide {
		for j := i; j < wide; j++ {
			symmetric.SetSym(i, j, (small.At(i, j)+small.At(j, i))/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(symmetric, true) {
		return nil, errors.New("the eigenvalues did not converge")
	}
	values := eigen.Values(nil)
	order := make([]int, wide)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(values[b]), math.Abs(values[a])) })
	var vectors, u mat.Dense
	eigen.VectorsTo(&vectors)
	u.Mul(basis, &vectors)
	rows := make([][]float32, n)
	for i := range rows {
		row := make([]float64, o.Columns)
		for k := range row {
			row[k] = u.At(i, order[k]) * math.Pow(math.Abs(values[order[k]]), o.Power)
		}
		length := floats.Norm(row, 2)
		rows[i] = make([]float32, o.Columns)
		for k := range row {
			if length > 0 {
				rows[i][k] = float32(row[k] / length)
			}
		}
	}
	progress("factor", o.Sweeps+1, o.Sweeps+1)
	return rows, nil
}

// times is m·x.
func (m *sparse) times(x *mat.Dense) *mat.Dense {
	n, wide := x.Dims()
	y := mat.NewDense(n, wide, nil)
	parallel(n, func(from, to int) {
		for i := from; i < to; i++ {
			row := y.RawRowView(i)
			for at, j := range m.columns[i] {
				floats.AddScaled(row, float64(m.values[i][at]), x.RawRowView(int(j)))
			}
		}
	})
	return y
}

// orthonormalize replaces y's columns by an orthonormal basis of their span: y·R⁻¹ with RᵀR = yᵀy.
func orthonormalize(y *mat.Dense) error {
	_, wide := y.Dims()
	var gram mat.Dense
	gram.Mul(y.T(), y)
	symmetric := mat.NewSymDense(wide, nil)
	for i := range wide {
		for j := i; j < wide; j++ {
			symmetric.SetSym(i, j, gram.At(i, j))
		}
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(symmetric) {
		return errors.New("the columns are not independent")
	}
	var r, inverse mat.TriDense
	cholesky.UTo(&r)
	if err := inverse.InverseTri(&r); err != nil {
		return err
	}
	y.Mul(y, &inverse)
	return nil
}

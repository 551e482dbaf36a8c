package dense

// instructions is an instruction set for comparing vectors. Results are equal to the last bit.
type instructions int

const (
	scalar instructions = iota
	avx2
)

// fastest is the processor's best instruction set.
var fastest = available()

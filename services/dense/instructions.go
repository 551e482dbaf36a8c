package dense

// instructions are a kind of them that vectors are compared with. All give the same to the last bit.
type instructions int

const (
	scalar instructions = iota
	avx2
	avx512
)

// fastest are the instructions in use, the best that the processor has.
var fastest = available()

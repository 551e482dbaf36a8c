#include "textflag.h"

// COLUMN adds to Y8 and Y9, a byte for each row of a group, the steps that a column of first bits and one of second bits miss. Each
// four bits look up their steps in a table.
#define COLUMN(codes, sizes, low, high) \
	VMOVDQU codes(SI), Y0         \
	VMOVDQU sizes(SI), Y1         \
	VBROADCASTI128 low(BX), Y2    \
	VBROADCASTI128 high(BX), Y3   \
	VPSRLW  $4, Y0, Y4            \
	VPSRLW  $4, Y1, Y5            \
	VPAND   Y14, Y0, Y0           \
	VPAND   Y14, Y1, Y1           \
	VPAND   Y14, Y4, Y4           \
	VPAND   Y14, Y5, Y5           \
	VPSHUFB Y0, Y2, Y0            \
	VPSHUFB Y1, Y2, Y1            \
	VPSHUFB Y4, Y3, Y4            \
	VPSHUFB Y5, Y3, Y5            \
	VPADDB  Y0, Y8, Y8            \
	VPADDB  Y1, Y9, Y9            \
	VPADDB  Y4, Y8, Y8            \
	VPADDB  Y5, Y9, Y9

// WIDEN adds the bytes of even and of odd rows to sums of 16 bits.
#define WIDEN(bytes, even, odd) \
	VPAND  Y15, bytes, Y0  \
	VPSRLW $8, bytes, Y1   \
	VPADDW Y0, even, even  \
	VPADDW Y1, odd, odd

// PRODUCT makes of eight rows' missed steps their product.
#define PRODUCT(missed, product, spans) \
	VPMOVZXWD missed, product         \
	VPADDD    product, product, product \
	VPSUBD    product, Y6, product    \
	VCVTDQ2PS product, product        \
	VMULPS    spans(R12), product, product

// ESTIMATE writes the estimates of eight rows, and shifts into DX which of them are not below the bound.
#define ESTIMATE(signs, sizes, spans, row) \
	PRODUCT(signs, Y4, spans)       \
	PRODUCT(sizes, Y5, spans)       \
	VMULPS Y8, Y5, Y5               \
	VADDPS Y5, Y4, Y4               \
	VMOVUPS Y4, spans(R13)          \
	VCMPPS $13, Y7, Y4, Y4          \
	VMOVMSKPS Y4, AX                \
	SHLL   row, AX                  \
	ORL    AX, DX

// func estimateAVX2(codes *byte, groups, columns int, tables *byte, all int32, bound float32, spans, estimates *float32, above *uint32)
TEXT ·estimateAVX2(SB), NOSPLIT, $0-64
	MOVQ codes+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ columns+16(FP), R8
	SHRQ $2, R8
	MOVQ tables+24(FP), DI
	MOVQ spans+40(FP), R12
	MOVQ estimates+48(FP), R13
	MOVQ above+56(FP), R9
	MOVL $0x0f0f0f0f, AX
	VMOVD AX, X14
	VPBROADCASTD X14, Y14
	MOVL $0x00ff00ff, AX
	VMOVD AX, X15
	VPBROADCASTD X15, Y15

group:
	VPXOR Y10, Y10, Y10          // first bits of even rows
	VPXOR Y11, Y11, Y11          // of odd rows
	VPXOR Y12, Y12, Y12          // second bits of even rows
	VPXOR Y13, Y13, Y13          // of odd rows
	MOVQ  DI, BX
	MOVQ  R8, DX

four:                                // a byte has 4 times 8 times 7 steps at most
	PREFETCHT0 6144(SI)          // two groups ahead: the processor's own prefetching ends with each page
	PREFETCHT0 6208(SI)
	PREFETCHT0 6272(SI)
	PREFETCHT0 6336(SI)
	VPXOR Y8, Y8, Y8
	VPXOR Y9, Y9, Y9
	COLUMN(0, 32, 0, 16)
	COLUMN(64, 96, 32, 48)
	COLUMN(128, 160, 64, 80)
	COLUMN(192, 224, 96, 112)
	WIDEN(Y8, Y10, Y11)
	WIDEN(Y9, Y12, Y13)
	ADDQ $256, SI
	ADDQ $128, BX
	DECQ DX
	JNZ  four

	VPUNPCKLWD Y11, Y10, Y0      // rows 0 to 7, 16 to 23
	VPUNPCKHWD Y11, Y10, Y1      // rows 8 to 15, 24 to 31
	VPUNPCKLWD Y13, Y12, Y2
	VPUNPCKHWD Y13, Y12, Y3
	MOVL all+32(FP), AX
	VMOVD AX, X6
	VPBROADCASTD X6, Y6
	VBROADCASTSS bound+36(FP), Y7
	MOVL $0x3f000000, AX
	VMOVD AX, X8
	VPBROADCASTD X8, Y8          // 1/2
	XORL DX, DX
	ESTIMATE(X0, X2, 0, $0)
	ESTIMATE(X1, X3, 32, $8)
	VEXTRACTI128 $1, Y0, X0
	VEXTRACTI128 $1, Y1, X1
	VEXTRACTI128 $1, Y2, X2
	VEXTRACTI128 $1, Y3, X3
	ESTIMATE(X0, X2, 64, $16)
	ESTIMATE(X1, X3, 96, $24)
	MOVL DX, (R9)
	ADDQ $128, R12
	ADDQ $128, R13
	ADDQ $4, R9
	DECQ CX
	JNZ  group
	VZEROUPPER
	RET

// PRODUCTS adds eight components' products of a vector to its sums. Y9 has those of the query.
#define PRODUCTS(halves, product, sums) \
	VPMOVSXWD (halves)(DX*2), product \
	VPSLLD $13, product, product      \
	VPAND  Y8, product, product       \
	VMULPS Y9, product, product       \
	VADDPS product, sums, sums

// SUM adds up eight sums: 0 and 4, 1 and 5, 2 and 6, 3 and 7, then the third of these to the first, the fourth to the second.
#define SUM(sums, low, at) \
	VEXTRACTF128 $1, sums, X4 \
	VADDPS X4, low, low       \
	VMOVHLPS low, low, X4     \
	VADDPS X4, low, low       \
	VMOVSHDUP low, X4         \
	VADDSS X4, low, low       \
	VMOVSS low, at(DI)

// func dotsAVX2(query *float32, halves *[8]*uint16, n int, dots *[4]float32)
TEXT ·dotsAVX2(SB), NOSPLIT, $0-32
	MOVQ query+0(FP), SI
	MOVQ halves+8(FP), DI
	MOVQ n+16(FP), CX
	MOVQ 0(DI), R8
	MOVQ 8(DI), R9
	MOVQ 16(DI), R10
	MOVQ 24(DI), R11
	MOVL $0x8fffe000, AX
	MOVL AX, X8
	MOVQ 32(DI), AX
	MOVQ 40(DI), BX
	MOVQ 48(DI), R12
	MOVQ 56(DI), R13
	MOVQ dots+24(FP), DI
	VPBROADCASTD X8, Y8
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	XORQ DX, DX

eight:
	VMOVUPS (SI)(DX*4), Y9
	PRODUCTS(R8, Y4, Y0)         // as moved does
	PRODUCTS(R9, Y5, Y1)
	PRODUCTS(R10, Y6, Y2)
	PRODUCTS(R11, Y7, Y3)
	PREFETCHT0 (AX)(DX*2)
	PREFETCHT0 (BX)(DX*2)
	PREFETCHT0 (R12)(DX*2)
	PREFETCHT0 (R13)(DX*2)
	ADDQ $8, DX
	CMPQ DX, CX
	JB   eight

	SUM(Y0, X0, 0)
	SUM(Y1, X1, 4)
	SUM(Y2, X2, 8)
	SUM(Y3, X3, 12)
	VZEROUPPER
	RET

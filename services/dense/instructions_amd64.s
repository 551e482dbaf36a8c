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
	PREFETCHT1 24576(SI)         // into the second cache, which waits for more lines at once than the first
	PREFETCHT1 24640(SI)
	PREFETCHT1 24704(SI)
	PREFETCHT1 24768(SI)
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

// STEPS adds the products of a pack of a vector's components to its sums. Y9 and Y10 have those of the query.
#define STEPS(vector, sums) \
	VPMOVSXBD (vector)(DX*1), Y4   \
	VPMOVSXBD 8(vector)(DX*1), Y5  \
	VPMOVZXBD 16(vector)(DX*1), Y6 \
	VPSLLD $4, Y4, Y4    \
	VPSLLD $4, Y5, Y5    \
	VPSRLD $4, Y6, Y7    \
	VPAND  Y8, Y6, Y6    \
	VPOR   Y6, Y4, Y4    \
	VPOR   Y7, Y5, Y5    \
	VCVTDQ2PS Y4, Y4     \
	VCVTDQ2PS Y5, Y5     \
	VMULPS Y9, Y4, Y4    \
	VMULPS Y10, Y5, Y5   \
	VADDPS Y4, sums, sums \
	VADDPS Y5, sums, sums

// SUM adds up eight sums: 0 and 4, 1 and 5, 2 and 6, 3 and 7, then the third of these to the first, the fourth to the second.
#define SUM(sums, low, at) \
	VEXTRACTF128 $1, sums, X4 \
	VADDPS X4, low, low       \
	VMOVHLPS low, low, X4     \
	VADDPS X4, low, low       \
	VMOVSHDUP low, X4         \
	VADDSS X4, low, low       \
	VMOVSS low, at(DI)

// func productsAVX2(query *float32, vectors *[8]*byte, packs int, out *[4]float32)
TEXT ·productsAVX2(SB), NOSPLIT, $0-32
	MOVQ query+0(FP), SI
	MOVQ vectors+8(FP), DI
	MOVQ packs+16(FP), CX
	MOVQ 0(DI), R8
	MOVQ 8(DI), R9
	MOVQ 16(DI), R10
	MOVQ 24(DI), R11
	MOVL $15, AX
	VMOVD AX, X8
	VPBROADCASTD X8, Y8
	MOVQ 32(DI), AX
	MOVQ 40(DI), BX
	MOVQ 48(DI), R12
	MOVQ 56(DI), R13
	MOVQ out+24(FP), DI
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	XORQ DX, DX

pack:
	VMOVUPS (SI), Y9
	VMOVUPS 32(SI), Y10
	STEPS(R8, Y0)
	STEPS(R9, Y1)
	STEPS(R10, Y2)
	STEPS(R11, Y3)
	PREFETCHT0 (AX)(DX*1)
	PREFETCHT0 (BX)(DX*1)
	PREFETCHT0 (R12)(DX*1)
	PREFETCHT0 (R13)(DX*1)
	ADDQ $64, SI
	ADDQ $24, DX
	DECQ CX
	JNZ  pack

	SUM(Y0, X0, 0)
	SUM(Y1, X1, 4)
	SUM(Y2, X2, 8)
	SUM(Y3, X3, 12)
	VZEROUPPER
	RET

// ROUND makes eight components steps, as inSteps does.
#define ROUND(halves, steps) \
	VPMOVSXWD halves, steps      \
	VPSLLD $13, steps, steps     \
	VPAND  Y4, steps, steps      \
	VMULPS Y5, steps, steps      \
	VMULPS Y6, steps, steps      \
	VCVTPS2DQ steps, steps

// func inStepsAVX2(halves *uint16, packs int, perStep float32, steps *int16, squares *[8]uint32)
TEXT ·inStepsAVX2(SB), NOSPLIT, $0-40
	MOVQ halves+0(FP), SI
	MOVQ packs+8(FP), CX
	VBROADCASTSS perStep+16(FP), Y6
	MOVQ steps+24(FP), DI
	MOVL $0x8fffe000, AX
	VMOVD AX, X4
	VPBROADCASTD X4, Y4
	MOVL $0x77800000, AX         // halfScale
	VMOVD AX, X5
	VPBROADCASTD X5, Y5
	VPXOR Y7, Y7, Y7

round:
	ROUND((SI), Y0)
	ROUND(16(SI), Y1)
	VPACKSSDW Y1, Y0, Y0         // quarters 0, 2, 1, 3
	VPERMQ $0xd8, Y0, Y0
	VMOVDQU Y0, (DI)
	VPMADDWD Y0, Y0, Y0
	VPADDD Y0, Y7, Y7
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ CX
	JNZ  round

	MOVQ squares+32(FP), DI
	VMOVDQU Y7, (DI)
	VZEROUPPER
	RET

// func largestAVX2(halves *uint16, packs int, out *[16]uint16)
TEXT ·largestAVX2(SB), NOSPLIT, $0-24
	MOVQ halves+0(FP), SI
	MOVQ packs+8(FP), CX
	MOVQ out+16(FP), DI
	VPCMPEQW Y1, Y1, Y1
	VPSRLW $1, Y1, Y1            // all bits but signs
	VPXOR Y0, Y0, Y0

largest:
	VPAND (SI), Y1, Y2
	VPMAXUW Y2, Y0, Y0
	ADDQ $32, SI
	DECQ CX
	JNZ  largest

	VMOVDQU Y0, (DI)
	VZEROUPPER
	RET

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

// func dotAVX2(query *float32, halves *uint16, n int) float32
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ query+0(FP), SI
	MOVQ halves+8(FP), DI
	MOVQ n+16(FP), CX
	MOVL $0x8fffe000, AX
	MOVL AX, X1
	VPBROADCASTD X1, Y1
	VXORPS Y0, Y0, Y0

eight:
	VPMOVSXWD (DI), Y2           // as moved does
	VPSLLD $13, Y2, Y2
	VPAND  Y1, Y2, Y2
	VMULPS (SI), Y2, Y2
	VADDPS Y2, Y0, Y0
	ADDQ $32, SI
	ADDQ $16, DI
	SUBQ $8, CX
	JNZ  eight

	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0            // 0 and 4, 1 and 5, 2 and 6, 3 and 7
	VMOVHLPS X0, X0, X1
	VADDPS X1, X0, X0            // and the third of these to the first, the fourth to the second
	VMOVSHDUP X0, X1
	VADDSS X1, X0, X0
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

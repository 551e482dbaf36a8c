#include "textflag.h"

// How many bits are set in each number of four bits (Mula, Kurz and Lemire, "Faster Population Counts Using AVX2
// Instructions", The Computer Journal 2018, section 3.2).
DATA ones<>+0(SB)/8, $0x0302020102010100
DATA ones<>+8(SB)/8, $0x0403030203020201
GLOBL ones<>(SB), RODATA|NOPTR, $16

// The mask of the first n of four words begins n words before the fourth.
DATA masks<>+0(SB)/8, $-1
DATA masks<>+8(SB)/8, $-1
DATA masks<>+16(SB)/8, $-1
DATA masks<>+24(SB)/8, $0
DATA masks<>+32(SB)/8, $0
DATA masks<>+40(SB)/8, $0
DATA masks<>+48(SB)/8, $0
GLOBL masks<>(SB), RODATA|NOPTR, $56

// COUNT adds to each byte of Y3 what a table has for its bits of Y0 that are in a plane.
#define COUNT(plane, table) \
	VPAND   plane, Y0, Y1 \
	VPAND   Y9, Y1, Y2    \
	VPSRLW  $4, Y1, Y1    \
	VPAND   Y9, Y1, Y1    \
	VPSHUFB Y2, table, Y2 \
	VPSHUFB Y1, table, Y1 \
	VPADDB  Y2, Y3, Y3    \
	VPADDB  Y1, Y3, Y3

// DIFFER adds to Y4 the steps of the components in which four words in Y0 differ from the query's at BX. A byte has 8 times 7
// of these at most.
#define DIFFER \
	VPXOR   (BX), Y0, Y0      \
	VPXOR   Y3, Y3, Y3        \
	COUNT((BX)(R10*1), Y5)    \
	COUNT((BX)(R10*2), Y6)    \
	COUNT((BX)(R11*1), Y7)    \
	VPSADBW Y8, Y3, Y3        \
	VPADDQ  Y3, Y4, Y4

// BEGIN loads what estimates are made of: R10 and R11 are the bytes of one plane, and of three.
#define BEGIN(count) \
	MOVQ codes+0(FP), SI      \
	MOVQ rows+8(FP), count    \
	MOVQ words+16(FP), R8     \
	MOVQ planes+24(FP), DI    \
	MOVQ spans+40(FP), R12    \
	MOVQ products+48(FP), R13 \
	LEAQ 3(R8), R10           \
	ANDQ $~3, R10             \
	SHLQ $3, R10              \
	LEAQ (R10)(R10*2), R11

// PRODUCT makes of the steps in Y4 a row's product, and goes on to the next.
#define PRODUCT \
	VEXTRACTI128 $1, Y4, X0 \
	VPADDQ  X0, X4, X4      \
	VPSRLDQ $8, X4, X0      \
	VPADDQ  X0, X4, X4      \
	VMOVD   X4, AX          \
	ADDL    AX, AX          \
	MOVL    all+32(FP), BX  \
	SUBL    AX, BX          \
	VXORPS  X0, X0, X0      \
	VCVTSI2SSL BX, X0, X0   \
	VMULSS  (R12), X0, X0   \
	VMOVSS  X0, (R13)       \
	ADDQ    $4, R12         \
	ADDQ    $4, R13

// func estimateAVX2(codes *uint64, rows, words int, planes *uint64, all int32, spans, products *float32)
TEXT ·estimateAVX2(SB), NOSPLIT, $0-56
	BEGIN(CX)
	MOVQ R8, R9                  // R8: how often there are four words; R9: how many are left
	ANDQ $3, R9
	SHRQ $2, R8
	LEAQ masks<>(SB), AX
	MOVQ $3, DX
	SUBQ R9, DX
	VMOVDQU (AX)(DX*8), Y10

	VBROADCASTI128 ones<>(SB), Y5
	VPADDB Y5, Y5, Y6
	VPADDB Y6, Y6, Y7
	VPXOR  Y8, Y8, Y8
	MOVQ   $0x0f0f0f0f0f0f0f0f, AX
	MOVQ   AX, X9
	VPBROADCASTQ X9, Y9

row:
	VPXOR Y4, Y4, Y4
	MOVQ  DI, BX
	MOVQ  R8, DX
	TESTQ DX, DX
	JZ    rest

four:
	VMOVDQU (SI), Y0
	DIFFER
	ADDQ $32, SI
	ADDQ $32, BX
	DECQ DX
	JNZ  four

rest:
	TESTQ R9, R9
	JZ    add
	VPMASKMOVQ (SI), Y10, Y0
	DIFFER
	LEAQ (SI)(R9*8), SI

add:
	PRODUCT
	DECQ CX
	JNZ  row
	VZEROUPPER
	RET

// WEIGH makes of Z1, Z2 and Z3, components that are in the planes of ones, twos and fours, their steps, and adds these to Z4.
#define WEIGH \
	VPOPCNTQ Z1, Z1     \
	VPOPCNTQ Z2, Z2     \
	VPOPCNTQ Z3, Z3     \
	VPADDQ   Z3, Z3, Z3 \
	VPADDQ   Z2, Z3, Z3 \
	VPADDQ   Z3, Z3, Z3 \
	VPADDQ   Z1, Z3, Z3 \
	VPADDQ   Z3, Z4, Z4

// func estimateAVX512(codes *uint64, rows, words int, planes *uint64, all int32, spans, products *float32)
TEXT ·estimateAVX512(SB), NOSPLIT, $0-56
	BEGIN(DX)
	MOVQ R8, CX                  // R8: how often there are eight words; R9: how many are left
	ANDQ $7, CX
	MOVQ CX, R9
	SHRQ $3, R8
	MOVQ $1, AX
	SHLQ CX, AX
	DECQ AX
	KMOVW AX, K1

row:
	VPXORQ Z4, Z4, Z4
	MOVQ   DI, BX
	MOVQ   R8, CX
	TESTQ  CX, CX
	JZ     rest

eight:
	VMOVDQU64 (SI), Z0
	VPXORQ (BX), Z0, Z0
	VPANDQ (BX)(R10*1), Z0, Z1
	VPANDQ (BX)(R10*2), Z0, Z2
	VPANDQ (BX)(R11*1), Z0, Z3
	WEIGH
	ADDQ $64, SI
	ADDQ $64, BX
	DECQ CX
	JNZ  eight

rest:
	TESTQ R9, R9
	JZ    add
	VMOVDQU64.Z (SI), K1, Z0
	VPXORQ.Z (BX), Z0, K1, Z0
	VPANDQ.Z (BX)(R10*1), Z0, K1, Z1
	VPANDQ.Z (BX)(R10*2), Z0, K1, Z2
	VPANDQ.Z (BX)(R11*1), Z0, K1, Z3
	WEIGH
	LEAQ (SI)(R9*8), SI

add:
	VEXTRACTI64X4 $1, Z4, Y0
	VPADDQ Y0, Y4, Y4
	PRODUCT
	DECQ DX
	JNZ  row
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

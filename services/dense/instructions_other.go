//go:build !amd64

package dense

func estimateAVX2(*byte, int, int, *byte, int32, float32, *float32, *float32, *uint32) {}

func dotsAVX2(*float32, *[8]*uint16, int, *[4]float32) {}

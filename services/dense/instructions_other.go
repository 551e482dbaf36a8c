//go:build !amd64

package dense

func estimateAVX2(*byte, int, int, *byte, int32, float32, *float32, *float32, *uint32) {}

func productsAVX2(*float32, *[8]*byte, int, *[4]float32) {}

func inStepsAVX2(*uint16, int, float32, *int16, *[packed / 2]uint32) {}

func largestAVX2(*uint16, int, *[packed]uint16) {}

//go:build !amd64

package dense

func available() instructions { return scalar }

func estimateAVX2(*uint64, int, int, *uint64, int32, *float32, *float32) {}

func estimateAVX512(*uint64, int, int, *uint64, int32, *float32, *float32) {}

func dotAVX2(*float32, *uint16, int) float32 { return 0 }

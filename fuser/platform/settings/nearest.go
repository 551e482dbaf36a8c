package settings

import "unicode/utf8"

// nearest returns the name closest to a mistyped one, or "" if none is close.
func nearest(typed string, names map[string]bool) (best string) {
	least := max(utf8.RuneCountInString(typed)/3, 2) + 1
	for name := range names {
		if d := distance(typed, name); d < least || d == least && best != "" && name < best {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with a neighbour to turn a into b. See Damerau,
// Communications of the ACM 7(3), 1964; here nothing changes between two swapped letters.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range y {
		rows[0][j+1] = j + 1
	}
	for i := range x {
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			d := min(rows[i][j]+cost, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(x)][len(y)]
}

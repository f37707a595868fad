// Package near compares names that people write, to find the one that a misspelt name means.
package near

// Distance returns the Levenshtein distance: how many bytes must be inserted, removed or replaced to turn a
// into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // the distances of a's first bytes to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

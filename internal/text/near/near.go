// Package near compares names that people write, to find the one that a misspelt name means.
package near

import (
	"slices"
	"strings"
)

// Of returns the candidate with the smallest distance to a name, the first of several, if the distance is at
// most a third of the name's length without the prefix, which all names have. If there is none, it returns
// the shortest candidate that has the words of the name in their order, between underscores, and others; ""
// if there is none either.
func Of(name, prefix string, candidates []string) string {
	const share = 3
	best, fewest := "", (len(name)-len(prefix)+share-1)/share+1
	for _, c := range candidates {
		if n := Distance(name, c); n < fewest {
			best, fewest = c, n
		}
	}
	if best == "" {
		best = withWords(strings.TrimPrefix(name, prefix), prefix, candidates)
	}
	return best
}

// withWords returns the shortest candidate that has the words, the first of several.
func withWords(words, prefix string, candidates []string) (best string) {
	for _, c := range candidates {
		if hasWords(strings.TrimPrefix(c, prefix), words) && (best == "" || len(c) < len(best)) {
			best = c
		}
	}
	return best
}

// hasWords reports whether a name has words in their order, and others between, before or after them.
func hasWords(name, words string) bool {
	rest := strings.Split(name, "_")
	for word := range strings.SplitSeq(words, "_") {
		i := slices.Index(rest, word)
		if i < 0 || word == "" {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

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

// Package near compares names that people write, to find the one that a misspelt name means.
package near

import (
	"iter"
	"strings"
)

// Of returns the candidate that a misspelt name most likely means, "" if none is similar. A candidate is similar
// if it, or what is left of it without some of its words, between underscores, is at most mostEdits bytes from the
// name, and at most a third of the name's length without the prefix, which all names have. Of several Of returns
// the one with the fewest differing bytes and missing words, and of those the shortest.
func Of(name, prefix string, candidates []string) string {
	const (
		share     = 3
		mostEdits = 3 // or one word would be taken for another
	)
	name = strings.TrimPrefix(name, prefix)
	limit := min((len(name)+share-1)/share, mostEdits)
	best, fewest := "", 0
	for _, c := range candidates {
		for words, missing := range shortened(strings.Split(strings.TrimPrefix(c, prefix), "_")) {
			edits := Distance(name, words)
			if n := edits + missing; edits <= limit &&
				(best == "" || n < fewest || n == fewest && len(c) < len(best)) {
				best, fewest = c, n
			}
		}
	}
	return best
}

// shortened yields each choice of at least one of the words, in their order, and the number of words that are
// missing. Of more than maxWords only the whole name is yielded.
func shortened(words []string) iter.Seq2[string, int] {
	const maxWords = 8
	return func(yield func(string, int) bool) {
		if len(words) > maxWords {
			yield(strings.Join(words, "_"), 0)
			return
		}
		for chosen := 1; chosen < 1<<len(words); chosen++ {
			var some []string
			for i, word := range words {
				if chosen>>i&1 == 1 {
					some = append(some, word)
				}
			}
			if !yield(strings.Join(some, "_"), len(words)-len(some)) {
				return
			}
		}
	}
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

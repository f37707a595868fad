// Package chunks divides what is sent in batches into requests that are neither too many elements nor too many bytes.
package chunks

import "iter"

// MaxBytes is how many bytes of results the stores send in one request, unless a single result has more: a request of that size
// passes a network of 5 Mbit/s in two seconds.
const MaxBytes = 1 << 20

// Of yields the bounds of consecutive chunks of n elements, the second one exclusive. A chunk has up to count elements, and up to
// MaxBytes bytes unless it is a single element.
func Of(n, count int, size func(i int) int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < n; {
			to, bytes := from+1, size(from)
			for to < n && to-from < count && bytes+size(to) <= MaxBytes {
				bytes += size(to)
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

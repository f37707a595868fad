// Package chunks divides batches into requests with a limited number of elements and bytes, and sends a
// limited number at a time.
package chunks

import (
	"iter"
	"sync"
)

// MaxBytes is the maximum size in bytes of a request with several elements. It passes a network of 5 Mbit/s
// in two seconds.
const MaxBytes = 1 << 20

// Of yields the bounds of consecutive chunks of n elements, the second exclusive. A chunk has up to count
// elements and, unless it is a single element, up to MaxBytes bytes.
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

// Each calls f(0), …, f(n-1), up to limit at the same time, and returns when all have returned.
func Each(n, limit int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

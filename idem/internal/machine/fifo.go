package machine

// Queue is a first-in, first-out queue. The zero value is empty.
type Queue[T any] struct {
	items []T
	head  int
}

// Len returns how many elements the queue has.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push adds an element at the end.
func (q *Queue[T]) Push(item T) { q.items = append(q.items, item) }

// Pop removes the first element, which must exist.
func (q *Queue[T]) Pop() T {
	var zero T
	item := q.items[q.head]
	q.items[q.head] = zero
	if q.head++; 2*q.head >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return item
}

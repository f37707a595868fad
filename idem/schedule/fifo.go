package schedule

// fifo is a queue. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(item T) { q.items = append(q.items, item) }

// pop removes the first element, which must exist.
func (q *fifo[T]) pop() T {
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

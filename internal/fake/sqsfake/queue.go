package sqsfake

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/idemsk/idemsk/internal/uuid"
)

// queue is a standard or a FIFO queue. The server's lock guards it.
type queue struct {
	settings

	name     string
	fifo     *fifo         // nil for a standard queue
	messages []*message    // in the order in which they were sent
	changed  chan struct{} // closed, and made anew, when a message may have become visible
}

// settings are the attributes of a queue.
type settings struct {
	visibility, delay time.Duration
	largest           int // bytes of a message
}

type message struct {
	id        string
	body      string
	receipt   string    // of the last receipt
	hidden    time.Time // not to be received before
	receipts  int
	sent      time.Time
	firstSeen time.Time

	group             string // in a standard queue the tenant of a fair queue, which changes no order here
	sequence, dedupID string // of a FIFO queue

	own map[string]attribute // the attributes of the producer
}

// attribute is a message attribute. BinaryValue is base64.
type attribute struct {
	DataType    string
	StringValue string `json:",omitempty"`
	BinaryValue []byte `json:",omitempty"`
}

// receiptSeparator separates the message's ID and the random part in a receipt handle.
const receiptSeparator = "."

func newQueue(name string, set settings) *queue {
	q := &queue{settings: set, name: name, changed: make(chan struct{})}
	if strings.HasSuffix(name, fifoSuffix) {
		q.fifo = &fifo{recent: make(map[string]*message)}
	}
	return q
}

// send adds a message. It is hidden until its delay is over.
func (q *queue) send(in *entry, now time.Time) *message {
	delay := q.delay
	if in.DelaySeconds != nil {
		delay = time.Duration(*in.DelaySeconds) * time.Second
	}
	m := &message{id: uuid.New(), body: in.MessageBody, sent: now, hidden: now.Add(delay), group: in.MessageGroupId,
		own: in.MessageAttributes}
	q.messages = append(q.messages, m)
	q.wake()
	return m
}

func (q *queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// receive takes up to limit visible messages and hides them. If there are none, next is the time when the
// next one becomes visible, zero if none does.
func (q *queue) receive(limit int, visibility time.Duration, now time.Time) (taken []message,
	next time.Time) {
	held := q.held(now)
	for _, m := range q.messages {
		if m.hidden.After(now) {
			if next.IsZero() || m.hidden.Before(next) {
				next = m.hidden
			}
			continue
		}
		if held[m.group] {
			continue
		}
		m.receipt, m.hidden = m.id+receiptSeparator+rand.Text(), now.Add(visibility)
		if m.receipts++; m.receipts == 1 {
			m.firstSeen = now
		}
		if taken = append(taken, *m); len(taken) == limit {
			break
		}
	}
	return taken, next
}

// remove deletes the message of a receipt, and returns it. Like SQS it accepts a deleted message's receipt, for
// which it returns nil, and, in a standard queue, an older one.
func (q *queue) remove(receipt string) *message {
	id, _, _ := strings.Cut(receipt, receiptSeparator)
	at := slices.IndexFunc(q.messages, func(m *message) bool { return m.id == id })
	if at < 0 {
		return nil
	}
	m := q.messages[at]
	q.messages = slices.Delete(q.messages, at, at+1)
	return m
}

// hide changes the time for which the message of a receipt is hidden. It returns false if it is not in flight
// under that receipt.
func (q *queue) hide(receipt string, d time.Duration, now time.Time) bool {
	for _, m := range q.messages {
		if m.receipts > 0 && m.receipt == receipt && m.hidden.After(now) {
			m.hidden = now.Add(d)
			q.wake()
			return true
		}
	}
	return false
}

// Bodies returns the bodies of the messages in a queue, also of hidden ones, in the order in which they were
// sent. It changes nothing.
func (s *Server) Bodies(queueURL string) (bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(queueURL)
	if err != nil {
		return nil
	}
	for _, m := range q.messages {
		bodies = append(bodies, m.body)
	}
	return bodies
}

package sqsfake

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fifoSuffix is the end of the name of each FIFO queue, and of no other queue.
const fifoSuffix = ".fifo"

// dedupInterval is the time for which a FIFO queue keeps a deduplication ID, even if the message was deleted.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html
const dedupInterval = 5 * time.Minute

// fifo is the additional state of a FIFO queue.
type fifo struct {
	recent   map[string]*message // by deduplication ID
	sequence int
}

// checkFIFO checks the parameters of a message for the type of its queue.
func (q *queue) checkFIFO(in *entry) error {
	switch {
	case q.fifo == nil && in.MessageDeduplicationId != "":
		return &apiError{code: "InvalidParameterValue",
			message: "MessageDeduplicationId is for FIFO queues."}
	case q.fifo != nil && in.MessageGroupId == "":
		return &apiError{code: "MissingParameter",
			message: "The request must contain the parameter MessageGroupId."}
	case q.fifo != nil && in.MessageDeduplicationId == "":
		return &apiError{code: "InvalidParameterValue",
			message: "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly."}
	case q.fifo != nil && in.DelaySeconds != nil && *in.DelaySeconds > 0:
		return invalidValue("DelaySeconds", *in.DelaySeconds, "left out: only a FIFO queue as a whole has a delay")
	}
	for name, v := range map[string]string{"MessageGroupId": in.MessageGroupId,
		"MessageDeduplicationId": in.MessageDeduplicationId} {
		const longest = 128
		if outside := func(r rune) bool { return r <= ' ' || r > '~' }; len(v) > longest ||
			strings.ContainsFunc(v, outside) {
			return invalidValue(name, strconv.Quote(v), "1 to 128 letters, digits and punctuation")
		}
	}
	return nil
}

// sendOnce sends to a FIFO queue. It drops a message with a known deduplication ID and returns the first one.
func (q *queue) sendOnce(in *entry, now time.Time) *message {
	if first := q.fifo.recent[in.MessageDeduplicationId]; first != nil && now.Sub(first.sent) < dedupInterval {
		return first
	}
	m := q.send(in, now)
	q.fifo.sequence++
	m.sequence, m.dedupID = fmt.Sprintf("%020d", q.fifo.sequence), in.MessageDeduplicationId
	q.fifo.recent[in.MessageDeduplicationId] = m
	return m
}

// held returns the groups with a message in flight. Other messages of these groups wait.
func (q *queue) held(now time.Time) map[string]bool {
	held := make(map[string]bool)
	if q.fifo != nil {
		for _, m := range q.messages {
			if m.receipts > 0 && m.hidden.After(now) {
				held[m.group] = true
			}
		}
	}
	return held
}

// expired reports whether a FIFO queue rejects a delete by a receipt because its message has become visible
// again.
func (q *queue) expired(receipt string, now time.Time) bool {
	if q.fifo == nil {
		return false
	}
	id, _, _ := strings.Cut(receipt, receiptSeparator)
	for _, m := range q.messages {
		if m.id == id {
			return m.receipt != receipt || !m.hidden.After(now)
		}
	}
	return false
}

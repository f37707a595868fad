package sqsfake

import (
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum, which protects against accidents only
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// entry is a message to be sent, as in SendMessage and SendMessageBatch.
type entry struct {
	MessageBody, MessageGroupId, MessageDeduplicationId string //nolint:revive // SQS's names
	DelaySeconds                                        *int
	MessageAttributes                                   map[string]attribute
}

// sent is the answer to a message that was sent.
type sent struct {
	MD5OfMessageBody, MessageId string //nolint:revive // SQS's names
	SequenceNumber              string `json:",omitempty"`
}

func (s *Server) sendMessage(_ context.Context, body []byte) (any, error) {
	var in struct {
		entry

		QueueUrl string //nolint:revive // SQS's name
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	return q.accept(&in.entry, s.now())
}

// accept checks a message and sends it.
func (q *queue) accept(in *entry, now time.Time) (sent, error) {
	_, outside := inRange("DelaySeconds", in.DelaySeconds, 0, maxDelay, 0)
	if err := errors.Join(outside, checkBody(in, q.largest), q.checkFIFO(in)); err != nil {
		return sent{}, err
	}
	var m *message
	if q.fifo == nil {
		m = q.send(in, now)
	} else {
		m = q.sendOnce(in, now)
	}
	return sent{checksum(in.MessageBody), m.id, m.sequence}, nil
}

// batchID is what SQS accepts as the ID of an entry.
var batchID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`)

type batchEntry struct {
	entry

	Id string //nolint:revive // SQS's name
}

// sendMessageBatch sends each message by itself: some may fail.
func (s *Server) sendMessageBatch(_ context.Context, body []byte) (any, error) {
	var in struct {
		QueueUrl string //nolint:revive // SQS's name
		Entries  []batchEntry
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if err := checkBatch(in.Entries); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	type done struct {
		Id string //nolint:revive // SQS's name

		sent
	}
	type failed struct {
		Id, Code, Message string //nolint:revive // SQS's names
		SenderFault       bool
	}
	var out struct {
		Successful []done
		Failed     []failed
	}
	for i := range in.Entries {
		e := &in.Entries[i]
		answer, err := q.accept(&e.entry, s.now())
		var refused *apiError
		if errors.As(err, &refused) {
			out.Failed = append(out.Failed, failed{e.Id, refused.code, refused.message, true})
			continue
		}
		out.Successful = append(out.Successful, done{e.Id, answer})
	}
	return out, nil
}

// checkBatch returns an error that fails a batch as a whole.
func checkBatch(entries []batchEntry) error {
	refuse := func(code, format string, args ...any) error {
		return &apiError{code: code, query: "AWS.SimpleQueueService." + code, message: fmt.Sprintf(format, args...)}
	}
	known, size := make(map[string]bool), 0
	for i := range entries {
		e := &entries[i]
		switch {
		case !batchID.MatchString(e.Id):
			return refuse("InvalidBatchEntryId", "The Id %q of a batch entry must be 1 to 80 letters, digits, hyphens or underscores.", e.Id)
		case known[e.Id]:
			return refuse("BatchEntryIdsNotDistinct", "Id %s repeated.", e.Id)
		}
		known[e.Id] = true
		size += e.size()
	}
	switch {
	case len(entries) == 0:
		return refuse("EmptyBatchRequest", "The batch request doesn't contain any entries.")
	case len(entries) > maxMessages:
		return refuse("TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", maxMessages, len(entries))
	case size > maxBody:
		return refuse("BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxBody, size)
	}
	return nil
}

// size is what counts towards SQS's limits: the body, and the attributes with their names and types.
func (in *entry) size() int {
	n := len(in.MessageBody)
	for name, a := range in.MessageAttributes {
		n += len(name) + len(a.DataType) + len(a.StringValue) + len(a.BinaryValue)
	}
	return n
}

// maxAttributes is the number of attributes that a message may have.
const maxAttributes = 10

// checkBody applies SQS's rules for a body and its attributes: their size and number, and the characters that
// XML can carry.
func checkBody(in *entry, largest int) error {
	switch {
	case in.MessageBody == "":
		return &apiError{code: "MissingParameter",
			message: "The request must contain the parameter MessageBody."}
	case in.size() > largest:
		return &apiError{code: "InvalidParameterValue",
			message: fmt.Sprintf("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", largest)}
	case len(in.MessageAttributes) > maxAttributes:
		return &apiError{code: "InvalidParameterValue",
			message: fmt.Sprintf("Number of message attributes [%d] exceeds the allowed maximum [%d].", len(in.MessageAttributes), maxAttributes)}
	}
	for i, r := range in.MessageBody {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return &apiError{code: "InvalidMessageContents",
				message: fmt.Sprintf("The message contains a character outside the allowed set: %U at byte %d.", r, i)}
		}
	}
	return nil
}

func checksum(body string) string {
	sum := md5.Sum([]byte(body)) //nolint:gosec // SQS's checksum
	return hex.EncodeToString(sum[:])
}

package sqsfake

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum, which protects against accidents only
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of SQS.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
const (
	maxBody       = 1 << 20 // bytes
	maxMessages   = 10      // of one ReceiveMessage
	maxWait       = 20      // seconds
	maxVisibility = 12 * 60 * 60
	defVisibility = 30 // seconds
)

// operation performs a request and returns the answer to encode.
type operation func(s *Server, ctx context.Context, body []byte) (any, error)

// operations are the operations that are known.
var operations = map[string]operation{
	"CreateQueue":             (*Server).createQueue,
	"DeleteQueue":             (*Server).deleteQueue,
	"GetQueueUrl":             (*Server).getQueueURL,
	"SendMessage":             (*Server).sendMessage,
	"ReceiveMessage":          (*Server).receiveMessage,
	"ChangeMessageVisibility": (*Server).changeMessageVisibility,
	"DeleteMessage":           (*Server).deleteMessage,
}

// decode decodes parameters. It returns an error that names a parameter which in does not have.
func decode(body []byte, in any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if err == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unsupported("the parameter %s", name)
	}
	return &apiError{code: "SerializationException",
		message: fmt.Sprintf("sqsfake can't read the request: %v", err)}
}

// inRange checks an optional parameter.
func inRange(parameter string, v *int, least, most, def int) (int, error) {
	if v == nil {
		return def, nil
	}
	if *v < least || *v > most {
		return 0, invalidValue(parameter, *v, fmt.Sprintf("%d to %d", least, most))
	}
	return *v, nil
}

// queueName allows a FIFO queue's suffix, which counts towards the 80 characters.
var queueName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$|^[a-zA-Z0-9_-]{1,75}\.fifo$`)

type queueURL struct {
	QueueUrl string //nolint:revive // SQS's name
}

func (s *Server) createQueue(_ context.Context, body []byte) (any, error) {
	var in struct {
		QueueName  string
		Attributes map[string]string
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	visibility, fifo, err := queueAttributes(in.Attributes)
	if err != nil {
		return nil, err
	}
	if !queueName.MatchString(in.QueueName) || strings.HasSuffix(in.QueueName, fifoSuffix) != fifo {
		return nil, invalidValue("QueueName", strconv.Quote(in.QueueName),
			"1 to 80 letters, digits, hyphens or underscores, with the suffix .fifo if FifoQueue is true, and only then")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[in.QueueName]; q != nil && q.visibility != visibility {
		return nil, &apiError{code: "QueueNameExists", query: "QueueAlreadyExists",
			message: fmt.Sprintf("A queue named %q exists already with another visibility timeout.",
				in.QueueName)}
	}
	if s.queues[in.QueueName] == nil {
		s.queues[in.QueueName] = newQueue(in.QueueName, visibility)
	}
	return queueURL{s.urlOf(in.QueueName)}, nil
}

func queueAttributes(attributes map[string]string) (visibility time.Duration, fifo bool, err error) {
	seconds := defVisibility
	for name, text := range attributes {
		switch name {
		case "FifoQueue":
			if fifo = text == "true"; !fifo {
				return 0, false, invalidValue(name, strconv.Quote(text), "true, or left out")
			}
		case "VisibilityTimeout":
			n, err := strconv.Atoi(text)
			if err != nil {
				return 0, false, invalidValue(name, strconv.Quote(text), "a number of seconds")
			}
			if seconds, err = inRange(name, &n, 0, maxVisibility, 0); err != nil {
				return 0, false, err
			}
		default:
			return 0, false, unsupported("the queue attribute %q", name)
		}
	}
	return time.Duration(seconds) * time.Second, fifo, nil
}

func (s *Server) deleteQueue(_ context.Context, body []byte) (any, error) {
	var in queueURL
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	delete(s.queues, q.name)
	q.wake() // waiting receivers find the queue deleted
	return struct{}{}, nil
}

func (s *Server) getQueueURL(_ context.Context, body []byte) (any, error) {
	var in struct{ QueueName string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[in.QueueName] == nil {
		return nil, noQueue(in.QueueName)
	}
	return queueURL{s.urlOf(in.QueueName)}, nil
}

func (s *Server) sendMessage(_ context.Context, body []byte) (any, error) {
	var in struct {
		QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId string //nolint:revive // SQS's names
		MessageAttributes                                             map[string]attribute
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if err := checkBody(in.MessageBody); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if err := q.checkFIFO(in.MessageGroupId, in.MessageDeduplicationId); err != nil {
		return nil, err
	}
	var m *message
	if q.fifo == nil {
		m = q.send(in.MessageBody, s.now())
	} else {
		m = q.sendOnce(in.MessageBody, in.MessageGroupId, in.MessageDeduplicationId, s.now())
	}
	if m.own == nil { // not sent before
		m.own = in.MessageAttributes
	}
	return struct {
		MD5OfMessageBody, MessageId string //nolint:revive // SQS's names
		SequenceNumber              string `json:",omitempty"`
	}{checksum(in.MessageBody), m.id, m.sequence}, nil
}

// checkBody applies SQS's rules for a body: its size, and the characters that XML can carry.
func checkBody(body string) error {
	switch {
	case body == "":
		return &apiError{code: "MissingParameter",
			message: "The request must contain the parameter MessageBody."}
	case len(body) > maxBody:
		return invalidValue("MessageBody", fmt.Sprintf("of %d bytes", len(body)),
			fmt.Sprintf("shorter than %d bytes", maxBody+1))
	}
	for i, r := range body {
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

type receiveInput struct {
	QueueUrl                                                string //nolint:revive // SQS's name
	MaxNumberOfMessages, VisibilityTimeout, WaitTimeSeconds *int
	MessageSystemAttributeNames, MessageAttributeNames      []string
}

type receivedMessage struct {
	MessageId, ReceiptHandle, MD5OfBody, Body string               //nolint:revive // SQS's names
	Attributes                                map[string]string    `json:",omitempty"`
	MessageAttributes                         map[string]attribute `json:",omitempty"`
}

func (s *Server) receiveMessage(ctx context.Context, body []byte) (any, error) {
	var in receiveInput
	err := decode(body, &in)
	if err != nil {
		return nil, err
	}
	limit, err1 := inRange("MaxNumberOfMessages", in.MaxNumberOfMessages, 1, maxMessages, 1)
	visibility, err2 := inRange("VisibilityTimeout", in.VisibilityTimeout, 0, maxVisibility, -1)
	wait, err3 := inRange("WaitTimeSeconds", in.WaitTimeSeconds, 0, maxWait, 0)
	if err := errors.Join(err1, err2, err3, checkAttributeNames(in.MessageSystemAttributeNames)); err != nil {
		return nil, err
	}
	taken, err := s.await(ctx, in.QueueUrl, limit, visibility, time.Duration(wait)*time.Second)
	if err != nil {
		return nil, err
	}
	out := struct {
		Messages []receivedMessage `json:",omitempty"`
	}{}
	for i := range taken {
		m := &taken[i]
		out.Messages = append(out.Messages, receivedMessage{
			MessageId: m.id, ReceiptHandle: m.receipt, Body: m.body, MD5OfBody: checksum(m.body),
			Attributes: m.attributes(in.MessageSystemAttributeNames), MessageAttributes: m.ownAttributes(in.MessageAttributeNames),
		})
	}
	return out, nil
}

// The supported system attributes of a message.
const (
	attrAll      = "All"
	attrReceipts = "ApproximateReceiveCount"
	attrFirst    = "ApproximateFirstReceiveTimestamp"
	attrSent     = "SentTimestamp"
	attrGroup    = "MessageGroupId"
	attrDedup    = "MessageDeduplicationId"
	attrSequence = "SequenceNumber"
)

func checkAttributeNames(names []string) error {
	for _, name := range names {
		switch name {
		case attrAll, attrReceipts, attrFirst, attrSent, attrGroup, attrDedup, attrSequence:
		default:
			return unsupported("the message attribute %q", name)
		}
	}
	return nil
}

func (m *message) attributes(names []string) map[string]string {
	all := map[string]string{
		attrReceipts: strconv.Itoa(m.receipts),
		attrFirst:    strconv.FormatInt(m.firstSeen.UnixMilli(), 10),
		attrSent:     strconv.FormatInt(m.sent.UnixMilli(), 10),
	}
	if m.group != "" {
		all[attrGroup], all[attrDedup], all[attrSequence] = m.group, m.dedupID, m.sequence
	}
	if slices.Contains(names, attrAll) {
		return all
	}
	for name := range all {
		if !slices.Contains(names, name) {
			delete(all, name)
		}
	}
	return all
}

// ownAttributes returns the attributes of the producer that are named.
func (m *message) ownAttributes(names []string) map[string]attribute {
	own := make(map[string]attribute)
	for name, value := range m.own {
		if slices.Contains(names, attrAll) || slices.Contains(names, name) {
			own[name] = value
		}
	}
	return own
}

// await receives messages. While there are none, it waits for up to wait. A negative visibility (seconds)
// means that of the queue.
func (s *Server) await(ctx context.Context, url string, limit, visibility int, wait time.Duration) ([]message,
	error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		taken, changed, next, err := s.tryReceive(url, limit, visibility)
		if err != nil || len(taken) > 0 || wait == 0 {
			return taken, err
		}
		visible := time.NewTimer(max(0, next.Sub(s.now())))
		due := visible.C
		if next.IsZero() {
			due = nil
		}
		select {
		case <-changed:
		case <-due:
		case <-deadline.C:
			wait = 0 // the last attempt
		case <-ctx.Done():
			wait = 0
		case <-s.Stopped():
			wait = 0
		}
		visible.Stop()
	}
}

func (s *Server) tryReceive(url string, limit, visibility int) (taken []message, changed <-chan struct{},
	next time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(url)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	hide := q.visibility
	if visibility >= 0 {
		hide = time.Duration(visibility) * time.Second
	}
	taken, next = q.receive(limit, hide, s.now())
	return taken, q.changed, next, nil
}

func (s *Server) changeMessageVisibility(_ context.Context, body []byte) (any, error) {
	var in struct {
		QueueUrl, ReceiptHandle string //nolint:revive // SQS's name
		VisibilityTimeout       *int
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if in.VisibilityTimeout == nil {
		return nil, &apiError{code: "MissingParameter",
			message: "The request must contain the parameter VisibilityTimeout."}
	}
	seconds, err := inRange("VisibilityTimeout", in.VisibilityTimeout, 0, maxVisibility, 0)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if !q.hide(in.ReceiptHandle, time.Duration(seconds)*time.Second, s.now()) {
		return nil, &apiError{code: "MessageNotInflight", query: "AWS.SimpleQueueService.MessageNotInflight",
			message: "The message referred to is not in flight under this receipt handle."}
	}
	return struct{}{}, nil
}

func (s *Server) deleteMessage(_ context.Context, body []byte) (any, error) {
	var in struct{ QueueUrl, ReceiptHandle string } //nolint:revive // SQS's name
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if !strings.Contains(in.ReceiptHandle, receiptSeparator) {
		return nil, &apiError{code: "ReceiptHandleIsInvalid",
			message: fmt.Sprintf("The receipt handle %q is not valid.", in.ReceiptHandle)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.find(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if q.expired(in.ReceiptHandle, s.now()) {
		return nil, &apiError{code: "InvalidParameterValue",
			message: fmt.Sprintf("Value %s for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.", in.ReceiptHandle)}
	}
	if m := q.remove(in.ReceiptHandle); m != nil {
		s.removed(m.body)
	}
	return struct{}{}, nil
}

// find returns the queue of a URL by its last path element, because the host depends on the client's
// connection.
func (s *Server) find(queueURL string) (*queue, error) {
	u, err := url.Parse(queueURL)
	if err != nil {
		return nil, noQueue(queueURL)
	}
	q := s.queues[path.Base(u.Path)]
	if q == nil {
		return nil, noQueue(queueURL)
	}
	return q, nil
}

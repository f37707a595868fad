package sqsfake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	leastBody     = 1 << 10 // bytes: the smallest MaximumMessageSize
	maxBody       = 1 << 20 // bytes: of a message, and of all messages of a batch
	maxMessages   = 10      // of one request
	maxWait       = 20      // seconds
	maxDelay      = 15 * 60 // seconds
	maxVisibility = 12 * 60 * 60
	defVisibility = 30 // seconds
	maxListed     = 1000
)

// operation performs a request and returns the answer to encode.
type operation func(s *Server, ctx context.Context, body []byte) (any, error)

// operations are the operations that are known.
var operations = map[string]operation{
	"CreateQueue":             (*Server).createQueue,
	"DeleteQueue":             (*Server).deleteQueue,
	"GetQueueUrl":             (*Server).getQueueURL,
	"ListQueues":              (*Server).listQueues,
	"SendMessage":             (*Server).sendMessage,
	"SendMessageBatch":        (*Server).sendMessageBatch,
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
	settings, fifo, err := queueAttributes(in.Attributes)
	if err != nil {
		return nil, err
	}
	if !queueName.MatchString(in.QueueName) || strings.HasSuffix(in.QueueName, fifoSuffix) != fifo {
		return nil, invalidValue("QueueName", strconv.Quote(in.QueueName),
			"1 to 80 letters, digits, hyphens or underscores, with the suffix .fifo if FifoQueue is true, and only then")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[in.QueueName]; q != nil && q.settings != settings {
		return nil, &apiError{code: "QueueNameExists", query: "QueueAlreadyExists",
			message: fmt.Sprintf("A queue named %q exists already with other attributes.", in.QueueName)}
	}
	if s.queues[in.QueueName] == nil {
		s.queues[in.QueueName] = newQueue(in.QueueName, settings)
	}
	return queueURL{s.urlOf(in.QueueName)}, nil
}

func queueAttributes(attributes map[string]string) (set settings, fifo bool, err error) {
	visibility, delay := defVisibility, 0
	set.largest = maxBody
	for name, text := range attributes {
		switch name {
		case "FifoQueue":
			if fifo = text == "true"; !fifo {
				return set, false, invalidValue(name, strconv.Quote(text), "true, or left out")
			}
		case "VisibilityTimeout":
			visibility, err = numberInRange(name, text, 0, maxVisibility)
		case "DelaySeconds":
			delay, err = numberInRange(name, text, 0, maxDelay)
		case "MaximumMessageSize":
			set.largest, err = numberInRange(name, text, leastBody, maxBody)
		default:
			err = unsupported("the queue attribute %q", name)
		}
		if err != nil {
			return set, false, err
		}
	}
	set.visibility, set.delay = time.Duration(visibility)*time.Second, time.Duration(delay)*time.Second
	return set, fifo, nil
}

func numberInRange(name, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, invalidValue(name, strconv.Quote(text), "a whole number")
	}
	return inRange(name, &n, least, most, 0)
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
	var in struct{ QueueName, QueueOwnerAWSAccountId string } //nolint:revive // SQS's name
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[in.QueueName] == nil || in.QueueOwnerAWSAccountId != "" && in.QueueOwnerAWSAccountId != account {
		return nil, noQueue(in.QueueName)
	}
	return queueURL{s.urlOf(in.QueueName)}, nil
}

// listQueues lists the queues by name. The token of the next page is the last name.
func (s *Server) listQueues(_ context.Context, body []byte) (any, error) {
	var in struct {
		QueueNamePrefix, NextToken string
		MaxResults                 *int
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	most, err := inRange("MaxResults", in.MaxResults, 1, maxListed, maxListed)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out struct {
		QueueUrls []string `json:",omitempty"`
		NextToken string   `json:",omitempty"`
	}
	last := ""
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		if !strings.HasPrefix(name, in.QueueNamePrefix) || name <= in.NextToken {
			continue
		}
		if len(out.QueueUrls) == most {
			out.NextToken = last
			break
		}
		out.QueueUrls, last = append(out.QueueUrls, s.urlOf(name)), name
	}
	return out, nil
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
	for name, value := range map[string]string{
		attrGroup: m.group, attrDedup: m.dedupID, attrSequence: m.sequence,
	} {
		if value != "" {
			all[name] = value
		}
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
		s.removed(q.name, m.body)
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

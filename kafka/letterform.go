package kafka

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// This file has the JSON form of dead letters. Bytes that are UTF-8 are {"text": "…"}, so that people can read
// them; all others are a string in base64. If a letter with texts is too large, all bytes are in base64, which
// may be shorter. Both forms are read. The names of headers are strings, or {"base64": "…"}.

// plain is a letter without methods.
type plain DeadLetter

// form is the JSON form of a letter. Its own fields replace those of plain.
type form[B any] struct {
	plain

	Key       B               `json:"key"`
	Value     B               `json:"value"`
	Headers   []headerForm[B] `json:"headers,omitempty"`
	Undecoded B               `json:"undecoded,omitempty"`
}

type headerForm[B any] struct {
	Key   headerName `json:"key"`
	Value B          `json:"value"`
}

func formOf[B ~[]byte](l *DeadLetter) *form[B] {
	f := &form[B]{plain: plain(*l), Key: l.Key, Value: l.Value, Undecoded: l.Undecoded}
	for _, h := range l.Headers {
		f.Headers = append(f.Headers, headerForm[B]{headerName(h.Key), h.Value})
	}
	return f
}

// text is bytes that are text in JSON if they are UTF-8.
type text []byte

type textForm struct {
	Text *string `json:"text"`
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if t == nil || !utf8.Valid(t) {
		return json.Marshal([]byte(t))
	}
	s := string(t)
	return encode(textForm{&s})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		var b []byte
		err := json.Unmarshal(data, &b)
		*t = b
		return err
	}
	var in textForm
	err := json.Unmarshal(data, &in)
	switch {
	case err != nil:
		return err
	case in.Text == nil:
		return errors.New(`an object of bytes has no "text"`)
	}
	*t = []byte(*in.Text)
	return nil
}

// headerName is the name of a header: bytes, though Kafka's protocol says UTF-8.
type headerName string

type nameForm struct {
	Bytes []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (n headerName) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return encode(string(n))
	}
	return encode(nameForm{[]byte(n)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *headerName) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return json.Unmarshal(data, (*string)(n))
	}
	var in nameForm
	err := json.Unmarshal(data, &in)
	if err == nil && in.Bytes == nil {
		err = errors.New(`the name of a header has no "base64"`)
	}
	*n = headerName(in.Bytes)
	return err
}

// MarshalJSON implements json.Marshaler.
func (l DeadLetter) MarshalJSON() ([]byte, error) { return encode(formOf[text](&l)) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *DeadLetter) UnmarshalJSON(data []byte) error {
	var f form[text]
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*l = DeadLetter(f.plain)
	l.Key, l.Value, l.Undecoded, l.Headers = f.Key, f.Value, f.Undecoded, nil
	for _, h := range f.Headers {
		l.Headers = append(l.Headers, DeadHeader{string(h.Key), h.Value})
	}
	return nil
}

// encode returns the JSON form of v, without escapes for HTML. It escapes the characters U+FFFE and U+FFFF.
// JSON and UTF-8 allow them, but XML does not, and so SQS refuses them. Otherwise a letter whose key contains
// one could never be sent.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	b := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	b = bytes.ReplaceAll(b, []byte("\uFFFE"), []byte(`\ufffe`))
	return bytes.ReplaceAll(b, []byte("\uFFFF"), []byte(`\uffff`)), err
}

// ErrDeadLetterTooLarge means that a dead letter exceeds the limit, and that nothing more may be left out of
// it.
var ErrDeadLetterTooLarge = errors.New("kafka: the dead letter is too large")

// Encode returns the letter as JSON of at most limit bytes, in characters that every transport accepts. A
// larger letter is reduced until it fits. Encode returns ErrDeadLetterTooLarge (wrapped) if it can't be
// reduced any more.
func (l DeadLetter) Encode(limit int) ([]byte, error) {
	for {
		size := 0
		for _, f := range []any{formOf[text](&l), formOf[[]byte](&l)} {
			out, err := encode(f)
			if err != nil {
				return nil, fmt.Errorf("kafka: encoding the dead letter of %s: %w", l.Source(), err)
			}
			if len(out) <= limit {
				return out, nil
			}
			size = len(out)
		}
		smaller, err := l.Reduce()
		if err != nil {
			return nil, fmt.Errorf("%w; it has %d bytes, the limit is %d", err, size, limit)
		}
		l = smaller
	}
}

// Reduce returns the letter without the first of these fields that it has: the value, the headers, the
// undecoded record, the Kafka key. The returned letter names the omitted field. Reduce returns
// ErrDeadLetterTooLarge (wrapped) if the letter has none of them, or if they are nowhere else: a message is
// deleted from its queue when its letter was sent.
func (l DeadLetter) Reduce() (smaller DeadLetter, err error) {
	switch {
	case l.Queue() != "" && l.ValueObject == "":
		return l, fmt.Errorf("%w: that of %s must have the whole message, which is deleted from its queue",
			ErrDeadLetterTooLarge, l.Source())
	case len(l.Value) > 0: // without its empty value the letter would describe a tombstone
		l.ValueOmitted, l.Value = len(l.Value), nil
	case len(l.Headers) > 0:
		omit(&l, "headers", &l.Headers)
	case len(l.Undecoded) > 0:
		omit(&l, "undecoded", &l.Undecoded)
	case len(l.Key) > 0:
		omit(&l, "key", &l.Key)
	default:
		return l, fmt.Errorf("%w: that of %s, with all optional fields omitted", ErrDeadLetterTooLarge, l.Source())
	}
	return l, nil
}

func omit[T any](l *DeadLetter, name string, part *[]T) {
	*part = nil
	l.Omitted = append(slices.Clip(l.Omitted), name) // the letter is a copy, but its slices are shared
}

// ParseDeadLetter reads a letter's JSON form. It returns an error if it is not one.
func ParseDeadLetter(data []byte) (DeadLetter, error) {
	var l DeadLetter
	if err := json.Unmarshal(data, &l); err != nil {
		return DeadLetter{}, fmt.Errorf("kafka: this is not a dead letter of idemsk: %s", problem(err))
	}
	if l.Topic == "" || l.Error.Code == "" {
		return DeadLetter{}, errors.New(
			"kafka: this is not a dead letter of idemsk: it names no topic, or no error")
	}
	return l, nil
}

// problem describes an error of package json by the letter.
func problem(err error) string {
	var wrong *json.UnmarshalTypeError
	var base64Error base64.CorruptInputError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return "it is of the type " + wrong.Value
	case errors.As(err, &wrong):
		return fmt.Sprintf("its %q is of the type %s", wrong.Field, wrong.Value)
	case errors.As(err, &base64Error):
		return `its key, its value or a header is neither base64 nor {"text": "…"}`
	case errors.As(err, &syntax):
		return "it is no JSON document"
	}
	return err.Error()
}

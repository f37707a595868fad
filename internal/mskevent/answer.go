package mskevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// AnswerError means that the function's answer does not name the failed records.
type AnswerError struct {
	Problem string
	Answer  []byte // its beginning
}

const shownAnswer = 200 // bytes

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the answer %.*q %s", shownAnswer, e.Answer, e.Problem)
}

// Failures reads a partial batch response. It returns the places that the response names. Each must have been
// delivered, which has reports. An empty answer, null, an empty document and a document without
// batchItemFailures mean that no record failed. listed reports whether the answer has such a list. The error
// is an *AnswerError: for an event source mapping, the whole batch failed.
func Failures(payload []byte, has func(Place) bool) (failed map[Place]bool, listed bool, err error) {
	failed = make(map[Place]bool)
	listed, err = ItemsBy(Identifier, payload, has,
		func(place Place, _ map[string]json.RawMessage) { failed[place] = true })
	if err != nil {
		return nil, false, err
	}
	return failed, listed, nil
}

// ItemsBy is as Failures, with identifiers of any event source, which read reads. It calls each with the
// identifier and the fields of an item.
func ItemsBy[K comparable](read func(json.RawMessage) (K, error), payload []byte, has func(K) bool,
	each func(K, map[string]json.RawMessage)) (listed bool, err error) {
	const list = "batchItemFailures"
	bad := func(format string, args ...any) error {
		return &AnswerError{Problem: fmt.Sprintf(format, args...),
			Answer: payload[:min(len(payload), shownAnswer)]}
	}
	var answer map[string]json.RawMessage
	if isEmpty(payload) {
		return false, nil
	}
	if err := json.Unmarshal(payload, &answer); err != nil {
		return false, bad(`is no partial batch response (want {"batchItemFailures":[…]}): %v`, err)
	}
	var items []json.RawMessage
	value, listed := answer[list]
	if listed {
		if err := rawjson.Unmarshal(value, &items); err != nil {
			return false, bad("has %s that are no list of objects: %v", list, err)
		}
	}
	for i, raw := range items {
		item, err := objectOf(raw, "itemIdentifier")
		if err != nil {
			return false, bad("has %s that are no list of objects: %v", list, err)
		}
		id, err := read(item["itemIdentifier"])
		if err != nil {
			return false, bad("has a bad identifier, %s[%d]: %v", list, i, err)
		}
		if !has(id) { // an identifier may be a value of a record: it is not quoted
			return false, bad("names a record that was not in the event, in %s[%d]", list, i)
		}
		each(id, item)
	}
	return listed, nil
}

// objectOf returns the fields of an object, of which those with these names are there at most once. Null has none.
func objectOf(raw json.RawMessage, once ...string) (all map[string]json.RawMessage, err error) {
	if err := rawjson.Unmarshal(raw, &all); err != nil || all == nil {
		return nil, err
	}
	seen := make(map[string]bool)
	return all, rawjson.Parts(bytes.TrimSpace(raw), func(key string, _, _ int) error {
		if seen[key] && slices.Contains(once, key) {
			return fmt.Errorf("%s is there twice", key)
		}
		seen[key] = true
		return nil
	})
}

// outcomes is the name of the field of an event that asks for outcomes, and of the one of an answer that has
// them (lambda/msk, lambda/sqs).
const outcomes = "idemskOutcomes"

// Outcomes returns the outcome of each record that an answer names, by the record's place or the message's ID,
// and none if the function does not use idemsk.
func Outcomes(payload []byte) map[string]string {
	var answer map[string]json.RawMessage
	var items []struct {
		Partition string `json:"partition"`
		Offset    int64  `json:"offset"`
		MessageID string `json:"messageId"`
		Outcome   string `json:"outcome"`
	}
	if json.Unmarshal(payload, &answer) != nil || json.Unmarshal(answer[outcomes], &items) != nil {
		return nil
	}
	all := make(map[string]string, len(items))
	for _, item := range items {
		name := item.MessageID
		if name == "" {
			name = Place{Partition: item.Partition, Offset: item.Offset}.String()
		}
		all[name] = item.Outcome
	}
	return all
}

// Blanks are the blanks of JSON.
const Blanks = " \t\r\n"

// isEmpty reports whether an answer is empty in one of the forms that AWS accepts.
func isEmpty(payload []byte) bool {
	switch string(bytes.Trim(payload, Blanks)) {
	case "", "null", "{}", "[]", `""`:
		return true
	}
	return false
}

// MessageID reads the itemIdentifier of an item that names a message of a queue.
func MessageID(raw json.RawMessage) (id string, err error) {
	if err := json.Unmarshal(raw, &id); err != nil || id == "" {
		return "", errors.New(`it is missing or no text (want {"itemIdentifier":"<messageId>"})`)
	}
	return id, nil
}

// Identifier reads the itemIdentifier of an item.
func Identifier(raw json.RawMessage) (Place, error) {
	place, err := identifier(raw)
	if err != nil {
		return Place{}, fmt.Errorf(`%w (want {"itemIdentifier":{"partition":"<topic>-<n>","offset":<n>}})`, err)
	}
	return place, nil
}

func identifier(raw json.RawMessage) (Place, error) {
	if len(raw) == 0 {
		return Place{}, errors.New("there is no itemIdentifier")
	}
	id, err := objectOf(raw, "partition", "offset")
	if err != nil {
		return Place{}, err
	}
	var partition *string
	var offset *int64
	if err := errors.Join(unmarshal(id["partition"], &partition),
		unmarshal(id["offset"], &offset)); err != nil {
		return Place{}, err
	}
	if partition == nil || offset == nil {
		return Place{}, errors.New("partition or offset is missing")
	}
	return Place{Partition: *partition, Offset: *offset}, nil
}

func unmarshal(raw json.RawMessage, into any) error {
	if raw == nil {
		return nil
	}
	return rawjson.Unmarshal(raw, into)
}

// ErrorMessage returns the type and the message of a function's error, or up to 300 bytes of an answer of
// another form.
func ErrorMessage(payload []byte) string {
	var document struct {
		ErrorType    string `json:"errorType"`
		ErrorMessage string `json:"errorMessage"`
	}
	if json.Unmarshal(payload, &document) != nil || document.ErrorMessage == "" {
		return fmt.Sprintf("%.300s", payload)
	}
	return document.ErrorType + ": " + document.ErrorMessage
}

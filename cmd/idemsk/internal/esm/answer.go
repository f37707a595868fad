package esm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// AnswerError is an answer that does not say which records failed, where the mapping expects that. The whole batch counts
// as failed.
type AnswerError struct {
	Problem string
	Answer  []byte // its beginning
}

const shownAnswer = 200 // bytes

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the answer %.*q %s", shownAnswer, e.Answer, e.Problem)
}

// failures reads a partial batch response. Nothing, null and an empty document say that nothing failed; so does one without
// batchItemFailures. has tells which places were delivered.
func failures(payload []byte, has func(Place) bool) (map[Place]bool, error) {
	bad := func(format string, args ...any) error {
		return &AnswerError{Problem: fmt.Sprintf(format, args...), Answer: payload[:min(len(payload), shownAnswer)]}
	}
	var answer map[string]json.RawMessage
	if isEmpty(payload) {
		return nil, nil //nolint:nilnil // nothing failed, and nothing is wrong
	}
	if err := json.Unmarshal(payload, &answer); err != nil {
		return nil, bad(`is no partial batch response (want {"batchItemFailures":[…]}): %v`, err)
	}
	var items []map[string]json.RawMessage
	if list, ok := answer["batchItemFailures"]; ok {
		if err := json.Unmarshal(list, &items); err != nil {
			return nil, bad("has batchItemFailures that are no list of objects: %v", err)
		}
	}
	failed := make(map[Place]bool, len(items))
	for i, item := range items {
		place, err := identifier(item["itemIdentifier"])
		if err != nil {
			return nil, bad(`has a bad identifier, batchItemFailures[%d] (want {"itemIdentifier":{"partition":"<topic>-<n>","offset":<n>}}): %v`, i, err)
		}
		if !has(place) {
			return nil, bad("names %s in batchItemFailures[%d], a record that was not in the event", place, i)
		}
		failed[place] = true
	}
	return failed, nil
}

// isEmpty reports whether an answer is nothing at all, in one of the ways in which that can be said.
func isEmpty(payload []byte) bool {
	switch string(bytes.TrimSpace(payload)) {
	case "", "null", "{}", "[]", `""`:
		return true
	}
	return false
}

func identifier(raw json.RawMessage) (Place, error) {
	if len(raw) == 0 {
		return Place{}, errors.New("there is no itemIdentifier")
	}
	var id map[string]json.RawMessage
	if err := json.Unmarshal(raw, &id); err != nil {
		return Place{}, err
	}
	var partition *string
	var offset *int64
	if err := errors.Join(unmarshal(id["partition"], &partition), unmarshal(id["offset"], &offset)); err != nil {
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
	return json.Unmarshal(raw, into)
}

package proxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// The lists of an answer. Both have items with an itemIdentifier.
const (
	listFailures = "batchItemFailures" // a failed record each, see failure
	listResults  = "results"           // a result each
)

// failure has the optional fields of an item of batchItemFailures.
type failure struct {
	Permanent    bool   `json:"permanent"`    // no further attempt: a dead letter
	Error        string `json:"error"`        // for the log and the dead letter
	RetryAfterMs int64  `json:"retryAfterMs"` // the pause before the next attempt
}

// maxRetryAfter bounds a pause. A pause that is negative is none. Both keep the conversion from overflowing.
const maxRetryAfter = 24 * time.Hour

func (f *failure) err() error {
	err := errors.New(cmp.Or(f.Error, "the function named the record in "+listFailures))
	switch after := time.Duration(max(0, min(f.RetryAfterMs, maxRetryAfter.Milliseconds()))) * time.Millisecond; {
	case f.Permanent:
		return idem.Permanent(err)
	case after > 0:
		return idem.RetryAfter(err, after)
	}
	return err
}

// results returns what the answer says of each record of a call. An answer that is an error, or that can't be read, fails all of them.
//
// Without partial responses the event source reads no answer, so that a function may return anything. The lists count nevertheless if
// the answer is an object that has one: a record that is named as failed must not complete.
func results(rs []kafka.RecordAttempt, a answer, partial bool) []batch.Result {
	switch {
	case a.err != nil:
		return all(rs, a.err)
	case a.failed:
		return all(rs, functionError(a.payload))
	case !partial && !hasList(a.payload):
		return all(rs, nil)
	}
	out, err := listed(rs, a.payload)
	if err != nil {
		return all(rs, err)
	}
	return out
}

// listed reads the lists of an answer.
func listed(rs []kafka.RecordAttempt, payload []byte) ([]batch.Result, error) {
	out := make([]batch.Result, len(rs))
	index := make(map[mskevent.Place]int, len(rs))
	for i := range rs {
		index[placeOf(rs[i].Record)] = i
	}
	has := func(p mskevent.Place) bool { _, ok := index[p]; return ok }
	_, err := mskevent.Items(payload, listFailures, has, func(p mskevent.Place, item map[string]json.RawMessage) error {
		f, err := failureOf(item)
		out[index[p]].Err = f.err()
		return err
	})
	if err != nil {
		return nil, err
	}
	_, err = mskevent.Items(payload, listResults, has, func(p mskevent.Place, item map[string]json.RawMessage) error {
		out[index[p]].Value = item["result"]
		return nil
	})
	return out, err
}

func failureOf(item map[string]json.RawMessage) (f failure, err error) {
	for name, field := range map[string]any{"permanent": &f.Permanent, "error": &f.Error, "retryAfterMs": &f.RetryAfterMs} {
		if value, ok := item[name]; ok {
			if wrong := json.Unmarshal(value, field); wrong != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, wrong))
			}
		}
	}
	return f, err
}

// hasList reports whether an answer is an object with one of the lists.
func hasList(payload []byte) bool {
	var answer map[string]json.RawMessage
	if json.Unmarshal(payload, &answer) != nil {
		return false
	}
	return answer[listFailures] != nil || answer[listResults] != nil
}

// functionError returns the error that a runtime reports.
func functionError(payload []byte) error {
	var e struct{ ErrorType, ErrorMessage string }
	if err := json.Unmarshal(payload, &e); err != nil || e.ErrorType == "" && e.ErrorMessage == "" {
		const shown = 200
		return fmt.Errorf("the function failed: %.*q", shown, payload)
	}
	return fmt.Errorf("the function failed: %s: %s", e.ErrorType, e.ErrorMessage)
}

package layercall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// The lists of an answer. Both have items with an itemIdentifier. The second one is of this project alone,
// under a name that no function has by chance. All other fields of an answer are the function's own.
const (
	listFailures = "batchItemFailures" // a failed record each, see failureOf
	listResults  = "idemskResults"     // a result each
)

// identifiers are those of a source's records in an answer.
type identifiers[K comparable] struct {
	of   func(*kafka.Record) K
	read func(json.RawMessage) (K, error)
}

// places are the identifiers of Kafka.
func places() identifiers[mskevent.Place] {
	return identifiers[mskevent.Place]{of: placeOf, read: mskevent.Identifier}
}

// results is resultsBy places.
func results(rs []kafka.RecordAttempt, answer []byte) ([]idem.BulkResult, error) {
	return resultsBy(places(), rs, answer)
}

// resultsBy returns what the answer says of each record of a call: all took effect but those that the answer
// names in batchItemFailures. An empty answer names none. An answer of which checkAnswer has an error, or whose
// list can't be read, means that the call failed as a whole. A function may return anything else; the layer
// answers the event source itself.
func resultsBy[K comparable](ids identifiers[K], rs []kafka.RecordAttempt, answer []byte) ([]idem.BulkResult,
	error) {
	out := make([]idem.BulkResult, len(rs))
	if len(bytes.Trim(answer, mskevent.Blanks)) == 0 {
		return out, nil
	}
	if err := checkAnswer(answer); err != nil {
		return nil, idem.OutcomeUnknown(err)
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(answer, &fields) // an answer that is no object has no lists
	index := make(map[K]int, len(rs))
	for i := range rs {
		index[ids.of(rs[i].Record)] = i
	}
	if fields[listFailures] != nil {
		has := func(id K) bool { _, ok := index[id]; return ok }
		_, err := mskevent.ItemsBy(ids.read, answer, has, func(id K, item map[string]json.RawMessage) {
			out[index[id]].Err = failureOf(item)
		})
		if unread := (*mskevent.AnswerError)(nil); errors.As(err, &unread) { // its own text quotes the answer
			err = fmt.Errorf("the function's answer %s", unread.Problem)
		}
		if err != nil {
			return nil, idem.OutcomeUnknown(err)
		}
	}
	addResults(ids, out, index, fields[listResults])
	return out, nil
}

// addResults adds the results of a list. What can't be read is left out: the effects of its records have
// happened.
func addResults[K comparable](ids identifiers[K], out []idem.BulkResult, index map[K]int,
	list json.RawMessage) {
	var items []json.RawMessage
	_ = json.Unmarshal(list, &items)
	for _, raw := range items {
		var item map[string]json.RawMessage
		_ = json.Unmarshal(raw, &item)
		id, err := ids.read(item["itemIdentifier"])
		if i, ok := index[id]; ok && err == nil {
			out[i].Value = item["result"]
		}
	}
}

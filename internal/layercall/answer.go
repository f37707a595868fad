package layercall

import (
	"encoding/json"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// The lists of an answer. Both have items with an itemIdentifier. The second one is of this project alone,
// under a name that no function has by chance. All other fields of an answer are the function's own.
const (
	listFailures = "batchItemFailures" // a failed record each, see failureOf
	listResults  = "idemskResults"     // a result each
)

// results returns what the answer says of each record of a call: all took effect but those that the answer
// names in batchItemFailures. A list that can't be read means that the call failed as a whole. A function may
// return anything else; the layer answers the event source itself.
func results(rs []kafka.RecordAttempt, answer []byte) ([]schedule.Result, error) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(answer, &fields) // an answer that is no object has no lists
	out := make([]schedule.Result, len(rs))
	index := make(map[mskevent.Place]int, len(rs))
	for i := range rs {
		index[placeOf(rs[i].Record)] = i
	}
	if fields[listFailures] != nil {
		has := func(p mskevent.Place) bool { _, ok := index[p]; return ok }
		_, err := mskevent.Items(answer, has, func(p mskevent.Place, item map[string]json.RawMessage) {
			out[index[p]].Err = failureOf(item)
		})
		if err != nil {
			return nil, idem.OutcomeUnknown(err)
		}
	}
	addResults(out, index, fields[listResults])
	return out, nil
}

// addResults adds the results of a list. What can't be read is left out: the effects of its records have
// happened.
func addResults(out []schedule.Result, index map[mskevent.Place]int, list json.RawMessage) {
	var items []json.RawMessage
	_ = json.Unmarshal(list, &items)
	for _, raw := range items {
		var item map[string]json.RawMessage
		_ = json.Unmarshal(raw, &item)
		place, err := mskevent.Identifier(item["itemIdentifier"])
		if i, ok := index[place]; ok && err == nil {
			out[i].Value = item["result"]
		}
	}
}

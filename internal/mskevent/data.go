package mskevent

import (
	"encoding/json"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// WithDataOf returns the JSON of the record with the key and the value of a message, and their schemas.
// Nothing else of the JSON changes.
func (r *Record) WithDataOf(m *Message) (json.RawMessage, error) {
	if err := valid(r.JSON); err != nil {
		return nil, err
	}
	size := len(r.JSON) + 4*(len(m.Key)+len(m.Value))/3 //nolint:mnd // base64
	out := m.appendData(append(make([]byte, 0, size), '{'))
	err := rawjson.Parts(r.JSON, func(name string, start, end int) error {
		switch name {
		case fieldKey, fieldValue, fieldKeySchema, fieldValueSchema:
			return nil
		}
		out = append(append(appendString(append(out, ','), name), ':'), r.JSON[start:end]...)
		return nil
	})
	return append(out, '}'), err
}

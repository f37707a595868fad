package mskevent

import (
	"bytes"
	"encoding/json"
	"slices"
)

// WithHeaders returns the JSON of the record with headers added behind its own. Nothing else of the JSON changes. A record whose
// headers are absent or null gets a list.
func (r *Record) WithHeaders(headers ...Header) (json.RawMessage, error) {
	var list []byte
	for i, h := range headers {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(appendSigned(append(appendString(append(list, '{'), h.Key), ':'), h.Value), '}')
	}
	start, end := 0, 0 // of the value of the last field "headers", which is the one that counts
	fields := 0
	d := json.NewDecoder(bytes.NewReader(r.JSON))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	open := int(d.InputOffset()) // behind the opening brace
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if fields++; key == "headers" {
			end = int(d.InputOffset())
			start = end - len(value)
		}
	}
	own := bytes.TrimSpace(bytes.Trim(r.JSON[start:end], "[]"))
	switch {
	case end == 0 && fields == 0:
		return slices.Concat(r.JSON[:open], []byte(`"headers":[`), list, []byte("]"), r.JSON[open:]), nil
	case end == 0:
		return slices.Concat(r.JSON[:open], []byte(`"headers":[`), list, []byte("],"), r.JSON[open:]), nil
	case string(r.JSON[start:end]) == "null", len(own) == 0:
		return slices.Concat(r.JSON[:start], []byte("["), list, []byte("]"), r.JSON[end:]), nil
	}
	return slices.Concat(r.JSON[:end-1], []byte(","), list, r.JSON[end-1:]), nil
}

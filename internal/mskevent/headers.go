package mskevent

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// WithHeaders returns the JSON of the record with headers added behind its own. Nothing else of the JSON
// changes. A record whose headers are absent or null gets a list.
func (r *Record) WithHeaders(headers ...Header) (json.RawMessage, error) {
	var list []byte
	for i, h := range headers {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(appendSigned(append(appendString(append(list, '{'), h.Key), ':'), h.Value), '}')
	}
	if err := valid(r.JSON); err != nil {
		return nil, err
	}
	start, end := 0, 0 // of the value of the last field "headers", which is the one that counts
	count := 0
	err := rawjson.Parts(r.JSON, func(key string, from, to int) error {
		if count++; key == "headers" {
			start, end = from, to
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	open := bytes.IndexByte(r.JSON, '{') + 1
	own := bytes.TrimSpace(bytes.Trim(r.JSON[start:end], "[]"))
	switch {
	case end == 0 && count == 0:
		return slices.Concat(r.JSON[:open], []byte(`"headers":[`), list, []byte("]"), r.JSON[open:]), nil
	case end == 0:
		return slices.Concat(r.JSON[:open], []byte(`"headers":[`), list, []byte("],"), r.JSON[open:]), nil
	case string(r.JSON[start:end]) == "null", len(own) == 0:
		return slices.Concat(r.JSON[:start], []byte("["), list, []byte("]"), r.JSON[end:]), nil
	}
	return slices.Concat(r.JSON[:end-1], []byte(","), list, r.JSON[end-1:]), nil
}

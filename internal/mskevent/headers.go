package mskevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/idemsk/idemsk/internal/rawjson"
)

const fieldHeaders = "headers"

// WithHeaders returns the JSON of the record without those of its headers whose names replaced reports, and
// with headers added behind its others. Nothing else of the JSON changes. A record whose headers are absent or
// null gets a list if there are headers to add.
func (r *Record) WithHeaders(replaced func(name string) bool, headers ...Header) (json.RawMessage, error) {
	if err := valid(r.JSON); err != nil {
		return nil, err
	}
	start, end := 0, 0 // of the value of the last field "headers", which is the one that counts
	count := 0
	err := rawjson.Parts(r.JSON, func(key string, from, to int) error {
		if count++; key == fieldHeaders {
			start, end = from, to
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, removed, err := without(r.JSON[start:end], replaced)
	if err != nil || !removed && len(headers) == 0 {
		return r.JSON, err
	}
	for _, h := range headers {
		list = appendString(append(appendComma(list), '{'), h.Key)
		list = append(appendSigned(append(list, ':'), h.Value), '}')
	}
	list = slices.Concat([]byte("["), list, []byte("]"))
	if end > 0 {
		return slices.Concat(r.JSON[:start], list, r.JSON[end:]), nil
	}
	if count > 0 {
		list = append(list, ',')
	}
	open := bytes.IndexByte(r.JSON, '{') + 1
	return slices.Concat(r.JSON[:open], []byte(`"`+fieldHeaders+`":`), list, r.JSON[open:]), nil
}

// without returns the elements of a list of headers, but no header whose name replaced reports. A header is a
// member of an element.
func without(list []byte, replaced func(name string) bool) (rest []byte, removed bool, err error) {
	if len(list) == 0 || string(list) == "null" {
		return nil, false, nil
	}
	if list[0] != '[' {
		return nil, false, errors.New("its headers are no list")
	}
	err = rawjson.Parts(list, func(_ string, from, to int) error {
		element := list[from:to]
		var others []byte
		had := false
		if element[0] == '{' {
			_ = rawjson.Parts(element, func(name string, from, to int) error {
				if replaced(name) {
					had = true
					return nil
				}
				others = append(append(appendString(appendComma(others), name), ':'), element[from:to]...)
				return nil
			})
		}
		switch {
		case !had:
			rest = append(appendComma(rest), element...)
		case len(others) > 0:
			rest = append(append(append(appendComma(rest), '{'), others...), '}')
		}
		removed = removed || had
		return nil
	})
	return rest, removed, err
}

// appendComma appends a comma behind what is before.
func appendComma(dst []byte) []byte {
	if len(dst) == 0 {
		return dst
	}
	return append(dst, ',')
}

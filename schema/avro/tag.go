package avro

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// tagged returns JSON in which the records and maps of unions are tagged with their type. Of a union's branches the
// library takes the first record that has one of the fields, and leaves out the others.
func (c *counter) tagged(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text behind it")
	}
	return json.Marshal(c.tag(value))
}

func (c *counter) tag(value any) any {
	switch value := value.(type) {
	case []any:
		c.tagItems(value)
	case map[string]any:
		switch c.avroType {
		case "record", "error":
			for i, name := range c.names {
				if field, ok := value[name]; ok {
					value[name] = c.children[i].tag(field)
				}
			}
		case "map":
			for name := range value {
				value[name] = c.children[0].tag(value[name])
			}
		case "union":
			return c.tagBranch(value)
		}
	}
	return value
}

// tagItems tags the items of a list, which may be a branch of a union.
func (c *counter) tagItems(items []any) {
	list := c
	if i := slices.Index(c.names, "array"); i >= 0 && c.avroType == "union" {
		list = c.children[i]
	}
	if list.avroType != "array" {
		return
	}
	for i := range items {
		items[i] = list.children[0].tag(items[i])
	}
}

// tagBranch tags the value of a union: the record with these fields, or the map.
func (c *counter) tagBranch(value map[string]any) any {
	for name := range value {
		if i := slices.Index(c.names, name); i >= 0 && len(value) == 1 { // it is tagged
			value[name] = c.children[i].tag(value[name])
			return value
		}
	}
	for _, fits := range []func(*counter) bool{
		func(branch *counter) bool { return branch.hasFields(value) },
		func(branch *counter) bool { return branch.avroType == "map" },
	} {
		if i := slices.IndexFunc(c.children, fits); i >= 0 {
			return map[string]any{c.names[i]: c.children[i].tag(value)}
		}
	}
	return value
}

// hasFields reports whether the value is a record with these fields and no others.
func (c *counter) hasFields(value map[string]any) bool {
	return c.kind == "record" && len(c.names) == len(value) &&
		!slices.ContainsFunc(c.names, func(name string) bool { _, ok := value[name]; return !ok })
}

package avro

import (
	"bytes"
	"errors"
	"slices"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// member is a value in JSON without blanks: the member of an object, the item of a list, or the whole text.
type member struct {
	name  []byte // quoted
	value []byte
	parts []member // of an object or a list
}

var errSameKey = errors.New("two keys of a map are one name in JSON, because they are not UTF-8")

// sorted returns JSON without blanks with the members of objects in the order of their names. The library
// writes the entries of a map in random order.
func sorted(text []byte) ([]byte, error) {
	whole := member{value: text}
	if err := whole.read(); err != nil {
		return nil, err
	}
	return whole.appendTo(make([]byte, 0, len(text))), nil
}

// read reads the value, which begins at the beginning of a text, and cuts off what is behind it.
func (m *member) read() error {
	text, i := m.value, 1
	inObject := text[0] == '{'
	if !inObject && text[0] != '[' {
		m.value = text[:rawjson.Skip(text, 0)]
		return nil
	}
	for text[i] != '}' && text[i] != ']' {
		if text[i] == ',' {
			i++
		}
		var part member
		if inObject {
			end := rawjson.Skip(text, i)
			part.name, i = text[i:end], end+len(":")
		}
		part.value = text[i:]
		if err := part.read(); err != nil {
			return err
		}
		i += len(part.value)
		m.parts = append(m.parts, part)
	}
	m.value = text[:i+1]
	if !inObject {
		return nil
	}
	slices.SortFunc(m.parts, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	for i := range m.parts[min(1, len(m.parts)):] {
		if bytes.Equal(m.parts[i].name, m.parts[i+1].name) {
			return errSameKey
		}
	}
	return nil
}

func (m *member) appendTo(out []byte) []byte {
	if len(m.parts) == 0 {
		return append(out, m.value...)
	}
	out = append(out, m.value[0])
	for i := range m.parts {
		if i > 0 {
			out = append(out, ',')
		}
		if m.parts[i].name != nil {
			out = append(append(out, m.parts[i].name...), ':')
		}
		out = m.parts[i].appendTo(out)
	}
	return append(out, m.value[len(m.value)-1])
}

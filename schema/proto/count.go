package proto

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/idemsk/idemsk/schema"
)

// maxDepth is the maximum depth of a message.
const maxDepth = 1000

// count counts the elements of an encoded message, before the library makes a value of them. In a group it
// ends with the group's end, and returns the data behind it. Fields without a descriptor are those that the
// schema lacks.
func count(data []byte, message protoreflect.MessageDescriptor, group protowire.Number, m *schema.Meter,
	depth int) (rest []byte, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is deeper than %d messages in each other", maxDepth)
	}
	if err := m.Add(0); err != nil { // a message takes as much as a field
		return nil, err
	}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		data = data[n:]
		if wire == protowire.EndGroupType {
			if number != group {
				return nil, errors.New("a group ends that did not begin")
			}
			return data, nil
		}
		if data, err = countField(data, fieldOf(message, number), number, wire, m, depth); err != nil {
			return nil, err
		}
	}
	if group != 0 {
		return nil, errors.New("a group does not end")
	}
	return nil, nil
}

// countField counts a field, whose tag has been read. It returns the data behind it.
func countField(
	data []byte, field protoreflect.FieldDescriptor, number protowire.Number, wire protowire.Type,
	m *schema.Meter, depth int,
) (rest []byte, err error) {
	name := 0
	if field != nil {
		name = len(field.JSONName())
	}
	if err := m.Add(name); err != nil {
		return nil, err
	}
	if wire == protowire.StartGroupType {
		return count(data, messageOf(field), number, m, depth+1)
	}
	n := protowire.ConsumeFieldValue(number, wire, data)
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	if wire == protowire.BytesType {
		value, _ := protowire.ConsumeBytes(data)
		err = countValue(value, field, m, depth)
	}
	return data[n:], err
}

// countValue counts what is in a field that has a length: a message, packed numbers, or nothing of its own.
func countValue(value []byte, field protoreflect.FieldDescriptor, m *schema.Meter, depth int) error {
	if message := messageOf(field); message != nil {
		_, err := count(value, message, 0, m, depth+1)
		return err
	}
	if field == nil || !field.IsList() {
		return nil
	}
	numbers := 0
	switch field.Kind() { //nolint:exhaustive // all others are numbers of a variable length
	case protoreflect.StringKind, protoreflect.BytesKind:
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		numbers = len(value) / 4
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		numbers = len(value) / 8
	default:
		for _, b := range value {
			if b < 0x80 {
				numbers++ // the last byte of a number
			}
		}
	}
	for range numbers {
		if err := m.Add(0); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf returns the descriptor of a field, nil if there is none.
func fieldOf(message protoreflect.MessageDescriptor, number protowire.Number) protoreflect.FieldDescriptor {
	if message == nil {
		return nil
	}
	return message.Fields().ByNumber(number)
}

func messageOf(field protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	if field == nil {
		return nil
	}
	return field.Message()
}

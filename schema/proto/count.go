package proto

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/idemsk/idemsk/schema"
)

// maxDepth is the maximum depth of a message.
const maxDepth = 1000

// counting counts the elements of an encoded message, before the library makes a value of them. As JSON, the
// message has elements that are not encoded, the defaults of fields, and those of the message in an Any.
type counting struct {
	meter *schema.Meter
	types *dynamicpb.Types // of extensions, and of the messages in an Any
	json  bool             // JSON is made
}

// all counts a whole message.
func (c counting) all(data []byte, message protoreflect.MessageDescriptor) error {
	_, err := c.message(data, message, 0, 0)
	return err
}

// message counts a message. In a group it ends with the group's end, and returns the data behind it. Fields
// without a descriptor are those that the schema lacks.
func (c counting) message(data []byte, message protoreflect.MessageDescriptor, group protowire.Number, depth int) (
	rest []byte, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is deeper than %d messages in each other", maxDepth)
	}
	if err := c.meter.Add(0); err != nil { // a message takes as much as a field
		return nil, err
	}
	if err := c.defaults(message); err != nil {
		return nil, err
	}
	var inner content
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
			return data, c.content(inner, message, depth)
		}
		inner.read(data, number, wire)
		if data, err = c.field(data, c.fieldOf(message, number), number, wire, depth); err != nil {
			return nil, err
		}
	}
	if group != 0 {
		return nil, errors.New("a group does not end")
	}
	return nil, c.content(inner, message, depth)
}

// content is what a google.protobuf.Any has: the name of a message type behind the last slash of a URL, and the
// message.
type content struct{ url, value []byte }

// read reads the field of an Any with this number.
func (in *content) read(data []byte, number protowire.Number, wire protowire.Type) {
	if wire != protowire.BytesType {
		return
	}
	value, _ := protowire.ConsumeBytes(data)
	switch number { //nolint:exhaustive // an Any has two fields
	case 1:
		in.url = value
	case 2: //nolint:mnd // in any.proto
		in.value = value
	}
}

// content counts the message in an Any, if its type is known: only then it becomes JSON.
func (c counting) content(inner content, message protoreflect.MessageDescriptor, depth int) error {
	if !c.json || message == nil || message.FullName() != "google.protobuf.Any" {
		return nil
	}
	of, err := c.types.FindMessageByURL(string(inner.url))
	if err != nil {
		return nil //nolint:nilerr // the library says so
	}
	_, err = c.message(inner.value, of.Descriptor(), 0, depth+1)
	return err
}

// defaults counts the fields that JSON has also if they are not encoded.
func (c counting) defaults(message protoreflect.MessageDescriptor) error {
	if !c.json || message == nil {
		return nil
	}
	for i := range message.Fields().Len() {
		if field := message.Fields().Get(i); !field.HasPresence() {
			if err := c.meter.Add(len(field.JSONName())); err != nil {
				return err
			}
		}
	}
	return nil
}

// field counts a field, whose tag has been read. It returns the data behind it.
func (c counting) field(
	data []byte, field protoreflect.FieldDescriptor, number protowire.Number, wire protowire.Type, depth int,
) (rest []byte, err error) {
	if !c.json || field == nil || field.HasPresence() || field.Cardinality() == protoreflect.Repeated {
		name := 0
		if field != nil {
			name = len(field.JSONName())
		}
		if err := c.meter.Add(name); err != nil {
			return nil, err
		}
	} // otherwise defaults has counted it
	if wire == protowire.StartGroupType {
		return c.message(data, messageOf(field), number, depth+1)
	}
	n := protowire.ConsumeFieldValue(number, wire, data)
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	if wire == protowire.BytesType {
		value, _ := protowire.ConsumeBytes(data)
		err = c.value(value, field, depth)
	}
	return data[n:], err
}

// value counts what is in a field that has a length: a message, packed numbers, or nothing of its own.
func (c counting) value(value []byte, field protoreflect.FieldDescriptor, depth int) error {
	if message := messageOf(field); message != nil {
		_, err := c.message(value, message, 0, depth+1)
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
		if err := c.meter.Add(0); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf returns the descriptor of a field or an extension, nil if there is none.
func (c counting) fieldOf(message protoreflect.MessageDescriptor, number protowire.Number) protoreflect.FieldDescriptor {
	if message == nil {
		return nil
	}
	if !message.ExtensionRanges().Has(number) {
		return message.Fields().ByNumber(number)
	}
	extension, err := c.types.FindExtensionByNumber(message.FullName(), number)
	if err != nil {
		return nil
	}
	return extension.TypeDescriptor()
}

func messageOf(field protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	if field == nil {
		return nil
	}
	return field.Message()
}

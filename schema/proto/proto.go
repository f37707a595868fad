// Package proto decodes Protobuf.
package proto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/idemsk/idemsk/internal/rawjson"
	"github.com/idemsk/idemsk/schema"
)

// Format is the schema.Format of Protobuf. Values are decoded into generated messages (*pb.Payment), whose
// type must have the name of the one that was written, or into proto.Message, which is then a
// *dynamicpb.Message. Any other type is decoded from the JSON of the message, in which names are in
// lowerCamelCase.
type Format struct{}

// DataFormat implements schema.Format.
func (Format) DataFormat() string { return schema.Protobuf }

// file is the name of the compiled file.
const file = "idemsk-schema.proto"

// Compile implements schema.Format. A schema can import google/protobuf/*.proto, google/type/*.proto and
// confluent/*.proto without a reference.
func (Format) Compile(s *schema.Schema) (schema.Type, error) {
	sources := map[string]string{file: s.Text}
	for _, ref := range s.References {
		sources[ref.Name] = ref.Text
	}
	written, err := compileWritten(file, sources)
	if err != nil {
		return nil, err
	}
	t := &protoType{index: s.Index, limits: s.Limits, file: written, sorted: sorted(written.Messages()), types: typesOf(written)}
	if len(t.sorted) == 0 {
		return nil, errors.New("it has no message type")
	}
	return t, nil
}

// sorted returns all message types of a file by their full names. The entry types of maps are types as well.
func sorted(types protoreflect.MessageDescriptors) (all []protoreflect.MessageDescriptor) {
	for i := range types.Len() {
		all = append(all, types.Get(i))
		all = append(all, sorted(types.Get(i).Messages())...)
	}
	slices.SortFunc(all, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return all
}

type protoType struct {
	index  func(data []byte) (schema.Index, []byte, error)
	limits schema.Limits
	file   protoreflect.FileDescriptor
	sorted []protoreflect.MessageDescriptor
	types  *dynamicpb.Types // of the file and its imports
}

// written returns the type of a message, and the message without its index.
func (t *protoType) written(data []byte) (protoreflect.MessageDescriptor, []byte, error) {
	index, message, err := t.index(data)
	if err != nil {
		return nil, nil, err
	}
	found, err := t.messageType(index)
	return found, message, err
}

func (t *protoType) messageType(index schema.Index) (found protoreflect.MessageDescriptor, err error) {
	if index.Path == nil {
		if index.Sorted >= len(t.sorted) {
			return nil, fmt.Errorf("the schema has no message type %d", index.Sorted)
		}
		return t.sorted[index.Sorted], nil
	}
	types := t.file.Messages()
	for _, place := range index.Path {
		if place < 0 || place >= types.Len() {
			return nil, fmt.Errorf("the schema has no message type %v", index.Path)
		}
		found = types.Get(place)
		types = found.Messages()
	}
	return found, nil
}

// Decode implements schema.Type.
func (t *protoType) Decode(data []byte, into any) error {
	written, message, err := t.written(data)
	if err != nil {
		return err
	}
	m := messageIn(into, written)
	if m == nil {
		out, err := t.toJSON(written, message)
		if err != nil {
			return err
		}
		return rawjson.Unmarshal(out, into)
	}
	if want := m.ProtoReflect().Descriptor().FullName(); want != written.FullName() {
		return fmt.Errorf("it is a %s, and the handler takes a %s", written.FullName(), want)
	}
	if err := (counting{meter: t.limits.Meter(), types: t.types}).all(message, written); err != nil {
		return err
	}
	if _, dynamic := m.(*dynamicpb.Message); dynamic {
		return proto.UnmarshalOptions{Resolver: t.types}.Unmarshal(message, m)
	}
	return proto.Unmarshal(message, m)
}

// FromJSON implements schema.Type. JSON does not name the message type: proto.Message is the first of the
// schema then.
func (t *protoType) FromJSON(data []byte, into any) error {
	m := messageIn(into, t.file.Messages().Get(0))
	if m == nil {
		return rawjson.Unmarshal(data, into)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		return fmt.Errorf("it is not the JSON of a %s %s", m.ProtoReflect().Descriptor().FullName(),
			position.FindString(err.Error()))
	}
	return nil
}

// position finds the position in an error of protojson, which also quotes the value.
var position = regexp.MustCompile(`\(line \d+:\d+\)`)

// messageIn returns the message that the pointer into points to, and makes it if that is a pointer or an
// interface. A message of a type that is not generated gets the given type. It returns nil if into does not
// point to a message.
func messageIn(into any, dynamic protoreflect.MessageDescriptor) proto.Message {
	if m, ok := into.(proto.Message); ok {
		return m
	}
	switch target := into.(type) {
	case *proto.Message:
		*target = dynamicpb.NewMessage(dynamic)
		return *target
	case **dynamicpb.Message:
		*target = dynamicpb.NewMessage(dynamic)
		return *target
	}
	target := reflect.ValueOf(into).Elem()
	if target.Kind() != reflect.Pointer {
		return nil
	}
	made := reflect.New(target.Type().Elem())
	m, ok := made.Interface().(proto.Message)
	if ok {
		target.Set(made)
	}
	return m
}

// ToJSON implements schema.Type. The fields of a message are in the order of the schema, and the entries of a
// map in that of their keys.
func (t *protoType) ToJSON(data []byte) ([]byte, error) {
	written, message, err := t.written(data)
	if err != nil {
		return nil, err
	}
	return t.toJSON(written, message)
}

// toJSON returns a message as JSON. A field has a member if the message has it, and, by the schema, if the
// message can't say that it lacks it: then its default, as of an int64 of proto3 without optional.
func (t *protoType) toJSON(written protoreflect.MessageDescriptor, message []byte) ([]byte, error) {
	if err := (counting{meter: t.limits.Meter(), types: t.types, json: true}).all(message, written); err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(written)
	if err := (proto.UnmarshalOptions{Resolver: t.types}).Unmarshal(message, m); err != nil {
		return nil, err
	}
	out, err := protojson.MarshalOptions{EmitDefaultValues: true, Resolver: t.types}.Marshal(m)
	if err != nil { // it quotes the value
		return nil, fmt.Errorf("it is a %s that has no JSON form%s", written.FullName(), withoutJSON(m, t.types))
	}
	// the library adds blanks in some builds of a program, and in others not
	var compact bytes.Buffer
	if err := json.Compact(&compact, out); err != nil {
		return nil, fmt.Errorf("it is a %s that has no JSON form", written.FullName())
	}
	return compact.Bytes(), nil
}

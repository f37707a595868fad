package proto

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// typesOf returns the types of a file and of its imports, by which a google.protobuf.Any is resolved.
func typesOf(file protoreflect.FileDescriptor) *dynamicpb.Types {
	files := new(protoregistry.Files)
	addFiles(files, file)
	return dynamicpb.NewTypes(files)
}

func addFiles(files *protoregistry.Files, file protoreflect.FileDescriptor) {
	if _, err := files.FindFileByPath(file.Path()); err == nil {
		return
	}
	_ = files.RegisterFile(file) // the names of compiled files differ
	for i := range file.Imports().Len() {
		addFiles(files, file.Imports().Get(i))
	}
}

// withoutJSON returns the first field of a message that has no JSON form, and why, but no value: ".at: a
// google.protobuf.Timestamp". It is empty if each field has one.
func withoutJSON(m protoreflect.Message, types *dynamicpb.Types) string {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			continue
		}
		if why := fieldWithoutJSON(field, m.Get(field), types); why != "" {
			return "." + string(field.Name()) + why
		}
	}
	if isWithoutJSON(m, types) {
		return fmt.Sprintf(": a %s", m.Descriptor().FullName())
	}
	return ""
}

func fieldWithoutJSON(field protoreflect.FieldDescriptor, value protoreflect.Value, types *dynamicpb.Types) (why string) {
	switch {
	case field.IsList():
		for i := range value.List().Len() {
			if why := valueWithoutJSON(field, value.List().Get(i), types); why != "" {
				return fmt.Sprintf("[%d]%s", i, why)
			}
		}
	case field.IsMap():
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			if why = valueWithoutJSON(field.MapKey(), key.Value(), types); why == "" {
				why = valueWithoutJSON(field.MapValue(), value, types)
			}
			return why == ""
		})
		if why != "" {
			return "{}" + why // the key is not quoted
		}
	default:
		return valueWithoutJSON(field, value, types)
	}
	return ""
}

func valueWithoutJSON(field protoreflect.FieldDescriptor, value protoreflect.Value, types *dynamicpb.Types) string {
	switch {
	case field.Message() != nil:
		return withoutJSON(value.Message(), types)
	case field.Kind() == protoreflect.StringKind && !utf8.ValidString(value.String()):
		return ": a string that is not UTF-8"
	}
	return ""
}

// isWithoutJSON reports whether a message whose fields all have a JSON form has none itself. Only some messages
// of Protobuf itself can be so.
func isWithoutJSON(m protoreflect.Message, types *dynamicpb.Types) bool {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Any", "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask":
		_, err := protojson.MarshalOptions{EmitDefaultValues: true, Resolver: types}.Marshal(m.Interface())
		return err != nil
	case "google.protobuf.Value":
		kind := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
		if kind == nil {
			return true
		}
		number, ok := m.Get(kind).Interface().(float64)
		return ok && (math.IsNaN(number) || math.IsInf(number, 0))
	}
	return false
}

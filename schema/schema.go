package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/kafka"
)

// The data formats, as events and registries name them.
const (
	JSON     = "JSON"
	Avro     = "AVRO"
	Protobuf = "PROTOBUF"
)

// Schema is a schema of a registry.
type Schema struct {
	// ID is its ID in the registry: a number or a GUID of Confluent's, a UUID of Glue's.
	ID string
	// DataFormat is Avro, Protobuf or JSON.
	DataFormat string
	// Text is the schema itself.
	Text string
	// References are the schemas that Text imports or names. Each stands after those that it refers to
	// itself.
	References []Reference
	// Index removes the index of the message type before a Protobuf message.
	Index func(data []byte) (index Index, message []byte, err error)
	// Limits bound the values that the Type decodes. A Decoder sets them, not the registry.
	Limits Limits
}

// Reference is a schema that another one refers to by a name: in Protobuf that of its file.
type Reference struct{ Name, Text string }

// Index identifies a message type of a Protobuf schema.
type Index struct {
	// Path has the place of the outermost type in its file, and of each nested type in the one around it. Nil
	// means that Sorted is used.
	Path []int
	// Sorted is the place of the type among all types of the file, nested ones included, by their full names.
	Sorted int
}

// Part is the value or the key of a record, as it is in the topic.
type Part struct {
	Data    []byte
	Key     bool           // otherwise it is the value
	Headers []kafka.Header // of the record
}

// HeaderID returns the name and the value of the header in which serializers of Confluent Platform 8 or later
// put the ID of the schema, if they are configured to put it there and not before the data. The value is nil if
// the record has no such header.
func (p Part) HeaderID() (name string, value []byte) {
	name = "__value_schema_id"
	if p.Key {
		name = "__key_schema_id"
	}
	for _, h := range p.Headers { // the last one counts
		if h.Key == name {
			value = h.Value
		}
	}
	return name, value
}

// Framed is a part of a record without its framing.
type Framed struct {
	// ID is that of the schema with which Payload was written.
	ID string
	// Payload is the encoded data.
	Payload []byte
	// Index is the index of the message type of Protobuf (see Schema.Index) if Payload does not begin with it,
	// because the ID is in a header; otherwise nil.
	Index []byte
}

// Registry is a schema registry. Its methods are called concurrently. String returns its name, for errors.
type Registry interface {
	fmt.Stringer
	// Unframe returns a part of a record without its framing.
	Unframe(p Part) (Framed, error)
	// Fetch returns a schema. It returns ErrUnknown (wrapped) if the registry answers that it has none with
	// this ID. After any other error the registry is taken to be unavailable.
	Fetch(ctx context.Context, id string) (*Schema, error)
}

// ErrUnknown means that a registry has no schema with an ID.
var ErrUnknown = errors.New("the registry has no schema with this ID")

// ErrNoSchema means that an answer has no schema. It comes from something else than the registry, such as a
// page to sign in, so that the registry is taken to be unavailable.
var ErrNoSchema = errors.New("the answer has no schema: is the address that of the registry?")

// Format compiles the schemas of a data format.
type Format interface {
	// DataFormat is the data format.
	DataFormat() string
	// Compile returns the type that a schema describes.
	Compile(s *Schema) (Type, error)
}

// Type decodes data that was written with one schema. Its methods are called concurrently.
type Type interface {
	// Decode decodes encoded data into the value that the pointer into points to.
	Decode(data []byte, into any) error
	// ToJSON returns encoded data as JSON.
	ToJSON(data []byte) ([]byte, error)
	// FromJSON decodes data that was converted to JSON into the value that the pointer into points to.
	FromJSON(data []byte, into any) error
}

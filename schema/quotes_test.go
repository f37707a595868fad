package schema_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/schema"
	avroformat "github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/internal/paymentpb"
	"github.com/idemsk/idemsk/schema/jsonschema"
	protoformat "github.com/idemsk/idemsk/schema/proto"
)

// The errors of data that does not fit name what it should be, but quote nothing of it.
func TestErrorsQuoteNoValue(t *testing.T) {
	const mark = 780511200733
	asInt := binary.AppendUvarint(nil, mark)
	byProto, payments := protoformat.Format{}, protoSchema(t)
	var number struct {
		Amount int8 `avro:"amount" json:"amount"`
	}
	long := binary.AppendVarint(nil, mark)
	text := func(s string) []byte { return append(binary.AppendVarint(nil, int64(len(s))), s...) }
	avroRecord := func(typ string) string {
		return `{"type":"record","name":"r","fields":[{"name":"amount","type":` + typ + `}]}`
	}
	const uuid, enum = `{"type":"string","logicalType":"uuid"}`, `{"type":"enum","name":"e","symbols":["A"]}`
	var uuids struct {
		Amount [16]byte `avro:"amount"`
	}
	var named map[string]any
	const wellKnown = `syntax = "proto3"; import "google/protobuf/timestamp.proto"; message m { google.protobuf.Timestamp at = 1; }`
	at := append([]byte{0x0a, 7, 0x08}, asInt...)
	for name, tc := range map[string]struct {
		format   schema.Format
		schema   string
		data     []byte
		fromJSON string
		into     any
		path     []int // of the message type
		says     string
	}{
		"Avro, too large": {avroformat.Format{}, avroRecord(`"long"`), long, "", &number, nil,
			"field amount: cannot use int8 with Avro type long"},
		"Avro, no UUID": {avroformat.Format{}, avroRecord(uuid), text("780511200733"), "", &uuids,
			nil, "amount"},
		"Avro, JSON, too large": {avroformat.Format{}, avroRecord(`"long"`), nil, `{"amount":780511200733}`,
			&number, nil, "amount"},
		"Avro, JSON, a text": {avroformat.Format{}, avroRecord(`"long"`), nil, `{"amount":"780511200733"}`,
			&number, nil, "amount"},
		"Avro, JSON, a symbol": {avroformat.Format{}, avroRecord(enum), nil, `{"amount":"780511200733"}`,
			&named, nil, "amount"},
		"Avro, JSON, malformed": {avroformat.Format{}, avroRecord(enum), nil, `{"amount":"A"} 780511200733`,
			&named, nil, "does not fit the schema"},
		"Protobuf, by JSON": {byProto, payments, append([]byte{0x10}, asInt...), "", &number, []int{1},
			"string"},
		"Protobuf, no JSON": {byProto, wellKnown, at, "", &named, []int{0},
			"it is a m that has no JSON form"},
		"Protobuf, JSON": {byProto, payments, nil, `{"amount":"780511200733x"}`, &paymentpb.Payment{},
			nil, "a bank.Payment (line 1:11)"},
		"Protobuf, JSON, any": {byProto, payments, nil, `{"amount":780511200733}`, &number, nil,
			"number into Go struct field .amount"},
		"JSON Schema": {jsonschema.Format{}, `{}`, []byte(`{"amount":780511200733}`), "", &number,
			nil, "number into Go struct field .amount"},
		"JSON Schema, JSON": {jsonschema.Format{}, `{}`, nil, `{"amount":780511200733}`, &number, nil,
			"number into Go struct field .amount"},
	} {
		t.Run(name, func(t *testing.T) {
			typ, err := tc.format.Compile(
				&schema.Schema{Text: tc.schema, Index: func(data []byte) (schema.Index, []byte, error) {
					return schema.Index{Path: tc.path}, data, nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			if tc.fromJSON != "" {
				err = typ.FromJSON([]byte(tc.fromJSON), tc.into)
			} else {
				err = typ.Decode(tc.data, tc.into)
			}
			text := fmt.Sprint(err)
			if err == nil || !strings.Contains(text, tc.says) || strings.Contains(text, "780511200733") ||
				strings.Contains(text, "7.805") {
				t.Errorf("%v; want %q and no value", err, tc.says)
			}
		})
	}
}

package schema_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
)

// FuzzDecode decodes any data with the schemas that are known. An error is permanent, and what can be decoded
// is JSON.
func FuzzDecode(f *testing.F) {
	r := newRegistries(f)
	var decoders []*schema.Decoder
	for _, registry := range []string{"Confluent", "Glue"} {
		decoders = append(decoders, r.decoder(schema.Config{Registry: r.of(registry, "")}))
		for format, ids := range confluentIDs {
			framed := frame(f, registry, format, 0, encode(f, format, aPayment("p-1")))
			f.Add(framed)
			f.Add(header(f, registry, ids[1]))
			if registry == "Glue" {
				f.Add(compressed(f, framed))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range decoders {
			record := &kafka.Record{Value: data}
			out, err := d.JSON(t.Context(), record)
			if idem.IsUnavailable(err) || err == nil && out != nil && !json.Valid(out) {
				t.Errorf("%x: %q, %v", data, out, err)
			}
			var p payment
			var m proto.Message
			for _, into := range []any{&p, &m} {
				if err := d.Decode(t.Context(), record, into); idem.IsUnavailable(err) {
					t.Errorf("%x: %v", data, err)
				}
			}
		}
	})
}

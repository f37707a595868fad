package schema_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/internal/paymentpb"
)

// BenchmarkDecode decodes a record of about 300 bytes, whose schema is known.
func BenchmarkDecode(b *testing.B) {
	r := newRegistries(b)
	run := func(name, registry, format string, decode func(d *schema.Decoder, r *kafka.Record) error) {
		b.Run(name+"/"+registry, func(b *testing.B) {
			d := r.decoder(schema.Config{Registry: r.of(registry, "")})
			record := &kafka.Record{Value: frame(b, registry, format, 0, encode(b, format, aPayment("p-1")))}
			b.SetBytes(int64(len(record.Value)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(d, record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	toJSON := func(d *schema.Decoder, r *kafka.Record) error {
		_,
			err := d.JSON(context.Background(), r)
		return err
	}
	for _, registry := range []string{"Confluent", "Glue"} {
		run("Avro", registry, schema.Avro, func(d *schema.Decoder, r *kafka.Record) error {
			var p payment
			return d.Decode(b.Context(), r, &p)
		})
		run("JSON, validated", registry, schema.JSON, func(d *schema.Decoder, r *kafka.Record) error {
			var p payment
			return d.Decode(b.Context(), r, &p)
		})
		run("Protobuf", registry, schema.Protobuf, func(d *schema.Decoder, r *kafka.Record) error {
			var p *paymentpb.Payment
			return d.Decode(b.Context(), r, &p)
		})
		run("Protobuf, dynamic", registry, schema.Protobuf, func(d *schema.Decoder, r *kafka.Record) error {
			var p proto.Message
			return d.Decode(b.Context(), r, &p)
		})
		run("Avro to JSON", registry, schema.Avro, toJSON)
		run("Protobuf to JSON", registry, schema.Protobuf, toJSON)
	}
}

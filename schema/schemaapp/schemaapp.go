// Package schemaapp runs a handler of decoded values as a function (app/lambda) or as a process
// (app/process):
//
//	func main() { lambda.StartFunc(schemaapp.Build(decoder, book)) }
//
//	func decoder(ctx context.Context, b *app.Base) (*schema.Decoder, error) {
//		cfg, err := b.AWS(ctx)
//		if err != nil {
//			return nil, err
//		}
//		return schema.New(schema.Config{Registry: glue.New(cfg), Formats: []schema.Format{avro.Format{}}})
//	}
package schemaapp

import (
	"context"
	"strings"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
)

// Build returns a app.Build of a schema.Handler. What IDEMSK_KEY and IDEMSK_FINGERPRINT take from parts of
// values (json:…, hash:…) is taken from the decoded values. With IDEMSK_KEY=key the key is
// schema.Decoder.RecordKey.
func Build[T, R any](
	decoder func(ctx context.Context, b *app.Base) (*schema.Decoder, error),
	f func(ctx context.Context, value T, r kafka.Record) (R, error),
) app.Build {
	return func(ctx context.Context, b *app.Base) (kafka.Handler, error) {
		d, err := decoder(ctx, b)
		if err != nil {
			return nil, err
		}
		DecodeParts(b, d)
		DecodeKey(b, d)
		return schema.Handler(d, f), nil
	}
}

// DecodeParts makes IDEMSK_KEY and IDEMSK_FINGERPRINT take parts of values from the decoded values.
func DecodeParts(b *app.Base, d *schema.Decoder) {
	records := &b.Config.Records
	if ofParts(b.Vars.String("IDEMSK_KEY", "")) {
		records.Key = kafka.OfValue(d.JSON, records.Key)
	}
	if ofParts(b.Vars.String("IDEMSK_FINGERPRINT", "")) {
		records.Fingerprint = kafka.OfValue(d.JSON, records.Fingerprint)
	}
}

// DecodeKey makes IDEMSK_KEY=key schema.Decoder.RecordKey.
func DecodeKey(b *app.Base, d *schema.Decoder) {
	if b.Vars.String("IDEMSK_KEY", "") == "key" {
		b.Config.Records.Key = d.RecordKey
	}
}

// ofParts reports whether the value of a variable names parts of values.
func ofParts(setting string) bool {
	return strings.HasPrefix(setting, "json:") || strings.HasPrefix(setting, "hash:")
}

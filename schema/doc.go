// Package schema decodes the values and keys of records that were written with a schema registry: Avro,
// Protobuf and JSON, in the framing of Confluent (package confluent) or of AWS Glue (package glue), or as
// Lambda's event source delivers them when it has a schema registry itself.
//
//	registry, err := confluent.New([]string{"https://registry.example.com"}, sr.BasicAuth(user, password))
//	decoder, err := schema.New(schema.Config{Registry: registry, Formats: []schema.Format{avro.Format{}, proto.Format{}}})
//	handler := schema.Handler(decoder, func(ctx context.Context, p Payment, r kafka.Record) (Receipt, error) { … })
//	key := kafka.OfValue(decoder.JSON, jsonKey) // a key by path is taken after decoding
//
// [kafka.Record] keeps the bytes of the topic: a dead letter contains them, and a redrive sends them back
// unchanged. The handler gets the decoded value beside the record. Package schemaapp does all of this for
// functions and processes that are configured by the environment.
//
// A record whose framing or data is invalid, whose schema the registry does not know, or whose schema does
// not fit the handler's type, can never succeed: it becomes a dead letter whose error names the schema. If
// the registry does not answer, refuses the credentials or fails, the error is marked by idem.Unavailable:
// the record is retried, and the attempt is not counted.
//
// A schema is fetched once, also by concurrent records, and kept: schemas do not change. A failure is kept
// for a short time, so that a batch does not wait for a silent registry once for each record.
package schema

package main

import (
	"encoding/json"
	"strings"
)

func formatSamples() []sample {
	return []sample{
		{
			name:    "self-managed-kafka",
			shows:   "A self-managed cluster: `eventSource` is `SelfManagedKafka`, no ARN",
			settles: "Executes it",
			event:   selfManaged(pay("self-managed-1", 1250).at(0, 4000)),
		},
		{
			name:    "schema-registry-json",
			shows:   "A schema registry with event format JSON: `keySchemaMetadata` and `valueSchemaMetadata`, of which the second record has the latter only",
			settles: "Executes 2; the handler sees the metadata",
			event:   msk(schemaRegistry()...),
		},
		{
			name:    "log-append-time",
			shows:   "A topic whose timestamps are the broker's",
			settles: "Executes it",
			event:   msk(logAppended(pay("log-append-time-1", 1250).at(0, 4200))),
		},
		{
			name:    "unknown-fields",
			shows:   "Fields in event and record that Lambda does not send today",
			settles: "Executes it, ignores them",
			event:   unknownFields(pay("unknown-fields-1", 1250).at(0, 4300)),
		},
		{
			name:    "tombstone-null",
			shows:   "A payment, then a tombstone: `value` is null",
			settles: "Executes the payment; a handler receives the tombstone as a null value; the example (msk.JSON) refuses it: dead letter, then FAILED",
			event: msk(
				pay("tombstone-null-1", 500).at(0, 4400),
				pay("tombstone-null-2", 0).at(0, 4401).withValue(null()),
			),
		},
		{
			name:    "tombstone-absent",
			shows:   "The same with no field `value` at all",
			settles: "As `tombstone-null`",
			event: msk(
				pay("tombstone-absent-1", 500).at(0, 4500),
				pay("tombstone-absent-2", 0).at(0, 4501).withValue(nil),
			),
		},
		{
			name:    "empty-value",
			shows:   "A value of no bytes, which is not a tombstone",
			settles: "The handler can't read it as JSON: permanent, so a dead letter, then FAILED",
			event:   msk(pay("empty-value-1", 0).at(0, 4600).withValue(encoded(""))),
		},
		{
			name:    "null-key",
			shows:   "Kafka record keys that are null and absent",
			settles: "Executes 2: the idempotency key is in the header",
			event: msk(
				pay("null-key-1", 410).at(0, 4700).withKey(null()),
				pay("null-key-2", 420).at(0, 4701).withKey(nil),
			),
		},
	}
}

func schemaRegistry() []record {
	valueSchema := &schema{DataFormat: "JSON", SchemaID: "3f0c8f5e-6d5b-4f0a-9a55-2d1f6f1f7b11"}

	both := pay("schema-registry-1", 1250).at(0, 4100).withKey(encoded(`{"account":"acc-1"}`))
	both.KeySchema = &schema{DataFormat: "JSON", SchemaID: "a1d0c2b4-77c8-4d0e-8b7a-5e9f4c3b2a10"}
	both.ValueSchema = valueSchema

	valueOnly := pay("schema-registry-2", 1350).at(0, 4101)
	valueOnly.ValueSchema = valueSchema
	return []record{both, valueOnly}
}

func logAppended(r record) record {
	r.TimestampType = logAppendTime
	return r
}

func unknownFields(r record) event {
	r.LeaderEpoch = json.RawMessage("7")
	r.Provenance = json.RawMessage(`{"region":"eu-central-1","hops":["a","b"]}`)
	e := msk(r)
	e.EventVersion = "2.0"
	return e
}

func headerSamples() []sample {
	return []sample{
		{
			name:    "signed-header-bytes",
			shows:   "A key with bytes over 127, which come as negative numbers, and a binary header",
			settles: "Executes it under the key `zahlung-köln-№1`",
			event: msk(pay("signed-header-bytes-1", 1250).at(0, 5000).withHeaders(headers(
				idempotencyKey("zahlung-köln-№1"),
				header{"checksum", []byte{118, 220, 0, 127, 128, 255}},
			))),
		},
		{
			name:    "duplicate-header-keys-same-value",
			shows:   "The key's header twice, with one value",
			settles: "Executes it",
			event: msk(pay("duplicate-header-1", 1250).at(0, 5100).withHeaders(headers(
				idempotencyKey("duplicate-header-1"),
				idempotencyKey("duplicate-header-1"),
			))),
		},
		{
			name:    "large-header",
			shows:   "A header of 8 KB in addition to the key's",
			settles: "Executes it",
			event: msk(pay("large-header-1", 1250).at(0, 5200).withHeaders(headers(
				idempotencyKey("large-header-1"),
				header{"baggage", []byte(strings.Repeat("tenant=eu;", 820))},
			))),
		},
		{
			name:    "hashed-keys",
			shows:   "A key longer than 1,024 bytes, and one that is not UTF-8",
			settles: "Executes 2; the store contains the SHA-256 of each",
			event: msk(
				pay("hashed-keys-1", 1250).as(strings.Repeat("long-", 300)).at(0, 5300),
				pay("hashed-keys-2", 1350).as("not-utf-8-\xff\xfe").at(0, 5301),
			),
		},
	}
}

// keylessSamples contain a record without an idempotency key each, and one with a key after it.
func keylessSamples() []sample {
	return []sample{
		{
			name:    "missing-key",
			shows:   "A record without the key's header, before one that has it",
			settles: "The first is a dead letter, stored under its place; executes the second",
			event: msk(
				pay("missing-key-1", 1250).at(0, 5400).withHeaders(headers(header{"content-type", []byte("application/json")})),
				pay("missing-key-2", 1350).at(0, 5401),
			),
		},
		{
			name:    "null-headers",
			shows:   "`headers` is null",
			settles: "No key: as in `missing-key`",
			event: msk(
				pay("null-headers-1", 1250).at(0, 5500).withHeaders(null()),
				pay("null-headers-2", 1350).at(0, 5501),
			),
		},
		{
			name:    "absent-headers",
			shows:   "No field `headers` at all",
			settles: "No key: as in `missing-key`",
			event: msk(
				pay("absent-headers-1", 1250).at(0, 5600).withHeaders(nil),
				pay("absent-headers-2", 1350).at(0, 5601),
			),
		},
	}
}

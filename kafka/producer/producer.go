// Package producer gives records of Kafka the idempotency keys by which idemsk's consumers recognise
// duplicates.
//
// A key identifies a request, and not a record: all attempts of an application to send one request need the
// same key, also after a crash. So a key is either derived from fields of the request that identify it
// ([Derive]), or made once ([New]) and stored with the request before the first attempt.
//
//	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.WithHooks(producer.Hook(func(r *kgo.Record) string {
//		return producer.Derive("payment", string(r.Key), reference(r.Value))
//	})))
package producer

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/uuid"
)

// Header is the name of the header with the key: kafka.DefaultKeyHeader, the default of all consumers.
const Header = "idempotency-key"

// New returns a new key: a UUID of version 7 (RFC 9562).
func New() string { return uuid.New() }

// Derive returns the key of a request that is identified by fields: a UUID of version 8 (RFC 9562), with the
// first 122 free bits of the SHA-256 of the fields. The first field should name the kind of request.
// Different lists of fields have different keys, because each field is hashed as a netstring: its length in
// bytes in decimal, a colon, the field, a comma. Derive panics without fields.
func Derive(fields ...string) string {
	if len(fields) == 0 {
		panic("producer: Derive has no fields: all requests would have one key")
	}
	var name []byte
	for _, f := range fields {
		name = append(strconv.AppendInt(name, int64(len(f)), 10), ':')
		name = append(append(name, f...), ',')
	}
	return uuid.Of(sha256.Sum256(name))
}

// Hook returns a hook of a client that sets the header of each record that has none, in upper or lower case,
// when the record is produced. It calls key from the goroutines that produce. If key returns an empty string,
// the record gets no header.
func Hook(key func(r *kgo.Record) string) kgo.Hook { return hook(key) }

type hook func(r *kgo.Record) string

var _ kgo.HookProduceRecordBuffered = hook(nil)

// OnProduceRecordBuffered implements kgo.HookProduceRecordBuffered.
func (key hook) OnProduceRecordBuffered(r *kgo.Record) {
	if slices.ContainsFunc(r.Headers, func(
		h kgo.RecordHeader) bool {
		return strings.EqualFold(h.Key, Header)
	}) {
		return
	}
	if k := key(r); k != "" {
		r.Headers = append(slices.Clip(r.Headers), kgo.RecordHeader{Key: Header, Value: []byte(k)})
	}
}

//go:build unix && !race

package schema_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
)

// budget prepares values of 1 MB, of schemas with which preparing takes much.
type budget struct {
	*testing.F
	registry string
	decoder  *schema.Decoder
	ids      []int
}

// newBudget returns a budget with the schemas of one data format.
func newBudget(f *testing.F, registry, format string) budget {
	f.Helper()
	r := newRegistries(f)
	b := budget{f, registry, r.decoder(schema.Config{Registry: r.of(registry, "")}), nil}
	for id, s := range seedHostile(r) {
		if s.Type.String() != format {
			continue
		}
		b.ids = append(b.ids, id)
		if _, err := b.decoder.JSON(f.Context(),
			&kafka.Record{Value: header(f, registry, id)}); idem.IsUnavailable(err) {
			// it fetches the schema
			f.Fatal(err)
		}
	}
	slices.Sort(b.ids)
	return b
}

// add adds a value of a schema: a unit n times between a head and a tail.
func (b budget) add(id int, head, unit, tail string, n uint32) {
	b.Add(byte(slices.Index(b.ids, id)), []byte(head), []byte(unit), []byte(tail), n)
}

// fuzz makes the key and the fingerprint of each value.
func (b budget) fuzz(compress bool) {
	b.Helper()
	key, err1 := kafka.JSONKey("$.id")
	fingerprint, err2 := kafka.JSONFingerprint("$.p")
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	keyOf, fingerprintOf := kafka.OfValue(b.decoder.JSON, key), kafka.OfValue(b.decoder.JSON, fingerprint)
	b.Fuzz(func(t *testing.T, which byte, head, unit, tail []byte, n uint32) {
		value := append(header(t, b.registry, b.ids[int(which)%len(b.ids)]),
			testkit.Repeated(head, unit, tail, n)...)
		if compress {
			value = compressed(t, append(value, bytes.Repeat([]byte(" "), 3_190_000)...))
		}
		r := &kafka.Record{Value: value}
		t.Logf("schema %d, %.40q %d times", b.ids[int(which)%len(b.ids)], unit, n)
		testkit.WithinBudget(t, func() { _, _ = keyOf(t.Context(), r) }) // most values have an error
		testkit.WithinBudget(t, func() { _, _ = fingerprintOf(t.Context(), r) })
	})
}

// BenchmarkBudget measures the time of values of 1 MB that take long: 100 ms of a core is what docs/schemas.md
// says.
func BenchmarkBudget(b *testing.B) {
	r := newRegistries(b)
	ids := seedHostile(r)
	decoder := r.decoder(schema.Config{Registry: r.of("Confluent", "")})
	for id, unit := range map[int]string{65: "\x0a\x12\x0a\x10abcdefghijklmnop", 68: `{"a":1,"b":"abc"},`} {
		b.Run(ids[id].Type.String(), func(b *testing.B) {
			head, tail := map[int]string{65: "\x00", 68: head}[id], map[int]string{68: tail}[id]
			value := append(header(b, "Confluent", id),
				testkit.Repeated([]byte(head), []byte(unit), []byte(tail), 33_000)...)
			for b.Loop() {
				_, _ = decoder.JSON(b.Context(), &kafka.Record{Value: value}) // an error beyond the limits
			}
		})
	}
}

// many is as often as the unit fits into 1 MB.
const many = 1_000_000

// FuzzAvroBudget prepares Avro of 1 MB.
func FuzzAvroBudget(f *testing.F) {
	b := newBudget(f, "Confluent", schema.Avro)
	list := func(items int64) string { return string(binary.AppendVarint(nil, items)) }
	for _, id := range b.ids {
		b.add(id, list(1<<40), "\x00", "\x00", many)
		for _, n := range []uint32{1900, 8000, 30_000, 45_000, 99_000} { // each item is a block of its own
			b.add(id, "", "\x02\x00", "\x00", n)
		}
	}
	b.add(64, "", "\x02\x0a\x02\x01\x80\x80\x08", "\x00", 1000)
	b.add(66, "", "\x02\x01", "\x00", 4000)
	b.add(67, "", "\x02", "\x00", many)
	b.add(67, "", "\x02", "\x00", 499)
	b.add(70, list(1_000_000), "\x01", "", many)
	b.add(71, "", "\x02\x10\x01\x01\x01\x01\x01\x01\x01\x01", "\x00", 99_000)
	b.add(72, "", "\x02\x02\x02a\x02\x02b\x00", "\x00", 33_000)
	b.fuzz(false)
}

// FuzzProtobufBudget prepares Protobuf of 1 MB.
func FuzzProtobufBudget(f *testing.F) {
	b := newBudget(f, "Confluent", schema.Protobuf)
	for unit, n := range map[string]uint32{
		"\x0a\x00": 49_000, "\x0a\x02\x12\x00": 24_000, "\x0a\x12\x0a\x10abcdefghijklmnop": 33_000,
		"\x22\x00": 49_000, "\x22\x05\x0a\x03abc": 33_000,
		"\x1a\x08abcdefgh": 99_000, "\x1a\x08\x01\x01\x01\x01\x01\x01\x01\x01": 99_000, "\x28\x00": 99_000,
		"\x2b": many,
	} {
		b.add(65, "\x00", unit, "", n)
		b.add(65, "\x00", unit, "", many)
	}
	b.add(73, "\x00", "\x0a\x00", "", 1800)
	b.add(73, "\x00", "\x0a\x00", "", many)
	packed := func(tag string, size uint64) string {
		return "\x00" + tag +
			string(binary.AppendUvarint(nil, size))
	}
	b.add(65, packed("\x12", 99_000), "\x01", "", 99_000)
	b.add(65, packed("\x12", 990_000), "\x81\x82\x83\x84\x85\x86\x87\x88\x89\x01", "", 99_000)
	b.add(65, packed("\x32", 792_000), "12345678", "", 99_000)
	b.fuzz(false)
}

const head, tail = `{"id":"k","p":[`, `0]}`

// FuzzJSONBudget prepares JSON of 1 MB that is validated.
func FuzzJSONBudget(f *testing.F) {
	b := newBudget(f, "Confluent", schema.JSON)
	for _, id := range b.ids {
		for unit, n := range map[string]uint32{
			"0,": 99_000, "123456.7,": 60_000, "1e1000,": 30_000, `"",`: 99_000, `{"a":1,"b":"abc"},`: 19_000,
			`{"":0},`: 49_000, "123456789012,": many,
		} {
			b.add(id, head, unit, tail, n)
			b.add(id, head, unit, tail, n/3)
		}
		b.add(id, `{"id":"k","p":"`, "ab", `"}`, many)
		b.add(id, strings.Repeat(`[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,`, 4000), " ",
			"0"+strings.Repeat("]", 4000), many)
	}
	b.fuzz(false)
}

// FuzzGlueBudget prepares JSON that is decompressed to 4 MB.
func FuzzGlueBudget(f *testing.F) {
	b := newBudget(f, "Glue", schema.JSON)
	for unit, n := range map[string]uint32{"0,": 99_000, `{"a":1,"b":"abc"},`: 33_000, " ": many,
		`"abcdefg",`: many, `{"":0},`: 49_000} {
		b.add(68, head, unit, tail, n)
	}
	b.add(68, `{"id":"k","p":"`, "ab", `"}`, many)
	b.fuzz(true)
}

// FuzzFramingBudget prepares any value of 1 MB, for each framing.
func FuzzFramingBudget(f *testing.F) {
	confluent, glue := newBudget(f, "Confluent", schema.Protobuf), newBudget(f, "Glue", schema.Protobuf)
	for _, unit := range []string{"\x00", "\x02", "\x80", "\xff"} { // also as the index of a message type
		for _, b := range []budget{confluent, glue} {
			f.Add(header(f, b.registry, 65), []byte(unit), []byte(nil), uint32(many))
		}
	}
	bomb := compressed(f, append(header(f, "Glue", 65), make([]byte, 64<<20)...))
	f.Add(bomb, []byte(nil), []byte(nil), uint32(0))
	f.Add(bomb, []byte("a"), []byte(nil), uint32(many))
	f.Fuzz(func(t *testing.T, head, unit, tail []byte, n uint32) {
		r := &kafka.Record{Value: testkit.Repeated(head, unit, tail, n)}
		for _, b := range []budget{confluent, glue} {
			testkit.WithinBudget(t, func() { _, _ = b.decoder.JSON(t.Context(), r) })
		}
	})
}

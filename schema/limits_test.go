package schema_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
)

// hostileSchemas are of formats in which a few bytes stand for many elements.
var hostileSchemas = map[int]sr.Schema{
	60: {Schema: `{"type":"array","items":"null"}`},
	61: {Schema: `{"type":"array","items":{"type":"array","items":"null"}}`},
	62: {Schema: `{"type":"array","items":{"type":"map","values":"string"}}`},
	63: {Schema: `{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"a","type":"boolean"}` +
		strings.Repeat(`,{"name":"N","type":"null"}`, 50) + `]}}`},
	64: {Schema: `{"type":"array","items":{"type":"bytes","logicalType":"big-decimal"}}`},
	65: {Schema: `syntax = "proto3"; message P { repeated Q q = 1; repeated int64 n = 2; repeated string s = 3; map<string, Q> m = 4; repeated double d = 6; } ` +
		`message Q { string s = 1; Q q = 2; }`, Type: sr.TypeProtobuf},
	66: {Schema: `{"type":"array","items":{"type":"record","name":"` + strings.Repeat("N", 1000) +
		`","fields":[{"name":"` + strings.Repeat("n", 1000) + `","type":"boolean"}]}}`},
	67: {Schema: `{"type":"record","name":"Node","namespace":"x","fields":[{"name":"next","type":["null","Node"]}]}`},
	68: {Schema: `{}`, Type: sr.TypeJSON},
	70: {Schema: `{"type":"string"}`},
	71: {Schema: `{"type":"array","items":"string"}`},
	72: {Schema: `{"type":"array","items":{"type":"map","values":["null","string"]}}`},
	73: {Schema: `syntax = "proto3"; message P { repeated Q q = 1; } message Q {` + manyFields(50) + ` }`, Type: sr.TypeProtobuf},
	80: {Schema: `{"properties":{"p":{"items":{"properties":{"a":{"type":"integer","minimum":0},"b":{"pattern":"^[a-z]*$"}}}}}}`, Type: sr.TypeJSON},
	81: {Schema: `{"uniqueItems":true,"items":{"$ref":"#"},"properties":{"p":{"$ref":"#"}}}`,
		Type: sr.TypeJSON},
	82: {Schema: `{"properties":{"p":{"items":{"anyOf":[{"multipleOf":0.1},{"enum":[1,2,3,"a"]}]},"pattern":"(a?){400}c","format":"regex"}}}`, Type: sr.TypeJSON},
	84: {Schema: `{"properties":{"p":{"items":{"properties":{"b":{"pattern":"^(?=.*[a-z])[a-z0-9]+$"}},"pattern":"^(?!x)"}}}}`, Type: sr.TypeJSON},
	83: {Schema: `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"p":{"allOf":[{"contains":{"const":1}},{}],"unevaluatedItems":false}}}`, Type: sr.TypeJSON},
}

// manyFields returns fields of a message, which JSON has also if they are not encoded.
func manyFields(n int) (fields string) {
	for i := range n {
		fields += fmt.Sprintf(" int64 field%d = %d;", i, i+1)
	}
	return fields
}

// seedHostile adds hostileSchemas to both registries, and returns them.
func seedHostile(r *registries) map[int]sr.Schema {
	seeded := make(map[int]sr.Schema)
	for id, s := range hostileSchemas {
		for i := range 51 { // the names of fields differ
			s.Schema = strings.Replace(s.Schema, `"N"`,
				`"f`+string(rune('A'+i%26))+string(rune('A'+i/26))+`"`, 1)
		}
		r.confluent.SeedSchema("hostile", id, id, s)
		r.glue.Seed(glueID(id), s.Type.String(), s.Schema)
		seeded[id] = s
	}
	return seeded
}

// A value that would grow beyond the limits is refused before it is decoded: for its key, and for its
// handler.
func TestValuesBeyondTheLimitsAreNotDecoded(t *testing.T) {
	r := newRegistries(t)
	seedHostile(r)
	block := func(items int64, data []byte) []byte { return append(binary.AppendVarint(nil, items), data...) }
	zeros := make([]byte, 1_000_000)
	const elements, size = "100000 elements (schema.Limits.MaxElements)", "8388608 (schema.Limits.MaxBytes)"
	for name, tc := range map[string]struct {
		registry string
		id       int
		data     []byte
		says     string
	}{
		"2^40 nulls":     {"Confluent", 60, append(block(1<<40, nil), 0), elements},
		"the most nulls": {"Confluent", 60, append(block(math.MinInt64, nil), 0, 0), "does not fit"},
		"lists of nulls": {"Confluent", 61,
			append(block(100, bytes.Repeat(append(block(4000, nil), 0), 100)), 0), elements},
		"empty maps": {"Confluent", 62, append(block(1_000_000, zeros), 0), elements},
		"a block an item": {"Confluent", 71, append(bytes.Repeat([]byte("\x02\x02a"), 30_000), 0),
			elements},
		"records of nulls": {"Confluent", 63, append(block(1_000_000, zeros), 0), elements},
		"zeros of decimals": {"Confluent", 64,
			append(block(1000, bytes.Repeat([]byte("\x0a\x02\x01\x80\x80\x08"), 1000)), 0), size},
		"empty messages": {"Confluent", 65,
			append([]byte{0}, bytes.Repeat([]byte{0x0a, 0}, 500_000)...), elements},
		"defaults of messages": {"Confluent", 73,
			append([]byte{0}, bytes.Repeat([]byte{0x0a, 0}, 2000)...), elements},
		"packed numbers": {"Confluent", 65, append([]byte{0, 0x12, 0xc0, 0x84, 0x3d}, zeros...),
			elements},
		"unknown fields": {"Confluent", 65,
			append([]byte{0}, bytes.Repeat([]byte{0x28, 0}, 500_000)...), elements},
		"groups in each other": {"Confluent", 65, append([]byte{0}, bytes.Repeat([]byte{0x2b}, 500_000)...),
			"deeper than 1000"},
		"long names":           {"Confluent", 66, append(block(9000, zeros[:9000]), 0), size},
		"values in each other": {"Confluent", 67, bytes.Repeat([]byte{2}, 500_000), "deeper than 1000"},
		"items of JSON": {"Confluent", 68, []byte("[" + strings.Repeat("0,", 400_000) + "0]"),
			elements},
		"size of JSON": {"Confluent", 68,
			[]byte(`"` + strings.Repeat("a", schema.DefaultMaxBytes) + `"`), size},
		"what is decompressed": {"Glue", 68, bytes.Repeat([]byte(" "), 64<<20),
			"4194304 bytes (glue.Registry.MaxInflated)"},
		"items, decompressed": {"Glue", 68, []byte("[" + strings.Repeat("0,", 400_000) + "0]"), elements},
	} {
		t.Run(name, func(t *testing.T) {
			d := r.decoder(schema.Config{Registry: r.of(tc.registry, "")})
			value := append(header(t, tc.registry, tc.id), tc.data...)
			if tc.registry == "Glue" {
				value = compressed(t, value)
			}
			record := &kafka.Record{Value: value}
			var into any
			if err := d.Decode(t.Context(), record, &into); !refused(err, tc.says) {
				t.Errorf("Decode: %v; want %q", err, tc.says)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := d.JSON(t.Context(), record)
			runtime.ReadMemStats(&after)
			if !refused(err, tc.says) {
				t.Errorf("JSON: %v; want %q", err, tc.says)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
				t.Errorf("it took %d bytes of memory", allocated)
			}
		})
	}
}

func refused(err error, says string) bool {
	return err != nil && idem.IsPermanent(err) && strings.Contains(err.Error(), says)
}

// The limits can be set, and a value that has them exactly is decoded. JSON that an event source has
// converted is within them, too.
func TestLimitsAreConfigured(t *testing.T) {
	r := newRegistries(t)
	d := r.decoder(schema.Config{Registry: r.of("Confluent", ""),
		Limits: schema.Limits{MaxElements: 3, MaxBytes: 13}})
	source := &kafka.Schema{ID: "30", DataFormat: schema.JSON}
	for data, says := range map[string]string{
		`["[,{\",",2]`: "", `[1,2,[0,1]]`: "more than 3 elements", `"0123456789AB"`: "the limit is 13",
	} {
		r := &kafka.Record{Value: []byte(data), ValueSchema: source}
		var into any
		out, err := d.JSON(t.Context(), r)
		decoded := d.Decode(t.Context(), r, &into)
		if says == "" && (err != nil || decoded != nil || string(out) != data) || says != "" &&
			(!refused(err, says) || !refused(decoded, says)) {
			t.Errorf("%s: %s, %v, %v; want %q", data, out, err, decoded, says)
		}
	}
}

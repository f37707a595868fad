//go:build unix && !race

package kafka_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka"
)

// FuzzBudget prepares JSON of 1 MB, most of which is one unit many times.
func FuzzBudget(f *testing.F) {
	const head, tail = `{"id":"k","p":[`, `0]}`
	for _, unit := range []string{
		"0,", "[],", "{},", `{"":0},`, `{"a":0,"b":0},`, `"",`, "1e20,", "1.5e300,", `{"id":{"p":[]}},`,
		`{"id":0,"id":0},`,
		strings.Repeat("[", 50) + strings.Repeat("]", 50) + ",",
		strings.Repeat(`{"":`, 50) + "0" + strings.Repeat("}", 50) + ",",
	} {
		f.Add([]byte(head), []byte(unit), []byte(tail), uint32(1_000_000))
		// with most, about the limit of elements
		f.Add([]byte(head), []byte(unit), []byte(tail), uint32(99_000/strings.Count(unit, ",")))
	}
	for _, unit := range []string{`\u00e9`, `\u0001`, `<`, "\xff", `\ud83d\ude00`} {
		f.Add([]byte(head+`"`), []byte(unit), []byte(`",`+tail), uint32(1_000_000))
	}
	f.Add([]byte(`{"id":1`), []byte("0"), []byte(`}`), uint32(1_000_000))
	f.Add([]byte(`{"p":0`), []byte(`,"p":0`), []byte("}"), uint32(1_000_000))
	f.Add([]byte(strings.Repeat(`{"b":0,"a":`, 9000)), []byte(" "), []byte("0"+strings.Repeat("}", 9000)),
		uint32(1_000_000))
	f.Add(members(90_000, 0), []byte(nil), []byte(`"":0}}`), uint32(1_000_000))
	f.Add(members(900, 1000), []byte(nil), []byte(`"":0}}`), uint32(1_000_000))
	ways := preparing(f)
	f.Fuzz(func(t *testing.T, head, unit, tail []byte, n uint32) {
		r := &kafka.Record{Value: testkit.Repeated(head, unit, tail, n)}
		for _, way := range []string{"a path and a part", "a hash of a part"} { // the ones that do the most
			t.Log(way)
			testkit.WithinBudget(t, func() { _ = ways[way](r) }) // most values have an error
		}
	})
}

// BenchmarkBudget measures the time of values of 1 MB that take long: 100 ms of a core is what docs/schemas.md
// says.
func BenchmarkBudget(b *testing.B) {
	for name, value := range map[string][]byte{
		"objects":   testkit.Repeated([]byte(`{"id":"k","p":[`), []byte(`{"a":0,"b":0},`), []byte(`0]}`), 49_000),
		"members":   append(members(90_000, 0), `"":0}}`...),
		"long text": testkit.Repeated([]byte(`{"id":"k","p":["`), []byte(`\u00e9`), []byte(`",0]}`), 1_000_000),
	} {
		for way, prepare := range preparing(b) {
			b.Run(name+"/"+way, func(b *testing.B) {
				for b.Loop() {
					_ = prepare(&kafka.Record{Value: value}) // an error beyond the limits
				}
			})
		}
	}
}

// members begins a value in which p has many members, whose names are not sorted and begin with the same long
// prefix.
func members(n, prefix int) []byte {
	const step = 7919 // a prime: all names differ
	value := bytes.NewBufferString(`{"id":1,"p":{`)
	for i := range n {
		fmt.Fprintf(value, `"%s%05d":0,`, strings.Repeat("a", prefix), i*step%n)
	}
	return value.Bytes()
}

package msk

import (
	"reflect"
	"testing"

	"github.com/idemsk/idemsk/kafka"
)

// TestSlicesAreCapped appends to every slice of an event, which must not reach its neighbours.
func TestSlicesAreCapped(t *testing.T) {
	payload := typicalEvent(100)
	event, want := mustDecode(t, payload), mustDecode(t, payload)
	for _, p := range event.Partitions {
		_ = append(p, Record{Topic: "clobbered"})
		for j := range p {
			r := &p[j]
			_ = append(r.Key, "clobbered"...)
			_ = append(r.Value, "clobbered"...)
			_ = append(r.Headers, kafka.Header{Key: "clobbered"})
			_ = append(r.Headers[0].Value, "clobbered"...)
		}
	}
	if !reflect.DeepEqual(event, want) {
		t.Error("appending to one slice of the event changed another")
	}
}

func TestSchemasAreNotShared(t *testing.T) {
	const schema = `"valueSchemaMetadata":{"schemaId":"1","dataFormat":"AVRO"}`
	records := mustDecode(t, eventOf(`{"offset":1,`+schema+`},{"offset":2,`+schema+`}`)).Partitions[0]
	records[0].ValueSchema.ID = "2"
	if got := records[1].ValueSchema.ID; got != "1" {
		t.Errorf("changing the schema of one record changed that of another to %q", got)
	}
}

// TestAllocations holds the number of allocations where the slabs have brought it; the times are a
// benchmark's.
func TestAllocations(t *testing.T) {
	const records = 1_000
	payload := typicalEvent(records)
	if n := testing.AllocsPerRun(5, func() { mustDecode(t, payload) }); n > records/10 {
		t.Errorf("%.0f allocations for %d records, want at most one for ten of them", n, records)
	}
	record := mustDecode(t, payload).Partitions[0][0]
	n := testing.AllocsPerRun(100, func() {
		for value := range record.Header("idempotency-key") {
			if len(value) != 20 {
				t.Fatal("not the header")
			}
		}
	})
	if n > 0 {
		t.Errorf("%.0f allocations to look up a header, want none", n)
	}
}

package layercall

import (
	"testing"

	"github.com/idemsk/idemsk/lambda/msk"
)

// FuzzEvent finds every record of the strict decoder in the event of which the function gets its parts.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0,"offset":1,"timestamp":5,"timestampType":"CREATE_TIME","value":"YQ=="}]}}`))
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-00":[{"topic":"t","partition":0,"offset":1}],"t-0":[{"topic":"t","partition":0,"offset":1}]}}`))
	f.Add([]byte(`{"eventSource":"SelfManagedKafka","records":{"t-1":[{"topic":"t","partition":1,"offset":2,"headers":[{"h":[1,-2]}]},{"topic":"t","partition":1,"offset":"x"}]}}`))
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0,"offset":1,"Offset":2}]}}`))
	f.Add([]byte(`{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0,"offset":1,"offset":2}]}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		strict, err := msk.Decode(payload)
		if err != nil {
			return
		}
		inv, err := readRecords(payload)
		if err != nil {
			return // the invocation fails, and its records are delivered again
		}
		n := 0
		for _, p := range strict.Partitions {
			for i := range p {
				n++
				if r := &p[i]; r.Undecodable == nil && inv.records[placeOf(r)] == nil {
					t.Fatalf("%s has %s, which the function would not get", payload, r.Source())
				}
			}
		}
		if n != len(inv.kafka.Records) {
			t.Fatalf("%s has %d records; the function would get %d", payload, n, len(inv.kafka.Records))
		}
	})
}

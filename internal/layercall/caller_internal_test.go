package layercall

import (
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/kafka"
)

// Records of a lane stay together and in order, whatever is called at once. An event that would be too large
// is divided, and a record that is too large is alone.
func TestDivisionIntoCalls(t *testing.T) {
	t.Parallel()
	const room = 400 // of an event with two small records
	for _, tc := range []struct {
		order   kafka.Order
		calls   int
		most    int
		records string // PARTITION/KEY each, in the order of offsets
		want    string // offsets: calls by commas, sequences of calls by blanks
	}{
		{kafka.ByKey, 1, 1 << 20, "0/a 0/b 1/a", "012"},
		{kafka.ByKey, 2, 1 << 20, "0/a 0/b 0/a 1/a 0/b 0/c", "023 145"},
		{kafka.ByKey, 2, 1 << 20, "0/ 0/ 0/", "02 1"}, // without a Kafka key
		{kafka.ByKey, 9, 1 << 20, "0/a 0/b", "0 1"},
		{kafka.ByPartition, 2, 1 << 20, "0/a 0/b 1/a 0/c 1/c", "013 24"},
		{kafka.Unordered, 2, 1 << 20, "0/a 0/a 0/a", "02 1"},
		{kafka.ByKey, 1, room, "0/a 0/a 0/a 0/a 0/a", "01,23,4"},
		{kafka.ByKey, 1, 10, "0/a 0/a 0/b", "0,1,2"},
		{kafka.ByKey, 1, room, "0/a 0/" + strings.Repeat("x", room) + " 0/a 0/a", "0,1,23"},
	} {
		c := &Caller{Calls: tc.calls, Order: tc.order, MaxEvent: tc.most}
		var rs []kafka.RecordAttempt
		for i, text := range strings.Fields(tc.records) {
			partition, key, _ := strings.Cut(text, "/")
			r := &kafka.Record{Topic: "t", Partition: int32(partition[0] - '0'), Offset: int64(i),
				TimestampType: "CREATE_TIME", Key: []byte(key)}
			if key == "" {
				r.Key = nil
			}
			rs = append(rs, kafka.RecordAttempt{Record: r})
		}
		var sequences []string
		for _, sequence := range c.divide(rs) {
			var calls []string
			for _, p := range sequence {
				var offsets strings.Builder
				for i, place := range p.places {
					fmt.Fprint(&offsets, place)
					if p.rs[i].Record.Offset != int64(place) || p.records[i].Offset != int64(place) {
						t.Errorf("%s: the record at %d has the offset %d", tc.records, place,
							p.records[i].Offset)
					}
				}
				calls = append(calls, offsets.String())
			}
			sequences = append(sequences, strings.Join(calls, ","))
		}
		if got := strings.Join(sequences, " "); got != tc.want {
			t.Errorf("%v, %d calls, events of %d, %s: %s; want %s", tc.order, tc.calls, tc.most, tc.records,
				got, tc.want)
		}
	}
}

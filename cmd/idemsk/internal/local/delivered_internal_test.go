package local

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// A record is shown decoded; what is no text is shown in base64, and a long value is cut.
func TestShownRecord(t *testing.T) {
	t.Parallel()
	record := esm.NewRecord(&kgo.Record{Topic: "payments", Partition: 2, Offset: 3, Key: []byte("alice"),
		Value: []byte{0xff, 0}, Headers: []kgo.RecordHeader{{Key: "n", Value: []byte("ä")}, {Key: "b", Value: []byte{0xff}}}})
	got := shownRecordOf(&record)
	got.At = 0
	want := console.Delivered{Place: "payments-2@3", KafkaKey: "alice", Value: "hex ff00",
		Headers: []console.Header{{Name: "n", Value: "ä"}, {Name: "b", Value: "hex ff"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
	record = esm.NewRecord(&kgo.Record{Topic: "payments", Value: make([]byte, 1<<16)})
	if n := len(shownRecordOf(&record).Value); n != 4096 {
		t.Errorf("%d bytes of a value are shown", n)
	}
	record.JSON = []byte("{")
	if got := shownRecordOf(&record).Value; got != "{" {
		t.Errorf("a record that can't be decoded is shown as %q", got)
	}
}

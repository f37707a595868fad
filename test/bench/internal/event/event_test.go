package event_test

import (
	"testing"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/test/bench/internal/event"
)

func TestEventsAreWhatTheMappingDelivers(t *testing.T) {
	keys := make(map[string]bool)
	for _, name := range []string{"one", "two"} {
		decoded, err := msk.Decode(event.New(name, 10, 4))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(decoded.Partitions); got != event.Partitions {
			t.Errorf("%d partitions; want %d", got, event.Partitions)
		}
		accounts := make(map[string]bool)
		for _, p := range decoded.Partitions {
			for i := range p {
				r := &p[i]
				key, err := kafka.HeaderKey(event.KeyHeader)(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if want := int64(i); r.Offset != want {
					t.Errorf("partition %d: offset %d; want %d", r.Partition, r.Offset, want)
				}
				keys[key] = true
				accounts[string(r.Key)] = true
			}
		}
		if len(accounts) != 4 {
			t.Errorf("%d Kafka keys; want 4", len(accounts))
		}
	}
	if len(keys) != 20 {
		t.Errorf("%d idempotency keys in two events of 10 records; want 20", len(keys))
	}
}

func TestASmallEventHasNoEmptyPartitions(t *testing.T) {
	decoded, err := msk.Decode(event.New("cold", 1, 1))
	if err != nil || len(decoded.Partitions) != 1 {
		t.Errorf("%+v, %v; want one partition", decoded, err)
	}
}

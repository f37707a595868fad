package kafka_test

import (
	"testing"

	"github.com/idemsk/idemsk/kafka"
)

// An unknown type of timestamps is none of those that have a timestamp.
func TestTimestampTypes(t *testing.T) {
	t.Parallel()
	for kind, want := range map[int8]string{
		0: "CREATE_TIME", 1: "LOG_APPEND_TIME", -1: "NO_TIMESTAMP_TYPE", 2: "NO_TIMESTAMP_TYPE",
	} {
		if got := kafka.TimestampTypeOf(kind); got != want {
			t.Errorf("%d is %s, want %s", kind, got, want)
		}
	}
}

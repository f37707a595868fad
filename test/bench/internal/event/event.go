// Package event makes the events that the benchmark delivers, as Lambda's event source mapping for Amazon MSK
// writes them.
package event

import (
	"fmt"
	"strconv"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// Partitions is how many partitions the records of an event are spread over.
const Partitions = 3

// KeyHeader is the header that holds a record's idempotency key.
const KeyHeader = "idempotency-key"

// New returns the payload of an event of payments. All its idempotency keys are distinct, and so are those of
// two events with different names. The records have as many different Kafka keys as there are accounts.
func New(name string, records, accounts int) []byte {
	messages := make([]mskevent.Message, 0, records)
	for i := range records {
		account := "account-" + strconv.Itoa(i%accounts)
		key := fmt.Sprintf("%s-%d", name, i)
		value := fmt.Sprintf(`{"paymentId":%q,"account":%q,"amount":1250,"currency":"EUR"}`, key, account)
		messages = append(messages, mskevent.Message{
			Topic: "payments", Partition: int32(i % Partitions), Offset: int64(i / Partitions),
			Timestamp: 1767225600000, TimestampType: "CREATE_TIME",
			Key: []byte(account), Value: []byte(value),
			Headers: []mskevent.Header{{Key: KeyHeader, Value: []byte(key)}},
		})
	}
	return mskevent.MSK("arn:aws:kafka:us-east-1:000000000000:cluster/bench/1",
		"b-1.bench.invalid:9098").Messages(messages...)
}

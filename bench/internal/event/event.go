// Package event makes the events that the benchmark delivers, as Lambda's event source mapping for Amazon MSK writes them.
package event

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Partitions is how many partitions the records of an event are spread over.
const Partitions = 3

// KeyHeader is the header that holds a record's idempotency key.
const KeyHeader = "idempotency-key"

// New returns the payload of an event of payments. All its idempotency keys are distinct, and so are those of two events
// with different names. The records have as many different Kafka keys as there are accounts.
func New(name string, records, accounts int) []byte {
	var parts [Partitions]strings.Builder
	for i := range records {
		part := &parts[i%Partitions]
		if part.Len() > 0 {
			part.WriteByte(',')
		}
		account := "account-" + strconv.Itoa(i%accounts)
		key := fmt.Sprintf("%s-%d", name, i)
		value := fmt.Sprintf(`{"paymentId":%q,"account":%q,"amount":1250,"currency":"EUR"}`, key, account)
		fmt.Fprintf(part, `{"topic":"payments","partition":%d,"offset":%d,"timestamp":1767225600000,"timestampType":"CREATE_TIME",`+
			`"key":%q,"value":%q,"headers":[{%q:%s}]}`, i%Partitions, i/Partitions, encode(account), encode(value), KeyHeader, signed(key))
	}
	var out strings.Builder
	out.WriteString(`{"eventSource":"aws:kafka","eventSourceArn":"arn:aws:kafka:us-east-1:000000000000:cluster/bench/1",` +
		`"bootstrapServers":"b-1.bench.invalid:9098","records":{`)
	first := true
	for p := range parts {
		if parts[p].Len() == 0 {
			continue
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		fmt.Fprintf(&out, `"payments-%d":[%s]`, p, parts[p].String())
	}
	out.WriteString("}}")
	return []byte(out.String())
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// signed writes the bytes of a header as Java's signed bytes, as the event source mapping does.
func signed(s string) string {
	numbers := make([]string, len(s))
	for i := range len(s) {
		numbers[i] = strconv.Itoa(int(int8(s[i])))
	}
	return "[" + strings.Join(numbers, ",") + "]"
}

package layercall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// A record whose producer has written headers of the names that idemsk adds comes to the function with those
// of its attempt alone, on each way, and without any if it is handled without protection.
func TestHeadersOfAProducer(t *testing.T) {
	t.Parallel()
	const headers = `{"idemsk-token":[57]},{"trace":[49]},{"Idemsk-Token":[57]},{"IDEMSK-ATTEMPT":[57],"more":[50]},` +
		`{"idemsk-attempt":[57]}`
	const kafkaEvent = `{"eventSource":"aws:kafka","records":{"t-0":[{"topic":"t","partition":0,"offset":1,` +
		`"timestamp":5,"timestampType":"CREATE_TIME","value":"YQ==","headers":[` + headers + `]}]}}`
	const queueEvent = `{"Records":[{"messageId":"m-1","body":"a","eventSource":"aws:sqs",` +
		`"eventSourceARN":"arn:aws:sqs:us-east-1:000000000000:payments","messageAttributes":{` +
		`"idemsk-token":{"stringValue":"9","dataType":"Number"},"trace":{"stringValue":"1","dataType":"String"},` +
		`"Idemsk-Token":{"stringValue":"9","dataType":"Number"},"more":{"stringValue":"2","dataType":"String"},` +
		`"IDEMSK-ATTEMPT":{"stringValue":"9","dataType":"Number"}}}]}`
	of := func(a idem.Attempt, r kafka.Record) []kafka.RecordAttempt {
		return []kafka.RecordAttempt{{Record: &r, Attempt: a}}
	}
	inEvent := func(event string) kafka.Record {
		decoded, err := msk.Decode([]byte(event))
		if err != nil {
			t.Fatal(err)
		}
		return decoded.Partitions[0][0]
	}
	for way, event := range map[string]func(a idem.Attempt) (event []byte, err error){
		"the layer on Kafka": func(a idem.Attempt) ([]byte, error) {
			all, err := readRecords([]byte(kafkaEvent))
			if err != nil {
				return nil, err
			}
			return all.event(of(a, inEvent(kafkaEvent)), false)
		},
		"the layer on SQS": func(a idem.Attempt) ([]byte, error) {
			all, err := readMessages([]byte(queueEvent))
			if err != nil {
				return nil, err
			}
			decoded, err := sqs.Decode([]byte(queueEvent))
			if err != nil {
				return nil, err
			}
			return all.event(of(a, decoded.Records[0]), false)
		},
		"a process": func(a idem.Attempt) (event []byte, err error) {
			c := &Caller{MaxEvent: 1 << 20, Runtime: func(_ context.Context, got []byte) ([]byte, error) {
				event = got
				return nil, nil
			}}
			_, err = c.Many(t.Context(), of(a, inEvent(kafkaEvent)))
			return event, err
		},
	} {
		for want, a := range map[string]idem.Attempt{
			"idemsk-attempt=2 idemsk-token=17 more=2 trace=1": {Token: 17, Number: 2},
			"more=2 trace=1": {},
		} {
			event, err := event(a)
			if err != nil {
				t.Fatal(err)
			}
			if got := headersIn(t, event); got != want {
				t.Errorf("%s: headers %s, want %s, in %s", way, got, want, event)
			}
		}
	}
}

// headersIn returns the headers of a record, or the attributes of a message, sorted.
func headersIn(t *testing.T, event []byte) string {
	t.Helper()
	var all []string
	if sqs.IsEvent(event) {
		var of struct {
			Records []struct {
				MessageAttributes map[string]struct{ StringValue string }
			}
		}
		if err := json.Unmarshal(event, &of); err != nil {
			t.Fatal(err)
		}
		for name, a := range of.Records[0].MessageAttributes {
			all = append(all, name+"="+a.StringValue)
		}
	} else {
		decoded, err := msk.Decode(event)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range decoded.Partitions[0][0].Headers {
			all = append(all, fmt.Sprintf("%s=%s", h.Key, h.Value))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

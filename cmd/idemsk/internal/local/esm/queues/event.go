package queues

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// The parts of ARNs.
const (
	region = "us-east-1"
	prefix = "arn:aws:sqs:" + region + ":000000000000:"
)

// event returns the event of messages as Lambda writes it.
func event(queue string, batch []types.Message) []byte {
	records := make([]map[string]any, len(batch))
	for i := range batch {
		m := &batch[i]
		attributes := make(map[string]any, len(m.MessageAttributes))
		for name, a := range m.MessageAttributes {
			attribute := map[string]any{"dataType": a.DataType, "stringListValues": []string{},
				"binaryListValues": []string{}}
			if a.StringValue != nil {
				attribute["stringValue"] = a.StringValue
			}
			if a.BinaryValue != nil {
				attribute["binaryValue"] = a.BinaryValue
			}
			attributes[name] = attribute
		}
		records[i] = map[string]any{
			"messageId": m.MessageId, "receiptHandle": m.ReceiptHandle, "body": m.Body,
			"attributes": m.Attributes, "messageAttributes": attributes, "md5OfBody": m.MD5OfBody,
			"eventSource": "aws:sqs", "eventSourceARN": prefix + queue, "awsRegion": region,
		}
	}
	out, _ := json.Marshal(map[string]any{"Records": records}) // strings and bytes encode
	return out
}

// failures returns the IDs of the messages that an answer names.
func failures(answer []byte, batch []types.Message) (map[string]bool, error) {
	has := make(map[string]bool, len(batch))
	for i := range batch {
		has[*batch[i].MessageId] = true
	}
	named := make(map[string]bool)
	_, err := mskevent.ItemsBy(mskevent.MessageID, answer, func(id string) bool { return has[id] },
		func(id string, _ map[string]json.RawMessage) { named[id] = true })
	if err != nil {
		return nil, err
	}
	return named, nil
}

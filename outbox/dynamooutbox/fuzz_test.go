package dynamooutbox_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// FuzzDecode reads an item of two events with any values. Either it is refused, or both events are pending
// unless they are parked.
func FuzzDecode(f *testing.F) {
	f.Add("t#k", "t", []byte("k"), "1", "e1", "e2", []byte("v"), "h", "e1", "")
	f.Add("", "", []byte{}, "x", "", "e", []byte{}, "", "", "e")
	f.Add("a", "t", []byte(nil), "9223372036854775807", "e", "e", []byte(nil), "h", "e", "e")
	f.Fuzz(func(t *testing.T, of, topic string, key []byte, created, id1, id2 string, value []byte, header,
		parked, requeued string) {
		text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
		event := func(id string) types.AttributeValue {
			h := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"key": text(header),
				"value": &types.AttributeValueMemberB{Value: value}}}
			return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
				"id": text(id), "value": &types.AttributeValueMemberB{Value: value},
				"headers": &types.AttributeValueMemberL{Value: []types.AttributeValue{h}},
			}}
		}
		av := map[string]types.AttributeValue{
			"aggregate": text(of), "id": text(id1), "topic": text(topic),
			"key":       &types.AttributeValueMemberB{Value: key},
			"createdAt": &types.AttributeValueMemberN{Value: created},
			"events":    &types.AttributeValueMemberL{Value: []types.AttributeValue{event(id1), event(id2)}},
		}
		if parked != "" {
			av["parked"], av["failure"] = &types.AttributeValueMemberSS{Value: []string{parked}}, text("no")
			av["parkedAt"], av["attempts"] = &types.AttributeValueMemberN{Value: created},
				&types.AttributeValueMemberN{Value: "1"}
		}
		if requeued != "" {
			av["requeued"] = &types.AttributeValueMemberSS{Value: []string{requeued}}
		}
		it, err := dynamooutbox.Decode(av)
		if err != nil {
			if !errors.Is(err, dynamooutbox.ErrNotAnItem) || it.Aggregate != of || it.Events != nil {
				t.Fatalf("%+v, %v", it, err)
			}
			return
		}
		pending := make(map[string]bool)
		for _, e := range it.Pending() {
			pending[e.ID] = true
			if e.Topic != topic || string(e.Key) != string(key) || string(e.Value) != string(value) ||
				len(e.Headers) != 1 || e.Headers[0].Key != header {
				t.Fatalf("%+v", e)
			}
		}
		for _, id := range []string{id1, id2} {
			if want := id != parked && (requeued == "" || id == requeued); pending[id] != want {
				t.Errorf("%q is pending: %t; want %t (parked %q, requeued %q)", id, pending[id], want, parked,
					requeued)
			}
		}
	})
}

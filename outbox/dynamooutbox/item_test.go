package dynamooutbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// The error for an invalid item names the attribute and the key.
func TestDecodeNames(t *testing.T) {
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	list := func(v ...types.AttributeValue) types.AttributeValue { return &types.AttributeValueMemberL{Value: v} }
	object := func(m map[string]types.AttributeValue) types.AttributeValue {
		return &types.AttributeValueMemberM{Value: m}
	}
	valid := func() map[string]types.AttributeValue {
		return map[string]types.AttributeValue{
			"aggregate": str("t#k"), "id": str(firstID), "topic": str("t"),
			"createdAt": &types.AttributeValueMemberN{Value: "1"},
			"events":    list(object(map[string]types.AttributeValue{"id": str(firstID)})),
		}
	}
	if _, err := dynamooutbox.Decode(valid()); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		attribute string
		value     types.AttributeValue
		want      string
	}{
		"no topic":           {"topic", nil, "attribute topic is a <nil>"},
		"a key that is text": {"key", str("k"), "attribute key"},
		"no events":          {"events", list(), "attribute events"},
		"an event that is text": {"events", list(str("x")),
			"in it a *types.AttributeValueMemberS: want a map"},
		"an event without ID": {"events", list(object(nil)), "of its attribute events: its attribute id"},
		"headers that are text": {"events",
			list(object(map[string]types.AttributeValue{"id": str("x"), "headers": str("x")})),
			"attribute headers"},
		"a header without name": {
			"events", list(object(map[string]types.AttributeValue{"id": str("x"),
				"headers": list(object(nil))})), "attribute key",
		},
		"a time that is none": {"createdAt", &types.AttributeValueMemberN{Value: "1.5"},
			"attribute createdAt"},
		"parked, of another type": {"parked", str("x"), "attribute parked"},
		"parked, without a reason": {"parked", &types.AttributeValueMemberSS{Value: []string{firstID}},
			"attribute parkedAt"},
	} {
		av := valid()
		av[tc.attribute] = tc.value
		if tc.value == nil {
			delete(av, tc.attribute)
		}
		it, err := dynamooutbox.Decode(av)
		if !errors.Is(err, dynamooutbox.ErrNotAnItem) || !strings.Contains(err.Error(), tc.want) ||
			it.Aggregate != "t#k" || it.ID != firstID || it.Events != nil {
			t.Errorf("%s: %+v, %v; want %q", name, it, err, tc.want)
		}
	}
}

package dynamostore

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// sizeOf returns the size of an item in bytes, as DynamoDB counts it. Numbers count one byte per digit, which
// is slightly too much.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
func sizeOf(item map[string]types.AttributeValue) int {
	n := 0
	for name, v := range item {
		n += len(name) + sizeOfValue(v)
	}
	return n
}

// The overhead in bytes of a list or a map, and of each element.
const (
	sizeOfNesting = 3
	sizeOfElement = 1
)

func sizeOfValue(v types.AttributeValue) int {
	n := 0
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			n += len(s)
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			n += len(s)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			n += len(b)
		}
	case *types.AttributeValueMemberL:
		n = sizeOfNesting
		for _, e := range v.Value {
			n += sizeOfElement + sizeOfValue(e)
		}
	case *types.AttributeValueMemberM:
		n = sizeOfNesting + sizeOfElement*len(v.Value) + sizeOf(v.Value)
	default: // a boolean or null
		return 1
	}
	return n
}

package main

import (
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// isOurs reports whether a record of the stream is an item to be sent: a new or requeued one. Other records
// are the relay's own updates, and expired items.
func isOurs(r *events.DynamoDBEventRecord) bool {
	switch events.DynamoDBOperationType(r.EventName) {
	case events.DynamoDBOperationTypeInsert:
		return true
	case events.DynamoDBOperationTypeModify:
		_, requeued := r.Change.NewImage[dynamooutbox.AttrRequeuedAt]
		return requeued
	case events.DynamoDBOperationTypeRemove:
	}
	return false
}

// attributes converts an image to the SDK's type.
func attributes(image map[string]events.DynamoDBAttributeValue) map[string]types.AttributeValue {
	av := make(map[string]types.AttributeValue, len(image))
	for name, v := range image {
		av[name] = attribute(v)
	}
	return av
}

func attribute(v events.DynamoDBAttributeValue) types.AttributeValue {
	switch v.DataType() {
	case events.DataTypeString:
		return &types.AttributeValueMemberS{Value: v.String()}
	case events.DataTypeNumber:
		return &types.AttributeValueMemberN{Value: v.Number()}
	case events.DataTypeBinary:
		return &types.AttributeValueMemberB{Value: v.Binary()}
	case events.DataTypeStringSet:
		return &types.AttributeValueMemberSS{Value: v.StringSet()}
	case events.DataTypeMap:
		return &types.AttributeValueMemberM{Value: attributes(v.Map())}
	case events.DataTypeList:
		list := make([]types.AttributeValue, len(v.List()))
		for i, e := range v.List() {
			list[i] = attribute(e)
		}
		return &types.AttributeValueMemberL{Value: list}
	case events.DataTypeBoolean, events.DataTypeBinarySet, events.DataTypeNumberSet, events.DataTypeNull:
		// not used in the outbox's items
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

package main

import (
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// isOurs reports whether a record of the stream is an item that is to be sent: a new one, or one that was requeued. The others
// are what the relay itself notes on items, and what expires.
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

// attributes returns an image as the SDK has it.
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
	case events.DataTypeBoolean, events.DataTypeBinarySet, events.DataTypeNumberSet, events.DataTypeNull: // not in our items
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

package dynamostore

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// PartiQL, as BatchExecuteStatement takes it. What our statements need of the language:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html and ql-reference.update.html

// insertStatement writes an item where there is none with its key.
func insertStatement(table string, item map[string]types.AttributeValue) types.BatchStatementRequest {
	var b strings.Builder
	b.Grow(320)
	b.WriteString(`INSERT INTO "` + table + `" VALUE {`)
	parameters := make([]types.AttributeValue, 0, len(item))
	for i, attr := range slices.Sorted(maps.Keys(item)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("'" + attr + "':?")
		parameters = append(parameters, item[attr])
	}
	b.WriteByte('}')
	text := b.String()
	return types.BatchStatementRequest{Statement: &text, Parameters: parameters}
}

// statement is a change of the item with this key. Names are quoted, since some of ours are reserved words.
func (c *change) statement(table, key string) types.BatchStatementRequest {
	var b strings.Builder
	b.Grow(512)
	parameters := make([]types.AttributeValue, 0, len(c.sets)+len(c.conditions)+1)
	add := func(text string, av types.AttributeValue) {
		b.WriteString(text)
		parameters = append(parameters, av)
	}
	b.WriteString(`UPDATE "` + table + `"`)
	for _, t := range c.sets {
		b.WriteString(` SET "` + t.attr + `"=`)
		if t.op == subtract {
			b.WriteString(`"` + t.attr + `"-`)
		}
		add("?", t.value)
	}
	for _, attr := range c.removes {
		b.WriteString(` REMOVE "` + attr + `"`)
	}
	add(` WHERE "`+AttrKey+`"=?`, &types.AttributeValueMemberS{Value: key})
	for _, t := range c.conditions {
		b.WriteString(` AND "` + t.attr + `"`)
		switch t.op {
		case absent:
			b.WriteString(" IS MISSING")
		case atMost:
			add("<=?", t.value)
		case equal, subtract:
			add("=?", t.value)
		}
	}
	text := b.String()
	return types.BatchStatementRequest{
		Statement: &text, Parameters: parameters, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

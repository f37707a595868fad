package dynamostore

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/store"
)

// The PartiQL of BatchExecuteStatement is specified at
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html and
// ql-reference.update.html

// insertStatement returns the statement that writes an entry if its key does not exist.
func insertStatement(table string, entry *store.Entry) types.BatchStatementRequest {
	list := attributes(entry)
	var b strings.Builder
	b.Grow(320)
	b.WriteString(`INSERT INTO "` + table + `" VALUE {`)
	parameters := make([]types.AttributeValue, len(list))
	for i, a := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\'')
		b.WriteString(a.name)
		b.WriteString("':?")
		parameters[i] = a.value
	}
	b.WriteByte('}')
	statement := b.String()
	return types.BatchStatementRequest{Statement: &statement, Parameters: parameters}
}

// statement returns the change as an UPDATE of the item with this key. Names are quoted, because some are
// reserved words.
func (c *change) statement(table, key string) types.BatchStatementRequest {
	var b strings.Builder
	b.Grow(512)
	parameters := make([]types.AttributeValue, 0, len(c.sets)+len(c.conditions)+1)
	write := func(parts ...string) {
		for _, part := range parts {
			b.WriteString(part)
		}
	}
	write(`UPDATE "`, table, `"`)
	for _, t := range c.sets {
		write(` SET "`, t.attr, `"=`)
		if t.op == subtract {
			write(`"`, t.attr, `"-`)
		}
		write("?")
		parameters = append(parameters, t.value)
	}
	for _, attr := range c.removes {
		write(` REMOVE "`, attr, `"`)
	}
	write(` WHERE "` + AttrKey + `"=?`)
	parameters = append(parameters, text(key))
	for _, t := range c.conditions {
		write(` AND "`, t.attr, `"`)
		switch t.op {
		case absent:
			write(" IS MISSING")
			continue
		case atMost:
			write("<=?")
		case equal, subtract:
			write("=?")
		}
		parameters = append(parameters, t.value)
	}
	statement := b.String()
	return types.BatchStatementRequest{
		Statement: &statement, Parameters: parameters,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

package dynamofake_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

// statements sends a batch of random statements on different keys: a batch that names a key twice is refused
// as a whole; only DynamoDB Local performs it.
func (p *pair) statements(t *rapid.T) {
	in := &dynamodb.BatchExecuteStatementInput{}
	for _, k := range rapid.Permutation(keys()).Draw(t,
		"keys")[:rapid.IntRange(1, len(keys())).Draw(t, "statements")] {
		in.Statements = append(in.Statements, p.statement(t, k))
	}
	p.both(t, in, func(db *dynamodb.Client) result {
		out, err := db.BatchExecuteStatement(context.Background(), in)
		if err != nil {
			return outcome(nil, nil, err)
		}
		var parts []string
		for _, r := range out.Responses {
			part := aws.ToString(r.TableName)
			if r.Error != nil {
				part = fmt.Sprintf("%s %q %s", r.Error.Code, statementFault(aws.ToString(r.Error.Message)),
					refusing(r.Error.Item))
			}
			parts = append(parts, part)
		}
		return result{answer: strings.Join(parts, "; ")}
	})
}

// statementFault is the compared part of a message. If there are two errors, DynamoDB may report either.
func statementFault(message string) string {
	if isEvaluationFault(message) {
		return "cannot be evaluated"
	}
	return message
}

// refusing formats an item that refused a statement. DynamoDB Local omits the type of an empty map in it.
func refusing(it attributes) string { return strings.ReplaceAll(text(it), "M:{}", "unknown") }

// statement draws an INSERT or an UPDATE of a key, sometimes with too few parameters or on a missing table.
func (p *pair) statement(t *rapid.T, k string) types.BatchStatementRequest {
	table := p.table
	if oneIn(t, 30, "elsewhere") {
		table += "-nowhere"
	}
	st := &partiql{}
	if rapid.Bool().Draw(t, "insert") {
		st.insert(t, table, k)
	} else {
		st.update(t, table, k)
	}
	if oneIn(t, 30, "too few") && len(st.parameters) > 1 {
		st.parameters = st.parameters[1:]
	}
	return types.BatchStatementRequest{
		Statement: aws.String(st.text.String()), Parameters: st.parameters,
		ReturnValuesOnConditionCheckFailure: returnOnFailure(t),
	}
}

// partiql is an incomplete statement.
type partiql struct {
	text       strings.Builder
	parameters []types.AttributeValue
}

func (st *partiql) parameter(v types.AttributeValue) string {
	st.parameters = append(st.parameters, v)
	return "?"
}

func (st *partiql) insert(t *rapid.T, table, k string) {
	it := itemOf(t)
	fmt.Fprintf(&st.text, `INSERT INTO "%s" VALUE {'k': %s`, table, st.parameter(str(k)))
	for _, name := range []string{"a", "b", "c", "count", "status"} {
		if v, ok := it[name]; ok {
			fmt.Fprintf(&st.text, `, '%s':%s`, name, st.parameter(v))
		}
	}
	st.text.WriteString("}")
}

func (st *partiql) update(t *rapid.T, table, k string) {
	fmt.Fprintf(&st.text, `UPDATE "%s"`, table)
	for _, name := range rapid.Permutation([]string{"a", "b", "c", "count", "status"}).Draw(t,
		"names")[:rapid.IntRange(1, 3).Draw(t, "actions")] {
		switch rapid.IntRange(0, 3).Draw(t, "action") {
		case 0:
			fmt.Fprintf(&st.text, ` REMOVE "%s"`, name)
		case 1:
			fmt.Fprintf(&st.text, ` SET "%s"="%s"%s%s`, name, name,
				rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign"), st.parameter(num(numberOf(t))))
		default:
			fmt.Fprintf(&st.text, ` SET "%s"=%s`, name, st.parameter(valueOf(t, 1)))
		}
	}
	fmt.Fprintf(&st.text, ` WHERE "k"=%s`, st.parameter(str(k)))
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		st.text.WriteString(" AND " + st.condition(t, 1))
	}
}

func (st *partiql) condition(t *rapid.T, depth int) string {
	name := rapid.SampledFrom([]string{"a", "b", "c", "count", "status"}).Draw(t, "attribute")
	switch n := rapid.IntRange(0, 7).Draw(t, "condition"); {
	case n == 0:
		return `"` + name + `" IS MISSING`
	case n == 1:
		return `"` + name + `" IS NOT MISSING`
	case n == 2 && depth > 0:
		left := st.condition(t, 0)
		return "(" + left + " OR " + st.condition(t, 0) + ")"
	case n == 3 && depth > 0:
		return "NOT (" + st.condition(t, 0) + ")"
	case n == 4:
		return `"` + name + `"<=` + st.parameter(num(numberOf(t)))
	case n == 5:
		return `"` + name + `">` + st.parameter(str("ab"))
	}
	return `"` + name + `"=` + st.parameter(
		rapid.SampledFrom([]types.AttributeValue{num("1"), num("2"), str("a"), str("ab"), num("10")}).Draw(t,
			"value"))
}

// batchGet reads some keys, some of which exist. For missing keys DynamoDB counts capacity units, and
// DynamoDB Local does not.
func (p *pair) batchGet(t *rapid.T) {
	wanted := types.KeysAndAttributes{ConsistentRead: aws.Bool(rapid.Bool().Draw(t, "consistent"))}
	for _, k := range rapid.SliceOfN(rapid.SampledFrom(append(keys(), "never", "nowhere")), 1, 5).Draw(t,
		"keys") {
		// now and then twice
		wanted.Keys = append(wanted.Keys, key(k))
	}
	in := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{p.table: wanted}}
	p.both(t, in, func(db *dynamodb.Client) result {
		out, err := db.BatchGetItem(context.Background(), in)
		if err != nil {
			return outcome(nil, nil, err)
		}
		found := make(map[string]string)
		for _, it := range out.Responses[p.table] {
			found[valueText(it["k"])] = text(it)
		}
		return result{answer: fmt.Sprint(found, len(out.UnprocessedKeys))}
	})
}

package dynamofake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

// pair is the fake and DynamoDB Local, each with the table of the same name.
type pair struct {
	local, fake *dynamodb.Client
	table       string
}

// result is the compared part of an answer.
type result struct{ code, message, answer string }

func (p *pair) clear(t *rapid.T) {
	for _, db := range []*dynamodb.Client{p.local, p.fake} {
		for _, k := range keys() {
			if _, err := db.DeleteItem(context.Background(),
				&dynamodb.DeleteItemInput{TableName: &p.table, Key: key(k)}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (p *pair) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"put":      p.put,
		"update":   p.update,
		"update2":  p.update, // the one with most to it
		"delete":   p.delete,
		"get":      p.get,
		"scan":     p.scan,
		"transact": p.transact,
		"partiql":  p.statements,
		"batchGet": p.batchGet,
		"":         p.sameItems,
	}
}

// both sends a request to both and compares the results.
func (p *pair) both(t *rapid.T, request any, run func(*dynamodb.Client) result) {
	local, fake := run(p.local), run(p.fake)
	if !sameMessage(local.message, fake.message) || local.code != fake.code || local.answer != fake.answer {
		t.Fatalf("%s\nlocal: %s %q %s\n fake: %s %q %s", render(request),
			local.code, local.message, local.answer, fake.code, fake.message, fake.answer)
	}
}

// sameMessage reports whether two messages have the same meaning. If an update expression has several errors,
// DynamoDB may report any of them.
func sameMessage(local, fake string) bool {
	for _, isOne := range []func(string) bool{isBindingFault, isEvaluationFault} {
		if isOne(local) && isOne(fake) {
			return true
		}
	}
	return withoutBounds(local) == withoutBounds(fake)
}

func isBindingFault(message string) bool {
	const update = "Invalid UpdateExpression: "
	return strings.HasPrefix(message, update) && !strings.HasPrefix(message, update+"Syntax error")
}

func isEvaluationFault(message string) bool {
	return slices.Contains([]string{
		"An operand in the update expression has an incorrect data type",
		"DynamoDB only supports precision up to 38 digits",
		"Number overflow. Attempting to store a number with magnitude larger than supported range",
		"The provided expression refers to an attribute that does not exist in the item",
	}, message)
}

// withoutBounds removes the operands from a message on BETWEEN, because DynamoDB Local repeats numbers in
// their original form.
func withoutBounds(message string) string {
	short, _, _ := strings.Cut(message, "; lower bound operand")
	return short
}

func render(request any) string {
	switch rq := request.(type) {
	case *dynamodb.PutItemInput:
		return fmt.Sprintf("PutItem %s if %s %v %s, return %s", text(rq.Item),
			aws.ToString(rq.ConditionExpression),
			rq.ExpressionAttributeNames, text(rq.ExpressionAttributeValues), rq.ReturnValues)
	case *dynamodb.UpdateItemInput:
		return fmt.Sprintf("UpdateItem %s %q if %q %v %s, return %s", text(rq.Key),
			aws.ToString(rq.UpdateExpression),
			aws.ToString(rq.ConditionExpression), rq.ExpressionAttributeNames,
			text(rq.ExpressionAttributeValues), rq.ReturnValues)
	case *dynamodb.DeleteItemInput:
		return fmt.Sprintf("DeleteItem %s if %q %v %s", text(rq.Key), aws.ToString(rq.ConditionExpression),
			rq.ExpressionAttributeNames, text(rq.ExpressionAttributeValues))
	case *dynamodb.ScanInput:
		return fmt.Sprintf("Scan %q %v %s", aws.ToString(rq.FilterExpression), rq.ExpressionAttributeNames,
			text(rq.ExpressionAttributeValues))
	case *dynamodb.BatchExecuteStatementInput:
		parts := []string{"BatchExecuteStatement"}
		for _, st := range rq.Statements {
			parts = append(parts, *st.Statement+" "+join(st.Parameters, valueText)+" "+
				string(st.ReturnValuesOnConditionCheckFailure))
		}
		return strings.Join(parts, "\n  ")
	case *dynamodb.BatchGetItemInput:
		return fmt.Sprintf("BatchGetItem %v", rq.RequestItems)
	case *dynamodb.TransactWriteItemsInput:
		parts := []string{"TransactWriteItems token " + aws.ToString(rq.ClientRequestToken)}
		for _, a := range rq.TransactItems {
			switch {
			case a.Put != nil:
				parts = append(parts, fmt.Sprintf("Put %s if %q", text(a.Put.Item),
					aws.ToString(a.Put.ConditionExpression)))
			case a.Update != nil:
				parts = append(parts, fmt.Sprintf("Update %s %q if %q", text(a.Update.Key),
					*a.Update.UpdateExpression,
					aws.ToString(a.Update.ConditionExpression)))
			case a.Delete != nil:
				parts = append(parts, fmt.Sprintf("Delete %s if %q", text(a.Delete.Key),
					aws.ToString(a.Delete.ConditionExpression)))
			default:
				parts = append(parts, fmt.Sprintf("Check %s if %q", text(a.ConditionCheck.Key),
					*a.ConditionCheck.ConditionExpression))
			}
		}
		return strings.Join(parts, "\n  ")
	}
	return fmt.Sprintf("%T", request)
}

// outcome is the result of a write: an error with its item, or the attributes and the capacity units.
func outcome(attributes attributes, capacity *types.ConsumedCapacity, err error) result {
	r := result{answer: text(attributes)}
	r.code, r.message = failure(err)
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		r.answer = text(failed.Item)
	}
	if capacity != nil {
		r.answer += fmt.Sprint(" for ", aws.ToFloat64(capacity.CapacityUnits))
	}
	return r
}

func (p *pair) put(t *rapid.T) {
	e := new(generated)
	in := &dynamodb.PutItemInput{
		TableName: &p.table, Item: itemOf(t), ConditionExpression: e.condition(t),
		ReturnValues: rapid.SampledFrom(
			[]types.ReturnValue{"", "NONE", "ALL_OLD"}).Draw(t, "return"),
		ReturnValuesOnConditionCheckFailure: returnOnFailure(t), ReturnConsumedCapacity: capacity(t),
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.finish(t)
	p.both(t, in, func(db *dynamodb.Client) result {
		out, err := db.PutItem(context.Background(), in)
		if err != nil {
			return outcome(nil, nil, err)
		}
		return outcome(out.Attributes, out.ConsumedCapacity, nil)
	})
}

func (p *pair) update(t *rapid.T) {
	e := new(generated)
	in := &dynamodb.UpdateItemInput{
		TableName: &p.table, Key: key(keyOf(t)), UpdateExpression: e.update(t),
		ConditionExpression: e.condition(t),
		ReturnValues: rapid.SampledFrom(
			append(types.ReturnValue("").Values(), "")).Draw(t, "return"),
		ReturnValuesOnConditionCheckFailure: returnOnFailure(t), ReturnConsumedCapacity: capacity(t),
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.finish(t)
	p.both(t, in, func(db *dynamodb.Client) result {
		out, err := db.UpdateItem(context.Background(), in)
		if err != nil {
			return outcome(nil, nil, err)
		}
		return outcome(out.Attributes, out.ConsumedCapacity, nil)
	})
}

func (p *pair) delete(t *rapid.T) {
	e := new(generated)
	in := &dynamodb.DeleteItemInput{
		TableName: &p.table, Key: key(keyOf(t)), ConditionExpression: e.condition(t),
		ReturnValues: rapid.SampledFrom(
			[]types.ReturnValue{"", "NONE", "ALL_OLD"}).Draw(t, "return"),
		ReturnValuesOnConditionCheckFailure: returnOnFailure(t),
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.finish(t)
	p.both(t, in, func(db *dynamodb.Client) result {
		out, err := db.DeleteItem(context.Background(), in)
		if err != nil {
			return outcome(nil, nil, err)
		}
		return outcome(out.Attributes, nil, nil) // DynamoDB Local reports a price that was not asked for
	})
}

func (p *pair) get(t *rapid.T) {
	in := &dynamodb.GetItemInput{
		TableName: &p.table, Key: key(keyOf(t)), ConsistentRead: aws.Bool(rapid.Bool().Draw(t, "consistent")),
		ReturnConsumedCapacity: capacity(t),
	}
	p.both(t, in, func(db *dynamodb.Client) result {
		out, err := db.GetItem(context.Background(), in)
		if err != nil {
			return outcome(nil, nil, err)
		}
		return outcome(out.Item, out.ConsumedCapacity, nil)
	})
}

// scan reads all pages. The items of a page depend on the order of the hashes, which differs. The items of
// all pages together, and the number of pages, are the same.
func (p *pair) scan(t *rapid.T) {
	e := new(generated)
	in := dynamodb.ScanInput{TableName: &p.table, FilterExpression: e.condition(t),
		ConsistentRead: aws.Bool(true)}
	if limit := rapid.Int32Range(0, 5).Draw(t, "limit"); limit > 0 {
		in.Limit = &limit
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.finish(t)
	p.both(t, &in, func(db *dynamodb.Client) result { return scanAll(db, in) })
}

func scanAll(db *dynamodb.Client, in dynamodb.ScanInput) result {
	var found []string
	pages, scanned := 0, int32(0)
	for {
		out, err := db.Scan(context.Background(), &in)
		if err != nil {
			return outcome(nil, nil, err)
		}
		pages++
		scanned += out.ScannedCount
		for _, it := range out.Items {
			found = append(found, text(it))
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			slices.Sort(found)
			return result{answer: fmt.Sprintf("%d pages, scanned %d: %s", pages, scanned, found)}
		}
	}
}

// sameItems is the invariant: both tables have the same items.
func (p *pair) sameItems(t *rapid.T) {
	in := dynamodb.ScanInput{TableName: &p.table, ConsistentRead: aws.Bool(true)}
	p.both(t, &in, func(db *dynamodb.Client) result { return scanAll(db, in) })
}

func (p *pair) transact(t *rapid.T) {
	in := &dynamodb.TransactWriteItemsInput{}
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(keys()), 1, 3, rapid.ID).Draw(t, "keys")
	for _, k := range chosen {
		in.TransactItems = append(in.TransactItems, p.action(t, k))
	}
	p.both(t, in, func(db *dynamodb.Client) result {
		_, err := db.TransactWriteItems(context.Background(), in)
		return cancellation(err)
	})
}

func (p *pair) action(t *rapid.T, k string) types.TransactWriteItem {
	e := new(generated)
	onFailure := returnOnFailure(t)
	switch verb := rapid.SampledFrom([]string{"Put", "Update", "Delete", "ConditionCheck"}).Draw(t,
		"verb"); verb {
	case "Put":
		a := &types.Put{TableName: &p.table, Item: itemOf(t), ConditionExpression: e.condition(t)}
		a.Item["k"] = str(k)
		a.ReturnValuesOnConditionCheckFailure = onFailure
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = e.finish(t)
		return types.TransactWriteItem{Put: a}
	case "Update":
		a := &types.Update{TableName: &p.table, Key: key(k), UpdateExpression: e.update(t),
			ConditionExpression: e.condition(t)}
		if a.UpdateExpression == nil {
			a.UpdateExpression = aws.String("REMOVE zz")
		}
		a.ReturnValuesOnConditionCheckFailure = onFailure
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = e.finish(t)
		return types.TransactWriteItem{Update: a}
	case "Delete":
		a := &types.Delete{TableName: &p.table, Key: key(k), ConditionExpression: e.condition(t)}
		a.ReturnValuesOnConditionCheckFailure = onFailure
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = e.finish(t)
		return types.TransactWriteItem{Delete: a}
	default:
		a := &types.ConditionCheck{TableName: &p.table, Key: key(k), ConditionExpression: e.condition(t)}
		if a.ConditionExpression == nil {
			a.ConditionExpression = aws.String("attribute_exists(k)")
		}
		a.ReturnValuesOnConditionCheckFailure = onFailure
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = e.finish(t)
		return types.TransactWriteItem{ConditionCheck: a}
	}
}

// cancellation reduces the result of a transaction to the part that both have in common. For what DynamoDB
// documents as a cancellation with the reason ValidationError, DynamoDB Local returns a validation error
// without other reasons.
func cancellation(err error) result {
	r := outcome(nil, nil, err)
	r.message = ""
	if r.answer = cancellationReasons(err); strings.Contains(r.answer, "ValidationError") {
		return result{code: "ValidationException"}
	}
	return r
}

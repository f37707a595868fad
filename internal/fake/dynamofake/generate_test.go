package dynamofake_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

func keys() []string { return []string{"k1", "k2", "k3", "k4"} }

// oneIn returns true for about one draw in n, and false for the simplest draw.
func oneIn(t *rapid.T, n int, label string) bool { return rapid.IntRange(1, n).Draw(t, label) == n }

func keyOf(t *rapid.T) string { return rapid.SampledFrom(keys()).Draw(t, "key") }

func returnOnFailure(t *rapid.T) types.ReturnValuesOnConditionCheckFailure {
	return rapid.SampledFrom([]types.ReturnValuesOnConditionCheckFailure{"", "NONE", "ALL_OLD"}).Draw(t,
		"onFailure")
}

func capacity(t *rapid.T) types.ReturnConsumedCapacity {
	return rapid.SampledFrom([]types.ReturnConsumedCapacity{"", "NONE", "TOTAL"}).Draw(t, "capacity")
}

func attributeName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "count", "status", "k"}).Draw(t, "attribute")
}

func itemOf(t *rapid.T) attributes {
	it := attributes{}
	for range rapid.IntRange(0, 5).Draw(t, "attributes") {
		it[attributeName(t)] = valueOf(t, 2)
	}
	it["k"] = str(keyOf(t))
	return it
}

// numberOf draws numbers that are often equal, and sometimes at the limits.
func numberOf(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"0", "1", "2", "-1", "1.0", "0.5", "-0.5", "10", "1e1", "100", "0.25",
			"1795217576129", "1795217576130"}),
		rapid.StringMatching(`-?[0-9]{1,5}(\.[0-9]{1,4})?`),
		rapid.SampledFrom([]string{"1e-130", "9e125", "-9e125", "99999999999999999999999999999999999999",
			"1e37", "0.1"}),
	).Draw(t, "number")
}

func valueOf(t *rapid.T, depth int) types.AttributeValue {
	kinds := []string{"S", "S", "N", "N", "N", "B", "BOOL", "NULL", "SS", "NS", "BS"}
	if depth > 0 {
		kinds = append(kinds, "L", "M")
	}
	short := rapid.SampledFrom([]string{"", "a", "ab", "abc", "b", "é", "\"\\\n<&>\u2028", "k1", "ba"})
	switch rapid.SampledFrom(kinds).Draw(t, "type") {
	case "S":
		if oneIn(t, 20, "long") {
			return str(strings.Repeat("x", rapid.IntRange(900, 9000).Draw(t, "length")))
		}
		return str(short.Draw(t, "S"))
	case "N":
		return num(numberOf(t))
	case "B":
		return bin(short.Draw(t, "B"))
	case "BOOL":
		return boolean(rapid.Bool().Draw(t, "BOOL"))
	case "NULL":
		return null()
	case "SS":
		return strs(rapid.SliceOfNDistinct(short, 1, 3, rapid.ID).Draw(t, "SS")...)
	case "NS":
		return nums(rapid.SliceOfNDistinct(rapid.StringMatching(`[1-9][0-9]?`), 1, 3, rapid.ID).Draw(t,
			"NS")...)
	case "BS":
		members := rapid.SliceOfNDistinct(short, 1, 3, rapid.ID).Draw(t, "BS")
		bytes := make([][]byte, len(members))
		for i := range members {
			bytes[i] = []byte(members[i])
		}
		return bins(bytes...)
	case "L":
		members := make([]types.AttributeValue, rapid.IntRange(0, 2).Draw(t, "L"))
		for i := range members {
			members[i] = valueOf(t, depth-1)
		}
		return list(members...)
	default:
		m := attributes{}
		for range rapid.IntRange(0, 2).Draw(t, "M") {
			m[attributeName(t)] = valueOf(t, depth-1)
		}
		return dict(m)
	}
}

// generated collects the placeholders of the expressions of one request.
type generated struct {
	names  names
	values attributes
}

// finish returns the placeholders, sometimes with an unused one.
func (e *generated) finish(t *rapid.T) (names, attributes) {
	if e.names != nil && oneIn(t, 40, "unused") {
		e.names["#unused"] = "a"
	}
	return e.names, e.values
}

func (e *generated) path(t *rapid.T) string {
	name := attributeName(t)
	reserved := name == "count" || name == "status"
	if oneIn(t, 60, "fault") {
		return rapid.SampledFrom([]string{"status", "#undefined", "Count"}).Draw(t, "name")
	}
	if reserved || rapid.Bool().Draw(t, "placeholder") {
		if e.names == nil {
			e.names = names{}
		}
		e.names["#"+name] = name
		return "#" + name
	}
	return name
}

func (e *generated) value(t *rapid.T) string {
	if oneIn(t, 80, "fault") {
		return ":undefined"
	}
	return e.valueFor(valueOf(t, 1))
}

func (e *generated) valueFor(v types.AttributeValue) string {
	if e.values == nil {
		e.values = attributes{}
	}
	placeholder := fmt.Sprintf(":v%d", len(e.values))
	e.values[placeholder] = v
	return placeholder
}

func (e *generated) operand(t *rapid.T) string {
	if rapid.Bool().Draw(t, "isValue") {
		return e.value(t)
	}
	return e.path(t)
}

// condition draws a condition, or none.
func (e *generated) condition(t *rapid.T) *string {
	if rapid.IntRange(0, 2).Draw(t, "hasCondition") == 0 {
		return nil
	}
	return aws.String(e.garble(t, e.test(t, 2)))
}

func (e *generated) test(t *rapid.T, depth int) string {
	forms := []string{"compare", "compare", "compare", "exists", "exists", "begins", "between", "in"}
	if depth > 0 {
		forms = append(forms, "and", "or", "not")
	}
	switch rapid.SampledFrom(forms).Draw(t, "form") {
	case "compare":
		op := rapid.SampledFrom([]string{"=", "=", "<>", "<", "<=", ">", ">="}).Draw(t, "op")
		return e.path(t) + " " + op + " " + e.operand(t)
	case "exists":
		return rapid.SampledFrom([]string{"attribute_exists", "attribute_not_exists"}).Draw(t, "function") +
			"(" + e.path(t) + ")"
	case "begins":
		return "begins_with(" + e.path(t) + ", " + e.operand(t) + ")"
	case "between":
		return e.path(t) + " BETWEEN " + e.operand(t) + " AND " + e.operand(t)
	case "in":
		list := make([]string, rapid.IntRange(1, 3).Draw(t, "listed"))
		for i := range list {
			list[i] = e.operand(t)
		}
		return e.path(t) + " IN (" + strings.Join(list, ", ") + ")"
	case "and":
		return e.test(t, depth-1) + " AND " + e.test(t, depth-1)
	case "or":
		return "(" + e.test(t, depth-1) + ") OR " + e.test(t, depth-1)
	default:
		return "NOT " + e.test(t, depth-1)
	}
}

// update draws an update expression, or none.
func (e *generated) update(t *rapid.T) *string {
	sections := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"SET", "REMOVE", "ADD"}), 0, 3,
		rapid.ID).Draw(t, "sections")
	if len(sections) == 0 {
		return nil
	}
	free := map[string]bool{"a": true, "b": true, "c": true, "count": true, "status": true}
	for i, section := range sections {
		var actions []string
		for range rapid.IntRange(1, 2).Draw(t, "actions") {
			actions = append(actions, e.action(t, section, free))
		}
		sections[i] = section + " " + strings.Join(actions, ", ")
	}
	return aws.String(e.garble(t, strings.Join(sections, " ")))
}

// action draws an action on an unused attribute, rarely on a used one.
func (e *generated) action(t *rapid.T, section string, free map[string]bool) string {
	choice := slices.Sorted(maps.Keys(free))
	if len(choice) == 0 || oneIn(t, 60, "overlap") {
		choice = []string{"a", "b"}
	}
	name := rapid.SampledFrom(choice).Draw(t, "target")
	delete(free, name)
	if e.names == nil {
		e.names = names{}
	}
	target := "#" + name
	e.names[target] = name
	switch section {
	case "REMOVE":
		return target
	case "ADD":
		if oneIn(t, 10, "wrong") {
			return target + " " + e.valueFor(str("no number"))
		}
		return target + " " + e.valueFor(num(numberOf(t)))
	}
	return target + " = " + e.assigned(t)
}

func (e *generated) assigned(t *rapid.T) string {
	operand := func(kinds ...string) string {
		switch rapid.SampledFrom(kinds).Draw(t, "operand") {
		case "value":
			return e.value(t)
		case "number":
			return e.valueFor(num(numberOf(t)))
		case "path":
			return e.path(t)
		default:
			return "if_not_exists(" + e.path(t) + ", " + e.valueFor(num(numberOf(t))) + ")"
		}
	}
	if op := rapid.SampledFrom([]string{"", "", " + ", " - "}).Draw(t, "operator"); op != "" &&
		!oneIn(t, 10, "anyType") {
		return operand("number", "path", "if_not_exists") + op + operand("number", "path", "if_not_exists")
	} else if op != "" {
		return operand("value") + op + operand("value")
	}
	return operand("value", "value", "path", "if_not_exists")
}

// garble returns the expression, sometimes with a token removed, repeated or inserted.
func (e *generated) garble(t *rapid.T, expression string) string {
	if !oneIn(t, 15, "garble") {
		return expression
	}
	tokens := strings.Fields(expression)
	at := rapid.IntRange(0, len(tokens)-1).Draw(t, "at")
	switch rapid.SampledFrom([]string{"drop", "double", "insert"}).Draw(t, "how") {
	case "drop":
		tokens = slices.Delete(tokens, at, at+1)
	case "double":
		tokens = slices.Insert(tokens, at, tokens[at])
	default:
		tokens = slices.Insert(tokens, at,
			rapid.SampledFrom([]string{"(", ")", "AND", "=", ",", "NOT", "a", "$", "<", "SET", "foo("}).Draw(
				t, "token"))
	}
	return strings.Join(tokens, " ")
}

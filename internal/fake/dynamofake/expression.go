package dynamofake

// The kinds of expressions, as spelled in DynamoDB's errors.
const (
	conditionExpression = "ConditionExpression"
	filterExpression    = "FilterExpression"
	updateExpression    = "UpdateExpression"
)

// expression is a parsed expression without the values of placeholders; see [bound]. It is immutable, and
// shared by all requests with the same text.
type expression struct {
	place     string   // one of the three above
	condition *node    // of a condition or filter
	actions   []action // of an update
	repeated  string   // the verb of an update that has more than one section
	paths     []string // the distinct attribute names and #placeholders, in the order of their first use
	values    []string // the distinct :placeholders, likewise
}

// node is an operand or a condition: an operator or function over its arguments. Leaves refer to the
// expression's paths or values by index.
type node struct {
	op            string // operator or function as the expression spells it, or opPath, opValue
	args          []*node
	slot          int // of a leaf: index into expression.paths or expression.values
	parenthesised bool
}

// The leaves. Their names can't be names of functions or operators.
const (
	opPath  = "#"
	opValue = ":"
)

// action is one assignment of an update expression.
type action struct {
	verb  string // SET, REMOVE or ADD
	path  *node
	value *node // nil for REMOVE
}

func (n *node) isLeaf() bool { return n.op == opPath || n.op == opValue }

func (n *node) isSum() bool { return n.op == "+" || n.op == "-" }

// isFunction reports whether the node is a function: names of operators are no identifiers.
func (n *node) isFunction() bool {
	return isLetter(n.op[0]) && !isKeyword(n.op)
}

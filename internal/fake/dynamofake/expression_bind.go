package dynamofake

import "slices"

// bound is an expression with the names and values of a request, indexed like those of the expression.
type bound struct {
	*expression
	names  []string
	values []*value
}

// bind adds the names and values of a request to an expression, and checks everything that depends on them.
func (e *expression) bind(s *substitutions) (*bound, error) {
	b := &bound{e, make([]string, len(e.paths)), make([]*value, len(e.values))}
	if e.condition != nil {
		return b, b.bindNode(e.condition, s)
	}
	for i, a := range e.actions {
		if err := b.bindAction(&a, s); err != nil {
			return nil, err
		}
		for _, other := range e.actions[:i] {
			if name := b.names[a.path.slot]; name == b.names[other.path.slot] {
				return nil, b.invalid("Two document paths overlap with each other; must remove or rewrite one of these paths; "+
					"path one: [%s], path two: [%s]", name, name)
			}
		}
	}
	return b, nil
}

func (b *bound) invalid(format string, args ...any) error {
	return invalid("Invalid "+b.place+": "+format, args...)
}

func (b *bound) bindAction(a *action, s *substitutions) error {
	if err := b.bindNode(a.path, s); err != nil {
		return err
	}
	if a.value == nil {
		return nil
	}
	if err := b.bindNode(a.value, s); err != nil {
		return err
	}
	if a.verb != "ADD" {
		return nil
	}
	switch k := b.values[a.value.slot].kind; {
	case k == kindN:
		return nil
	case k.isSet():
		return unsupported("ADD of a set: value %s of the UpdateExpression",
			b.expression.values[a.value.slot])
	default:
		return b.invalid("Incorrect operand type for operator or function; operator: ADD, operand type: %s, "+
			"typeSet: ALLOWED_FOR_ADD_OPERAND", k.longName())
	}
}

func (b *bound) bindNode(n *node, s *substitutions) error {
	for _, arg := range n.args {
		if err := b.bindNode(arg, s); err != nil {
			return err
		}
	}
	switch n.op {
	case opPath:
		return b.bindName(n.slot, s)
	case opValue:
		return b.bindValue(n.slot, s)
	case "AND", "OR", "NOT":
		return nil
	}
	if err := b.checkOperands(n); err != nil {
		return err
	}
	return b.checkDistinct(n)
}

func (b *bound) bindName(slot int, s *substitutions) error {
	path := b.paths[slot]
	if path[0] != '#' {
		b.names[slot] = path
		return nil
	}
	name := find(s.names, path)
	if name == nil {
		return b.invalid("An expression attribute name used in the document path is not defined; attribute name: %s", path)
	}
	b.names[slot] = *name
	return nil
}

func (b *bound) bindValue(slot int, s *substitutions) error {
	placeholder := b.expression.values[slot]
	b.values[slot] = find(s.values, placeholder)
	if b.values[slot] == nil {
		return b.invalid("An expression attribute value used in expression is not defined; attribute value: %s", placeholder)
	}
	return nil
}

// checkOperands checks the number and the types of the operands of an operator or a function. The types of
// attributes are known only when the expression is evaluated.
func (b *bound) checkOperands(n *node) error {
	switch n.op {
	case "<", "<=", ">", ">=":
		return b.checkTypes(n, kindS, kindN, kindB)
	case "BETWEEN":
		if err := b.checkTypes(n, kindS, kindN, kindB); err != nil {
			return err
		}
		return b.checkBounds(n.args[1], n.args[2])
	case "IN":
		const most = 100
		if listed := len(n.args) - 1; listed > most {
			return b.invalid("The IN operator is provided with too many operands; number of operands: %d",
				listed)
		}
	case "+", "-":
		return b.checkTypes(n, kindN)
	case "attribute_exists", "attribute_not_exists":
		return b.checkFunction(n, 1)
	case "if_not_exists":
		return b.checkFunction(n, 2)
	case "begins_with":
		if err := b.checkCount(n, 2); err != nil {
			return err
		}
		return b.checkTypes(n, kindS, kindB)
	}
	return nil
}

func (b *bound) checkCount(n *node, operands int) error {
	if len(n.args) != operands {
		return b.invalid("Incorrect number of operands for operator or function; "+
			"operator or function: %s, number of operands: %d", n.op, len(n.args))
	}
	return nil
}

// checkFunction checks a function of an attribute.
func (b *bound) checkFunction(n *node, operands int) error {
	if err := b.checkCount(n, operands); err != nil {
		return err
	}
	if n.args[0].op != opPath {
		return b.invalid("Operator or function requires a document path; operator or function: %s", n.op)
	}
	return nil
}

func (b *bound) checkTypes(n *node, allowed ...kind) error {
	for _, arg := range n.args {
		if arg.op != opValue {
			continue
		}
		if k := b.values[arg.slot].kind; !slices.Contains(allowed, k) {
			return b.invalid("Incorrect operand type for operator or function; "+
				"operator or function: %s, operand type: %s", n.op, k)
		}
	}
	return nil
}

func (b *bound) checkBounds(low, high *node) error {
	if low.op != opValue || high.op != opValue {
		return nil
	}
	l, h := b.values[low.slot], b.values[high.slot]
	switch order, ok := l.compare(h); {
	case !ok:
		return b.invalid("The BETWEEN operator requires same data type for lower and upper bounds; "+
			"lower bound operand: AttributeValue: {%s:%s}, upper bound operand: AttributeValue: {%s:%s}",
			l.kind, l.text, h.kind, h.text)
	case order > 0:
		return b.invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "+
			"lower bound operand: AttributeValue: {%s:%s}, upper bound operand: AttributeValue: {%s:%s}",
			l.kind, l.text, h.kind, h.text)
	}
	return nil
}

// checkDistinct refuses to compare an attribute with itself.
func (b *bound) checkDistinct(n *node) error {
	if n.args[0].op != opPath || n.op == "if_not_exists" || n.isSum() {
		return nil
	}
	first := b.names[n.args[0].slot]
	for _, arg := range n.args[1:] {
		if arg.op == opPath && b.names[arg.slot] == first {
			return b.invalid("The first operand must be distinct from the remaining operands for this operator or function; "+
				"operator: %s, first operand: [%s]", n.op, first)
		}
	}
	return nil
}

package dynamofake

import (
	"slices"
	"strings"
)

// holds evaluates a condition or filter against an item, which may be nil.
func (b *bound) holds(it item) bool { return b.test(b.condition, it) }

func (b *bound) test(n *node, it item) bool {
	switch n.op {
	case "AND":
		return b.test(n.args[0], it) && b.test(n.args[1], it)
	case "OR":
		return b.test(n.args[0], it) || b.test(n.args[1], it)
	case "NOT":
		return !b.test(n.args[0], it)
	case "attribute_exists":
		return b.operand(n.args[0], it) != nil
	case "attribute_not_exists":
		return b.operand(n.args[0], it) == nil
	}
	left := b.operand(n.args[0], it)
	rest := n.args[1:]
	switch n.op {
	case "IN":
		return slices.ContainsFunc(rest, func(arg *node) bool { return areEqual(left, b.operand(arg, it)) })
	case "BETWEEN":
		return compares(">=", left, b.operand(rest[0], it)) && compares("<=", left, b.operand(rest[1], it))
	case "begins_with":
		prefix := b.operand(rest[0], it)
		return left != nil && prefix != nil && left.kind == prefix.kind &&
			(left.kind == kindS || left.kind == kindB) &&
			strings.HasPrefix(left.text, prefix.text)
	}
	return compares(n.op, left, b.operand(rest[0], it))
}

// operand returns the value of a leaf, or nil for an attribute that the item does not have.
func (b *bound) operand(n *node, it item) *value {
	if n.op == opValue {
		return b.values[n.slot]
	}
	return it.get(b.names[n.slot])
}

func areEqual(v, w *value) bool { return v != nil && w != nil && v.equal(w) }

func compares(op string, v, w *value) bool {
	switch op {
	case "=":
		return areEqual(v, w)
	case "<>":
		return !areEqual(v, w)
	}
	if v == nil || w == nil {
		return false
	}
	order, ok := v.compare(w)
	switch op {
	case "<":
		return ok && order < 0
	case "<=":
		return ok && order <= 0
	case ">":
		return ok && order > 0
	default:
		return ok && order >= 0
	}
}

// updatedNames returns the attributes that an update expression writes.
func (b *bound) updatedNames() []string {
	names := make([]string, len(b.actions))
	for i, a := range b.actions {
		names[i] = b.names[a.path.slot]
	}
	return names
}

// apply returns the item that results from an update expression on old. All right-hand sides are evaluated on
// old.
func (b *bound) apply(old item) (item, error) {
	updated := make(item, len(old), len(old)+len(b.actions))
	copy(updated, old)
	for _, a := range b.actions {
		name := b.names[a.path.slot]
		at, found := slices.BinarySearchFunc(updated, name, compareNames)
		if a.verb == "REMOVE" {
			if found {
				updated = slices.Delete(updated, at, at+1)
			}
			continue
		}
		v, err := b.assigned(&a, name, old)
		if err != nil {
			return nil, err
		}
		if found {
			updated[at].value = v
		} else {
			updated = slices.Insert(updated, at, attribute{name, v})
		}
	}
	return updated, nil
}

// assigned evaluates the new value of an attribute in SET or ADD.
func (b *bound) assigned(a *action, name string, old item) (value, error) {
	if a.verb == "SET" {
		return b.evaluate(a.value, old)
	}
	amount, current := b.values[a.value.slot], old.get(name)
	if current == nil {
		return *amount, nil
	}
	return add(current, amount, false)
}

func (b *bound) evaluate(n *node, old item) (value, error) {
	switch {
	case n.op == "if_not_exists":
		if v := b.operand(n.args[0], old); v != nil {
			return *v, nil
		}
		return b.evaluate(n.args[1], old)
	case n.isSum():
		left, err := b.evaluate(n.args[0], old)
		if err != nil {
			return value{}, err
		}
		right, err := b.evaluate(n.args[1], old)
		if err != nil {
			return value{}, err
		}
		return add(&left, &right, n.op == "-")
	}
	v := b.operand(n, old)
	if v == nil {
		return value{}, invalid("The provided expression refers to an attribute that does not exist in the item")
	}
	return *v, nil
}

func add(v, w *value, subtract bool) (value, error) {
	if v.kind != kindN || w.kind != kindN {
		return value{}, invalid("An operand in the update expression has an incorrect data type")
	}
	sum, err := addNumbers(v.text, w.text, subtract)
	return value{kind: kindN, text: sum}, err
}

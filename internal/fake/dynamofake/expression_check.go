package dynamofake

// check returns the errors of a parsed expression that do not depend on the values of placeholders: unknown
// functions, functions in the wrong place, reserved words used as names, repeated sections.
func (e *expression) check() error {
	if e.condition != nil {
		return e.checkNode(e.condition, true)
	}
	for _, a := range e.actions {
		if err := e.checkNode(a.path, false); err != nil {
			return err
		}
		if a.value == nil {
			continue
		}
		if err := e.checkNode(a.value, false); err != nil {
			return err
		}
	}
	if e.repeated != "" {
		return invalid(`Invalid %s: The "%s" section can only be used once in an update expression;`, e.place,
			e.repeated)
	}
	return nil
}

func (e *expression) checkNode(n *node, asCondition bool) error {
	switch {
	case n.op == opPath && isReserved(e.paths[n.slot]):
		return invalid("Invalid %s: Attribute name is a reserved keyword; reserved keyword: %s", e.place,
			e.paths[n.slot])
	case n.isFunction():
		if err := e.checkFunction(n.op, asCondition); err != nil {
			return err
		}
	}
	connective := n.op == "AND" || n.op == "OR" || n.op == "NOT"
	for _, arg := range n.args {
		if err := e.checkNode(arg, connective); err != nil {
			return err
		}
	}
	return nil
}

func (e *expression) checkFunction(name string, asCondition bool) error {
	isTest := false // yields true or false
	switch name {
	case "attribute_exists", "attribute_not_exists", "begins_with":
		isTest = true
	case "if_not_exists":
	case "attribute_type", "contains", "size", "list_append":
		return unsupported("the function %s in a %s", name, e.place)
	default:
		return invalid("Invalid %s: Invalid function name; function: %s", e.place, name)
	}
	switch inUpdate := e.place == updateExpression; {
	case inUpdate && isTest:
		return invalid("Invalid %s: The function is not allowed in an update expression; function: %s",
			e.place, name)
	case !inUpdate && !isTest:
		return invalid("Invalid %s: The function is not allowed in a condition expression; function: %s",
			e.place, name)
	case isTest && !asCondition:
		return invalid("Invalid %s: The function is not allowed to be used this way in an expression; function: %s",
			e.place, name)
	}
	return nil
}

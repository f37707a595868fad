package dynamofake

import "slices"

const (
	maxExpressionBytes = 4096
	maxOperators       = 300 // operators and functions of one condition
)

// parser is a recursive-descent parser. It keeps the first error. After it, every read returns the end of the
// text, so that all loops end.
type parser struct {
	lexer
	previous, current token
	expression        expression
	operators         int
	err               error
}

// parseExpression parses an expression, and checks everything that does not depend on the values of
// placeholders.
func parseExpression(place, text string) (*expression, error) {
	p := parser{lexer: lexer{text: text}, expression: expression{place: place}}
	switch {
	case text == "":
		return nil, invalid("Invalid %s: The expression can not be empty;", place)
	case len(text) > maxExpressionBytes:
		return nil, invalid("Invalid %s: Expression size has exceeded the maximum allowed size; expression size: %d",
			place, len(text))
	}
	p.current = p.next()
	if place == updateExpression {
		p.update()
	} else {
		p.expression.condition = p.condition(p.or())
	}
	if p.current.kind != tokenEnd {
		p.unexpected()
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := p.expression.check(); err != nil {
		return nil, err
	}
	return &p.expression, nil
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.pos = len(p.text)
	p.current = p.next()
}

func (p *parser) failf(format string, args ...any) {
	p.fail(invalid("Invalid "+p.expression.place+": "+format, args...))
}

// unexpected returns an error with the current token and its two neighbours, like DynamoDB.
func (p *parser) unexpected() {
	text := "<EOF>"
	if p.current.kind != tokenEnd {
		text = p.text[p.current.start:p.current.end]
	}
	after := p.next()
	p.failf("Syntax error; token: \"%s\", near: \"%s\"", text, p.text[p.previous.start:after.end])
}

func (p *parser) advance() {
	p.previous, p.current = p.current, p.next()
}

func (p *parser) at(kind tokenKind, text string) bool {
	return p.current.kind == kind && p.current.text == text
}

// accept consumes the token if it is the current one.
func (p *parser) accept(kind tokenKind, text string) bool {
	if !p.at(kind, text) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(kind tokenKind, text string) {
	if !p.accept(kind, text) {
		p.unexpected()
	}
}

// operator returns the node of an operator or a function, and counts it.
func (p *parser) operator(op string, args ...*node) *node {
	p.operators++
	if p.operators > maxOperators && p.expression.place != updateExpression {
		p.failf("The expression contains too many operators; operator count: %d", p.operators)
	}
	return &node{op: op, args: args}
}

// condition requires that n is a condition. An operand without a comparator is none.
func (p *parser) condition(n *node) *node {
	if n.isLeaf() {
		p.unexpected()
	}
	return n
}

func (p *parser) or() *node {
	n := p.and()
	for p.at(tokenKeyword, "OR") {
		p.condition(n)
		p.advance()
		n = p.operator("OR", n, p.condition(p.and()))
	}
	return n
}

func (p *parser) and() *node {
	n := p.not()
	for p.at(tokenKeyword, "AND") {
		p.condition(n)
		p.advance()
		n = p.operator("AND", n, p.condition(p.not()))
	}
	return n
}

func (p *parser) not() *node {
	if p.accept(tokenKeyword, "NOT") {
		return p.operator("NOT", p.condition(p.not()))
	}
	return p.comparison()
}

// comparison parses a comparison, a function, a condition in parentheses, or an operand in parentheses whose
// comparison follows.
func (p *parser) comparison() *node {
	left := p.primary(p.or)
	if !left.isLeaf() && (p.partiQL || !left.isFunction()) {
		return left
	}
	switch op := p.current.text; {
	case p.current.kind == tokenPunctuation && isComparator(op):
		p.advance()
		return p.operator(op, left, p.operand())
	case p.accept(tokenKeyword, "BETWEEN"):
		low := p.operand()
		p.expect(tokenKeyword, "AND")
		return p.operator("BETWEEN", left, low, p.operand())
	case p.accept(tokenKeyword, "IN"):
		p.expect(tokenPunctuation, "(")
		return p.operator("IN", append([]*node{left}, p.operands()...)...)
	case p.accept(tokenKeyword, "IS"): // of PartiQL
		op := "attribute_not_exists"
		if p.accept(tokenKeyword, "NOT") {
			op = "attribute_exists"
		}
		p.expect(tokenKeyword, "MISSING")
		return p.operator(op, left)
	}
	return left
}

func isComparator(op string) bool {
	switch op {
	case "=", "<>", "<", "<=", ">", ">=":
		return true
	}
	return false
}

// operand parses a path, a value or a function.
func (p *parser) operand() *node { return p.primary(p.operand) }

// operands parses a list of operands up to its closing parenthesis.
func (p *parser) operands() []*node {
	list := []*node{p.operand()}
	for p.accept(tokenPunctuation, ",") {
		list = append(list, p.operand())
	}
	p.expect(tokenPunctuation, ")")
	return list
}

// primary parses a path, a value, a function, or, in parentheses, what inner parses.
func (p *parser) primary(inner func() *node) *node {
	switch {
	case p.accept(tokenPunctuation, "("):
		n := inner()
		p.expect(tokenPunctuation, ")")
		if n.parenthesised && !p.partiQL {
			p.failf("The expression has redundant parentheses;")
		}
		n.parenthesised = true
		return n
	case p.current.kind == tokenValue:
		return p.value()
	case p.current.kind == tokenIdentifier:
		name := p.current
		p.advance()
		if !p.partiQL && p.accept(tokenPunctuation, "(") {
			return p.operator(name.text, p.operands()...)
		}
		return p.leaf(opPath, &p.expression.paths, name.text)
	}
	return p.path()
}

// path parses the name of an attribute.
func (p *parser) path() *node {
	if p.current.kind != tokenIdentifier && p.current.kind != tokenName {
		p.unexpected()
	}
	name := p.current.text
	p.advance()
	return p.leaf(opPath, &p.expression.paths, name)
}

func (p *parser) value() *node {
	if p.current.kind != tokenValue {
		p.unexpected()
	}
	placeholder := p.current.text
	p.advance()
	return p.leaf(opValue, &p.expression.values, placeholder)
}

// leaf returns the node of the path or value whose token was consumed last.
func (p *parser) leaf(op string, table *[]string, text string) *node {
	if op == opPath && (p.at(tokenPunctuation, ".") || p.at(tokenPunctuation, "[")) {
		p.fail(unsupported("nested document paths: %s in the %s %q", text, p.expression.place, p.text))
	}
	slot := slices.Index(*table, text)
	if slot < 0 {
		slot = len(*table)
		*table = append(*table, text)
	}
	return &node{op: op, slot: slot}
}

package dynamofake

import "slices"

// update parses the sections of an update expression.
func (p *parser) update() {
	for first := true; first || p.current.kind != tokenEnd; first = false {
		verb := p.current.text
		switch {
		case p.accept(tokenKeyword, "SET"):
			p.section(verb, p.assigned)
		case p.accept(tokenKeyword, "REMOVE"):
			p.section(verb, func() *node { return nil })
		case p.accept(tokenKeyword, "ADD"):
			p.section(verb, p.value)
		case p.at(tokenKeyword, "DELETE"):
			p.fail(unsupported("DELETE in the UpdateExpression %q", p.text))
		default:
			p.unexpected()
		}
	}
}

func (p *parser) section(verb string, value func() *node) {
	if slices.ContainsFunc(p.expression.actions, func(a action) bool { return a.verb == verb }) {
		p.expression.repeated = verb
	}
	for again := true; again; again = p.accept(tokenPunctuation, ",") {
		path := p.path()
		p.expression.actions = append(p.expression.actions, action{verb: verb, path: path, value: value()})
	}
}

// assigned parses the right-hand side of SET: an operand, a sum or a difference.
func (p *parser) assigned() *node {
	p.expect(tokenPunctuation, "=")
	return p.sum()
}

func (p *parser) sum() *node {
	left := p.primary(p.sum)
	if left.isSum() {
		return left
	}
	for _, op := range [...]string{"+", "-"} {
		if p.accept(tokenPunctuation, op) {
			return p.operator(op, left, p.operand())
		}
	}
	return left
}

package dynamofake

import (
	"slices"
	"strings"
)

// maxStatementBytes is DynamoDB's limit on a PartiQL statement.
const maxStatementBytes = 8192

// statement is a parsed INSERT or UPDATE of PartiQL. Its parts are expressions, as in the other operations,
// whose values are the parameters of the statement. It is immutable, and shared by all requests with the same
// text.
type statement struct {
	verb       verb
	table      string
	parameters int // the number of question marks

	inserted []insertedAttribute // of an INSERT
	update   *expression         // of an UPDATE
	where    *node               // of an UPDATE, over update's paths and values
}

type insertedAttribute struct {
	name      string
	parameter int
}

// partiqlParser parses a subset of DynamoDB's INSERT and UPDATE, in which every value is a parameter and
// every path a name. It keeps the first error.
type partiqlParser struct {
	text       string
	pos        int
	current    string // keywords in upper case; names with the quote before them; empty at the end
	statement  statement
	expression expression // of the update and its WHERE
	err        error
}

func parseStatement(text string) (*statement, error) {
	p := partiqlParser{text: text}
	if len(text) > maxStatementBytes {
		return nil, invalid("1 validation error detected: Value at 'statement' failed to satisfy constraint: "+
			"Member must have length less than or equal to %d", maxStatementBytes)
	}
	p.advance()
	switch p.current {
	case "INSERT":
		p.insert()
	case "UPDATE":
		p.update()
	case "SELECT", "DELETE", "EXISTS":
		return nil, unsupported("%s in a statement: %s", p.current, text)
	default:
		p.malformed()
	}
	if p.current != "" {
		p.malformed()
	}
	if p.err != nil {
		return nil, p.err
	}
	return &p.statement, nil
}

func (p *partiqlParser) malformed() {
	if p.err == nil {
		p.err = invalid("Statement wasn't well formed, can't be processed: %s", p.text)
	}
	p.pos, p.current = len(p.text), ""
}

// advance reads the next token.
func (p *partiqlParser) advance() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	if p.pos == len(p.text) {
		p.current = ""
		return
	}
	rest := p.text[p.pos:]
	n := 1
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		end := strings.IndexByte(rest[1:], c)
		if end < 1 {
			p.malformed()
			return
		}
		p.current = rest[:end+1]
		p.pos += end + 2
		return
	case isLetter(c):
		n += wordLength(rest[1:])
		p.pos += n
		p.current = rest[:n]
		if word := strings.ToUpper(p.current); isPartiQLKeyword(word) {
			p.current = word
		} else {
			p.current = `"` + p.current // an unquoted name
		}
		return
	case strings.HasPrefix(rest, "<=") || strings.HasPrefix(rest, ">=") || strings.HasPrefix(rest, "<>"):
		n++
	}
	p.current = rest[:n]
	p.pos += n
}

func isPartiQLKeyword(word string) bool {
	switch word {
	case "INSERT", "INTO", "VALUE", "UPDATE", "SET", "REMOVE", "WHERE", "AND", "OR", "NOT", "IS", "MISSING",
		"SELECT", "DELETE", "EXISTS":
		return true
	}
	return false
}

func (p *partiqlParser) accept(token string) bool {
	if p.current != token {
		return false
	}
	p.advance()
	return true
}

func (p *partiqlParser) expect(token string) {
	if !p.accept(token) {
		p.malformed()
	}
}

// name reads a name in the given quotes. Double quotes are optional.
func (p *partiqlParser) name(quote byte) string {
	if len(p.current) < 2 || p.current[0] != quote {
		p.malformed()
		return ""
	}
	name := p.current[1:]
	p.advance()
	return name
}

// parameter reads a question mark.
func (p *partiqlParser) parameter() int {
	p.expect("?")
	p.statement.parameters++
	return p.statement.parameters - 1
}

func (p *partiqlParser) insert() {
	p.advance()
	p.expect("INTO")
	p.statement.verb, p.statement.table = verbPut, p.name('"')
	p.expect("VALUE")
	p.expect("{")
	for again := true; again; again = p.accept(",") {
		name := p.name('\'')
		p.expect(":")
		p.statement.inserted = append(p.statement.inserted, insertedAttribute{name, p.parameter()})
	}
	p.expect("}")
}

func (p *partiqlParser) update() {
	p.advance()
	p.statement.verb, p.statement.table = verbUpdate, p.name('"')
	for p.current == "SET" || p.current == "REMOVE" {
		a := action{verb: p.current}
		p.advance()
		a.path = p.path()
		if a.verb == "SET" {
			p.expect("=")
			a.value = p.sum()
		}
		p.expression.actions = append(p.expression.actions, a)
	}
	p.expect("WHERE")
	p.statement.where = p.or()
	p.expression.place = "statement"
	p.statement.update = &p.expression
	if p.err == nil && len(p.expression.actions) == 0 {
		p.malformed()
	}
}

func (p *partiqlParser) path() *node {
	name := p.name('"')
	slot := slices.Index(p.expression.paths, name)
	if slot < 0 {
		slot = len(p.expression.paths)
		p.expression.paths = append(p.expression.paths, name)
	}
	return &node{op: opPath, slot: slot}
}

// operand reads a path or a parameter.
func (p *partiqlParser) operand() *node {
	if p.current != "?" {
		return p.path()
	}
	p.expression.values = append(p.expression.values, "?")
	return &node{op: opValue, slot: p.parameter()}
}

func (p *partiqlParser) sum() *node {
	left := p.operand()
	for _, op := range [...]string{"+", "-"} {
		if p.accept(op) {
			return &node{op: op, args: []*node{left, p.operand()}}
		}
	}
	return left
}

func (p *partiqlParser) or() *node {
	n := p.and()
	for p.accept("OR") {
		n = &node{op: "OR", args: []*node{n, p.and()}}
	}
	return n
}

func (p *partiqlParser) and() *node {
	n := p.not()
	for p.accept("AND") {
		n = &node{op: "AND", args: []*node{n, p.not()}}
	}
	return n
}

func (p *partiqlParser) not() *node {
	if p.accept("NOT") {
		return &node{op: "NOT", args: []*node{p.not()}}
	}
	if p.accept("(") {
		n := p.or()
		p.expect(")")
		return n
	}
	left := p.operand()
	if p.accept("IS") {
		op := "attribute_not_exists"
		if p.accept("NOT") {
			op = "attribute_exists"
		}
		p.expect("MISSING")
		return &node{op: op, args: []*node{left}}
	}
	op := p.current
	if !isComparator(op) {
		p.malformed()
	}
	p.advance()
	return &node{op: op, args: []*node{left, p.operand()}}
}

// keyOf splits a WHERE clause into the parameter that the key must equal, and the other conditions, nil if
// there are none. ok is false if the clause does not name the key.
func (st *statement) keyOf(hashKey string) (parameter int, rest *node, ok bool) {
	var conjuncts []*node
	var split func(n *node)
	split = func(n *node) {
		if n.op == "AND" {
			split(n.args[0])
			split(n.args[1])
			return
		}
		conjuncts = append(conjuncts, n)
	}
	split(st.where)
	for _, n := range conjuncts {
		isKey := n.op == "=" && n.args[0].op == opPath && n.args[1].op == opValue &&
			st.update.paths[n.args[0].slot] == hashKey
		switch {
		case isKey && !ok:
			parameter, ok = n.args[1].slot, true
		case rest == nil:
			rest = n
		default:
			rest = &node{op: "AND", args: []*node{rest, n}}
		}
	}
	return parameter, rest, ok
}

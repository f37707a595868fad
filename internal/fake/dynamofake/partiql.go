package dynamofake

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

// statementParser parses a subset of DynamoDB's INSERT and UPDATE, in which every value is a parameter and
// every path a name.
type statementParser struct {
	parser
	statement statement
}

func parseStatement(text string) (*statement, error) {
	if len(text) > maxStatementBytes {
		return nil, invalid("1 validation error detected: Value at 'statement' failed to satisfy constraint: "+
			"Member must have length less than or equal to %d", maxStatementBytes)
	}
	p := statementParser{parser: parser{lexer: lexer{text: text, partiQL: true}}}
	p.expression.place = "statement"
	p.advance()
	switch verb := p.current.text; {
	case p.accept(tokenKeyword, "INSERT"):
		p.insert()
	case p.accept(tokenKeyword, "UPDATE"):
		p.change()
	case p.at(tokenKeyword, "SELECT"), p.at(tokenKeyword, "DELETE"), p.at(tokenKeyword, "EXISTS"):
		return nil, unsupported("%s in a statement: %s", verb, text)
	default:
		p.unexpected()
	}
	if p.current.kind != tokenEnd {
		p.unexpected()
	}
	if p.err != nil {
		return nil, invalid("Statement wasn't well formed, can't be processed: %s", text)
	}
	p.statement.parameters = len(p.expression.values)
	return &p.statement, nil
}

// name reads a name: an attribute of an INSERT is in single quotes.
func (p *statementParser) name(kind tokenKind) string {
	if p.current.kind != kind {
		p.unexpected()
	}
	name := p.current.text
	p.advance()
	return name
}

func (p *statementParser) insert() {
	p.expect(tokenKeyword, "INTO")
	p.statement.verb, p.statement.table = verbPut, p.name(tokenIdentifier)
	p.expect(tokenKeyword, "VALUE")
	p.expect(tokenPunctuation, "{")
	for again := true; again; again = p.accept(tokenPunctuation, ",") {
		name := p.name(tokenQuoted)
		p.expect(tokenPunctuation, ":")
		p.statement.inserted = append(p.statement.inserted, insertedAttribute{name, p.value().slot})
	}
	p.expect(tokenPunctuation, "}")
}

func (p *statementParser) change() {
	p.statement.verb, p.statement.table = verbUpdate, p.name(tokenIdentifier)
	for p.at(tokenKeyword, "SET") || p.at(tokenKeyword, "REMOVE") {
		a := action{verb: p.current.text}
		p.advance()
		if a.path = p.path(); a.verb == "SET" {
			a.value = p.assigned()
		}
		p.expression.actions = append(p.expression.actions, a)
	}
	if len(p.expression.actions) == 0 {
		p.unexpected()
	}
	p.expect(tokenKeyword, "WHERE")
	p.statement.where = p.condition(p.or())
	p.statement.update = &p.expression
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

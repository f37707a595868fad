package dynamofake

import (
	"errors"
	"slices"
)

const maxStatements = 25

// statementRequest is one statement of a batch, not yet checked.
type statementRequest struct {
	text       string
	parameters []value
	returnOld  bool
}

// statementResult is the result of a statement: an error, or none.
type statementResult struct {
	table string // empty if it is not known
	err   *Error
	code  string // of err, as a batch spells it
}

// batchExecuteStatement performs statements one after another. They are not a transaction: each has its own
// result.
func (s *Server) batchExecuteStatement(in request, out []byte) ([]byte, error) {
	r := jsonReader{text: in.body}
	requests := r.statements()
	if err := r.end(); err != nil {
		return nil, err
	}
	writes, results, err := s.prepareStatements(requests)
	if err != nil {
		return nil, err
	}
	units := 0.0
	s.mu.Lock()
	for i, w := range writes {
		if w == nil {
			continue
		}
		cost, err := s.performStatement(in.client, w)
		units += cost
		results[i].fail(err)
	}
	s.mu.Unlock()
	s.usage.wrote(units)
	out = appendEach(append(out, `{"Responses":[`...), results, appendStatementResult)
	return append(out, "]}"...), nil
}

func (r *jsonReader) statements() (requests []statementRequest) {
	for name := range r.fields() {
		if name != "Statements" {
			r.fail(unsupported("the parameter %s of BatchExecuteStatement", name))
			return nil
		}
		requests = append(requests, list(r, r.statement)...)
	}
	for i := range requests {
		if requests[i].text == "" {
			requests = nil
			break
		}
	}
	switch {
	case len(requests) == 0:
		r.fail(invalid("The statement was empty."))
	case len(requests) > maxStatements:
		r.fail(invalid("BatchWriteItem cannot write more than %d items", maxStatements))
	}
	return requests
}

func (r *jsonReader) statement() (rq statementRequest) {
	for name := range r.fields() {
		switch name {
		case "Statement":
			rq.text = r.string()
		case "Parameters":
			rq.parameters = append(rq.parameters, list(r, func() value { return r.value(1) })...)
		case "ReturnValuesOnConditionCheckFailure":
			rq.returnOld = r.oneOf("returnValuesOnConditionCheckFailure", "ALL_OLD", "NONE") == "ALL_OLD"
		default:
			r.fail(unsupported("the parameter %s of a statement", name))
		}
	}
	return rq
}

// prepareStatements checks everything that does not depend on stored items. An invalid statement fails alone.
// Two statements on one item make the whole request fail.
func (s *Server) prepareStatements(requests []statementRequest) ([]*statementWrite, []statementResult,
	error) {
	writes := make([]*statementWrite, len(requests))
	results := make([]statementResult, len(requests))
	for i := range requests {
		w, err := s.prepareStatement(&requests[i], &results[i])
		if err != nil {
			results[i].fail(err)
			continue
		}
		if slices.ContainsFunc(writes[:i], func(other *statementWrite) bool {
			return other != nil && other.table == w.table && other.key == w.key
		}) {
			return nil, nil, invalid("Provided list of item keys contains duplicates")
		}
		writes[i] = w
	}
	return writes, results, nil
}

// statementWrite is a checked statement.
type statementWrite struct {
	write
	isInsert bool
}

func (s *Server) prepareStatement(rq *statementRequest, result *statementResult) (*statementWrite, error) {
	st, err := s.statements.get(rq.text)
	if err != nil {
		return nil, err
	}
	if len(rq.parameters) < st.parameters {
		return nil, invalid("Number of parameters in request and statement don't match.")
	}
	t, err := s.table(&st.table)
	if err != nil {
		return nil, clientError("ResourceNotFoundException", "Cannot do operations on a non-existent table")
	}
	w := &statementWrite{write: write{table: t, verb: st.verb, returnOld: rq.returnOld},
		isInsert: st.verb == verbPut}
	prepare := w.change
	if w.isInsert {
		prepare = w.insert
	}
	if err := prepare(st, rq); err != nil {
		return nil, err
	}
	result.table = t.name
	if slices.Contains(w.updatedNames(), t.hashKey) {
		return nil, invalid("One or more parameter values were invalid: "+
			"Cannot update attribute %s. This attribute is part of the key", t.hashKey)
	}
	return w, nil
}

func (w *statementWrite) insert(st *statement, rq *statementRequest) (err error) {
	w.item = make(item, 0, len(st.inserted))
	for _, a := range st.inserted {
		at, twice := slices.BinarySearchFunc(w.item, a.name, compareNames)
		if twice {
			return invalid("Statement wasn't well formed, can't be processed: %s", rq.text)
		}
		w.item = slices.Insert(w.item, at, attribute{a.name, rq.parameters[a.parameter]})
	}
	if w.item.get(w.table.hashKey) == nil {
		return invalid("Key attribute should be present in the item: Key %s", w.table.hashKey)
	}
	if w.item.size() > maxItemBytes {
		return invalid("Item size has exceeded the maximum allowed size")
	}
	w.key, err = w.table.keyOf(w.item)
	return err
}

func (w *statementWrite) change(st *statement, rq *statementRequest) (err error) {
	parameter, rest, ok := st.keyOf(w.table.hashKey)
	if !ok {
		return invalid("Where clause does not contain a mandatory equality on all key attributes")
	}
	key := rq.parameters[parameter]
	if w.key, err = w.table.key(item{{w.table.hashKey, key}}); err != nil {
		return err
	}
	values := make([]*value, len(rq.parameters))
	for i := range values {
		values[i] = &rq.parameters[i]
	}
	w.update = &bound{st.update, st.update.paths, values}
	if rest != nil {
		w.condition = &bound{&expression{condition: rest, paths: st.update.paths}, st.update.paths, values}
	}
	return nil
}

// performStatement makes the write and returns its capacity units. The caller holds Server.mu.
func (s *Server) performStatement(client string, w *statementWrite) (units float64, err error) {
	old := w.old()
	var now item
	switch {
	case w.isInsert && old != nil:
		err = clientError("DuplicateItemException", "Duplicate primary key exists in table")
	case !w.isInsert && old == nil: // an UPDATE makes no item
		err = conditionFailed(nil)
	default:
		if now, err = w.evaluate(old); err == nil {
			w.table.store(w.key, now)
		}
	}
	s.observe(client, &w.write, old, now, err)
	return writeUnits(old, now), err
}

func (res *statementResult) fail(err error) {
	if err == nil {
		return
	}
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		e = Internal()
	}
	res.err, res.code = e, e.Code
	switch e.Code {
	case "ValidationException", "SerializationException":
		res.code = "ValidationError"
	case "ConditionalCheckFailedException":
		res.code = "ConditionalCheckFailed"
	case "DuplicateItemException":
		res.code = "DuplicateItem"
	case "ResourceNotFoundException":
		res.code = "ResourceNotFound"
	}
}

func appendStatementResult(out []byte, res *statementResult) []byte {
	out = append(out, '{')
	if e := res.err; e != nil {
		out = appendString(append(out, `"Error":{"Code":`...), res.code)
		out = appendString(append(out, `,"Message":`...), e.Message)
		if e.item != nil {
			out = appendItem(append(out, `,"Item":`...), e.item)
		}
		out = append(out, '}')
		if res.table != "" {
			out = append(out, ',')
		}
	}
	if res.table != "" {
		out = appendString(append(out, `"TableName":`...), res.table)
	}
	return append(out, '}')
}

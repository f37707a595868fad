package dynamofake

import (
	"slices"
	"strings"
)

// writeRequest is a PutItem, UpdateItem or DeleteItem, or one action of a transaction, not yet checked.
type writeRequest struct {
	verb              verb
	inTransaction     bool
	table             *string
	item              item // of a Put the item, of all others the key; nil if absent
	condition, update *string
	substitutions     substitutions
	returnOld         bool   // a failed condition brings the item
	returnValues      string // empty for none
	reportCapacity    bool
}

// writing returns the operation of a verb.
func writing(v verb) operation {
	return func(s *Server, in request, out []byte) ([]byte, error) { return s.writeItem(v, in, out) }
}

func (s *Server) writeItem(v verb, in request, out []byte) ([]byte, error) {
	r := jsonReader{text: in.body}
	rq := writeRequest{verb: v}
	r.writeRequest(&rq)
	if err := r.end(); err != nil {
		return nil, err
	}
	w, err := s.prepare(&rq)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	old := w.old()
	now, err := w.evaluate(old)
	if err == nil {
		w.table.store(w.key, now)
	}
	s.observe(in.client, w, old, now, err)
	s.mu.Unlock()
	units := writeUnits(old, now)
	s.usage.wrote(units)
	if err != nil {
		return nil, err
	}
	return appendWritten(out, &rq, w, old, now, units), nil
}

// appendWritten writes the answer to a successful write.
func appendWritten(out []byte, rq *writeRequest, w *write, old, now item, units float64) []byte {
	var attributes item
	switch rq.returnValues {
	case "ALL_OLD":
		attributes = old
	case "ALL_NEW":
		attributes = now
	case "UPDATED_OLD":
		attributes = old.project(w.updatedNames())
	case "UPDATED_NEW":
		attributes = now.project(w.updatedNames())
	}
	return appendAnswer(out, "Attributes", attributes, w.table.name, units, rq.reportCapacity)
}

// writeRequest reads the members that are valid for the verb.
func (r *jsonReader) writeRequest(rq *writeRequest) {
	for name := range r.fields() {
		switch {
		case name == "TableName":
			rq.table = r.stringPointer()
		case name == "Item" && rq.verb == verbPut, name == "Key" && rq.verb != verbPut:
			rq.item = r.item()
		case name == "ConditionExpression":
			rq.condition = r.stringPointer()
		case name == "UpdateExpression" && rq.verb == verbUpdate:
			rq.update = r.stringPointer()
		case name == "ExpressionAttributeNames":
			r.substitutionNames(&rq.substitutions)
		case name == "ExpressionAttributeValues":
			r.substitutionValues(&rq.substitutions)
		case name == "ReturnValuesOnConditionCheckFailure":
			rq.returnOld = r.oneOf("returnValuesOnConditionCheckFailure", "ALL_OLD", "NONE") == "ALL_OLD"
		case name == "ReturnValues" && !rq.inTransaction:
			rq.returnValues = r.returnValues(rq.verb)
		case name == "ReturnConsumedCapacity" && !rq.inTransaction:
			rq.reportCapacity = r.capacityReport()
		default:
			r.fail(unsupported("the parameter %s of %s", name, rq.verb))
		}
	}
}

func (r *jsonReader) stringPointer() *string {
	s := r.string()
	return &s
}

func (r *jsonReader) oneOf(parameter string, allowed ...string) string {
	s := r.string()
	if r.err == nil && !slices.Contains(allowed, s) {
		r.fail(invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: "+
			"Member must satisfy enum value set: [%s]", s, parameter, strings.Join(allowed, ", ")))
	}
	return s
}

func (r *jsonReader) returnValues(v verb) string {
	s := r.oneOf("returnValues", "ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
	if v != verbUpdate && s != "ALL_OLD" && s != "NONE" {
		r.fail(invalid("ReturnValues can only be ALL_OLD or NONE"))
	}
	return s
}

// capacityReport reads ReturnConsumedCapacity: whether to report it. There are no indexes to report on.
func (r *jsonReader) capacityReport() bool {
	switch s := r.oneOf("returnConsumedCapacity", "INDEXES", "TOTAL", "NONE"); s {
	case "TOTAL":
		return true
	case "INDEXES":
		r.fail(unsupported("ReturnConsumedCapacity=INDEXES"))
	}
	return false
}

// prepare checks everything of a write that does not depend on the stored item.
func (s *Server) prepare(rq *writeRequest) (*write, error) {
	t, err := s.table(rq.table)
	if err != nil {
		return nil, err
	}
	w := &write{table: t, verb: rq.verb, returnOld: rq.returnOld}
	if err := w.setKey(rq); err != nil {
		return nil, err
	}
	if rq.update != nil {
		if w.update, err = s.expressions.bind(updateExpression, *rq.update, &rq.substitutions); err != nil {
			return nil, err
		}
		if slices.Contains(w.updatedNames(), t.hashKey) {
			return nil, invalid("One or more parameter values were invalid: "+
				"Cannot update attribute %s. This attribute is part of the key", t.hashKey)
		}
	}
	if rq.condition != nil {
		if w.condition, err = s.expressions.bind(conditionExpression, *rq.condition,
			&rq.substitutions); err != nil {
			return nil, err
		}
	}
	without := "ConditionExpression is null"
	if rq.verb == verbUpdate {
		without = "UpdateExpression and ConditionExpression are null"
	}
	return w, rq.substitutions.finish(rq.update != nil || rq.condition != nil, without)
}

func (w *write) setKey(rq *writeRequest) (err error) {
	switch {
	case rq.item == nil && rq.verb == verbPut:
		return missing("item")
	case rq.item == nil:
		return missing("key")
	case rq.verb != verbPut:
		w.key, err = w.table.key(rq.item)
		return err
	case rq.item.size() > maxItemBytes:
		return invalid("Item size has exceeded the maximum allowed size")
	}
	w.item = rq.item
	w.key, err = w.table.keyOf(rq.item)
	return err
}

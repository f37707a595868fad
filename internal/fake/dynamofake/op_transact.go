package dynamofake

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

const (
	maxTransactActions = 100
	maxTransactBytes   = 4 << 20
	maxTokenBytes      = 36
)

type transactRequest struct {
	actions        []writeRequest
	token          string
	reportCapacity bool
}

func (s *Server) transactWriteItems(in request, out []byte) ([]byte, error) {
	r := jsonReader{text: in.body}
	rq := r.transactRequest()
	if err := r.end(); err != nil {
		return nil, err
	}
	writes, err := s.prepareAll(rq)
	if err != nil {
		return nil, err
	}
	charged, err := s.transact(in.client, writes, rq)
	if err != nil {
		return nil, err
	}
	out = append(out, '{')
	if rq.reportCapacity {
		out = charged.append(append(out, `"ConsumedCapacity":`...))
	}
	return append(out, '}'), nil
}

func (r *jsonReader) transactRequest() *transactRequest {
	rq := new(transactRequest)
	for name := range r.fields() {
		switch name {
		case "TransactItems":
			rq.actions = append(rq.actions, list(r, r.transactAction)...)
		case "ClientRequestToken":
			if rq.token = r.string(); len(rq.token) > maxTokenBytes {
				r.fail(invalid("1 validation error detected: Value '%s' at 'clientRequestToken' failed to satisfy constraint: "+
					"Member must have length less than or equal to %d", rq.token, maxTokenBytes))
			}
		case "ReturnConsumedCapacity":
			rq.reportCapacity = r.capacityReport()
		default:
			r.fail(unsupported("the parameter %s of TransactWriteItems", name))
		}
	}
	if n := len(rq.actions); n < 1 || n > maxTransactActions {
		r.fail(invalid("1 validation error detected: Value of %d members at 'transactItems' failed to satisfy constraint: "+
			"Member must have length between 1 and %d", n, maxTransactActions))
	}
	return rq
}

func (r *jsonReader) transactAction() writeRequest {
	rq := writeRequest{inTransaction: true}
	members := 0
	for name := range r.fields() {
		switch members++; name {
		case "Put":
			rq.verb = verbPut
		case "Update":
			rq.verb = verbUpdate
		case "Delete":
			rq.verb = verbDelete
		case "ConditionCheck":
			rq.verb = verbCheck
		default:
			r.fail(unsupported("%s in a transaction", name))
		}
		r.writeRequest(&rq)
	}
	switch {
	case members != 1:
		r.fail(invalid("TransactItems can only contain one of Check, Put, Update or Delete"))
	case rq.verb == verbUpdate && rq.update == nil:
		r.fail(missing("transactItems.member.update.updateExpression"))
	case rq.verb == verbCheck && rq.condition == nil:
		r.fail(missing("transactItems.member.conditionCheck.conditionExpression"))
	}
	return rq
}

func (s *Server) prepareAll(rq *transactRequest) ([]*write, error) {
	writes := make([]*write, len(rq.actions))
	bytes := 0
	for i := range rq.actions {
		w, err := s.prepare(&rq.actions[i])
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(writes[:i],
			func(other *write) bool { return other.table == w.table && other.key == w.key }) {
			return nil, invalid("Transaction request cannot include multiple operations on one item")
		}
		bytes += rq.actions[i].item.size()
		writes[i] = w
	}
	if bytes > maxTransactBytes {
		return nil, invalid("Transaction payload size cannot exceed 4MB. Payload Size: %d", bytes)
	}
	return writes, nil
}

// transact makes all of the writes or none. If the token was used for the same transaction within its
// lifetime, transact succeeds without a change, at the cost of reads.
func (s *Server) transact(client string, writes []*write, rq *transactRequest) (charges, error) {
	fingerprint := rq.fingerprint()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	switch done, err := s.tokens.done(rq.token, fingerprint, now); {
	case err != nil:
		return nil, err
	case done:
		return s.replayed(writes), nil
	}
	before, changed := make([]item, len(writes)), make([]item, len(writes))
	reasons := make([]cancellationReason, len(writes))
	var charged charges
	for i, w := range writes {
		old := w.old()
		next, err := w.evaluate(old)
		before[i], changed[i], reasons[i] = old, next, reasonOf(err)
		charged = charged.add(w.table.name, 2*writeUnits(old, next))
	}
	s.usage.wrote(charged.total())
	if err := cancelled(reasons); err != nil {
		for i, w := range writes {
			if reasons[i].code == conditionalCheckFailed {
				s.observe(client, w, before[i], nil, err)
			}
		}
		return nil, err
	}
	for i, w := range writes {
		w.table.store(w.key, changed[i])
		s.observe(client, w, before[i], changed[i], nil)
	}
	s.tokens.remember(rq.token, fingerprint, now)
	return charged, nil
}

// replayed returns the capacity units of a transaction that was done before. The caller holds Server.mu.
func (s *Server) replayed(writes []*write) charges {
	var charged charges
	for _, w := range writes {
		charged = charged.add(w.table.name, 2*readUnits(w.old().size(), true))
	}
	s.usage.read(charged.total())
	return charged
}

// conditionalCheckFailed is the code of a cancellation reason.
const conditionalCheckFailed = "ConditionalCheckFailed"

func reasonOf(err error) cancellationReason {
	e := (*Error)(nil)
	switch {
	case !errors.As(err, &e):
		return cancellationReason{}
	case e.Code == "ConditionalCheckFailedException":
		return cancellationReason{conditionalCheckFailed, e.Message, e.item}
	}
	return cancellationReason{code: "ValidationError", message: e.Message}
}

// cancelled returns the error of a transaction with at least one cancellation reason.
func cancelled(reasons []cancellationReason) error {
	codes := make([]string, len(reasons))
	failed := false
	for i, reason := range reasons {
		codes[i] = cmp.Or(reason.code, "None")
		failed = failed || reason.code != ""
	}
	if !failed {
		return nil
	}
	e := clientError("TransactionCanceledException",
		"Transaction cancelled, please refer cancellation reasons for specific reasons [%s]",
		strings.Join(codes, ", "))
	e.reasons = reasons
	return e
}

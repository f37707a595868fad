package dynamofake

type getRequest struct {
	table                      *string
	key                        item // nil if absent
	consistent, reportCapacity bool
}

func (s *Server) getItem(in request, out []byte) ([]byte, error) {
	r := jsonReader{text: in.body}
	rq := r.getRequest()
	if err := r.end(); err != nil {
		return nil, err
	}
	t, err := s.table(rq.table)
	if err != nil {
		return nil, err
	}
	if rq.key == nil {
		return nil, missing("key")
	}
	key, err := t.key(rq.key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	found := t.items[key]
	s.mu.Unlock()
	units := readUnits(found.size(), rq.consistent)
	s.usage.read(units)
	return appendAnswer(out, "Item", found, t.name, units, rq.reportCapacity), nil
}

func (r *jsonReader) getRequest() *getRequest {
	rq := new(getRequest)
	for name := range r.fields() {
		switch name {
		case "TableName":
			rq.table = r.stringPointer()
		case "Key":
			rq.key = r.item()
		case "ConsistentRead":
			rq.consistent = r.bool()
		case "ReturnConsumedCapacity":
			rq.reportCapacity = r.capacityReport()
		default:
			r.fail(unsupported("the parameter %s of GetItem", name))
		}
	}
	return rq
}

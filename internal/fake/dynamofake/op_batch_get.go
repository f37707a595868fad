package dynamofake

import "slices"

const (
	maxBatchKeys  = 100
	maxBatchBytes = 16 << 20 // of the items in an answer
)

// tableKeys are the keys of one table in a BatchGetItem.
type tableKeys struct {
	name       string
	keys       []item
	consistent bool
}

func (s *Server) batchGetItem(in request, out []byte) ([]byte, error) {
	r := jsonReader{text: in.body}
	requests, report := r.batchGetRequest()
	if err := r.end(); err != nil {
		return nil, err
	}
	answer := batchAnswer{out: append(out, `{"Responses":{`...)}
	for i := range requests {
		t, keys, err := s.batchKeys(&requests[i])
		if err != nil {
			return nil, err
		}
		answer.add(&requests[i], t, s.itemsOf(t, keys))
	}
	s.usage.read(answer.charged.total())
	out = appendEach(append(answer.out, `},"UnprocessedKeys":{`...), answer.left, appendUnprocessed)
	out = append(out, '}')
	if report {
		out = answer.charged.append(append(out, `,"ConsumedCapacity":`...))
	}
	return append(out, '}'), nil
}

// batchAnswer is the incomplete answer to a BatchGetItem.
type batchAnswer struct {
	out     []byte
	size    int // of the items in it
	charged charges
	left    []tableKeys
}

// add writes the items of one table, up to the maximum size of the answer.
func (a *batchAnswer) add(rq *tableKeys, t *table, found []item) {
	if a.out[len(a.out)-1] == ']' {
		a.out = append(a.out, ',')
	}
	a.out = append(appendString(a.out, t.name), ":["...)
	units := 0.0
	for n, it := range found {
		if a.size+it.size() > maxBatchBytes {
			a.left = append(a.left, tableKeys{rq.name, rq.keys[n:], rq.consistent})
			break
		}
		a.size += it.size()
		units += readUnits(it.size(), rq.consistent)
		if it == nil {
			continue
		}
		if a.out[len(a.out)-1] == '}' {
			a.out = append(a.out, ',')
		}
		a.out = appendItem(a.out, it)
	}
	a.out = append(a.out, ']')
	a.charged = a.charged.add(t.name, units)
}

func (r *jsonReader) batchGetRequest() (requests []tableKeys, report bool) {
	keys := 0
	for name := range r.fields() {
		switch name {
		case "RequestItems":
			r.open('{')
			for r.next('}') {
				requests = append(requests, r.tableKeys())
				keys += len(requests[len(requests)-1].keys)
			}
		case "ReturnConsumedCapacity":
			report = r.capacityReport()
		default:
			r.fail(unsupported("the parameter %s of BatchGetItem", name))
		}
	}
	switch {
	case keys == 0:
		r.fail(invalid("BatchGetItem must have some requests set"))
	case keys > maxBatchKeys:
		r.fail(invalid("Too many items requested for the BatchGetItem call"))
	}
	return requests, report
}

func (r *jsonReader) tableKeys() tableKeys {
	t := tableKeys{name: r.name()}
	for name := range r.fields() {
		switch name {
		case "Keys":
			t.keys = append(t.keys, list(r, r.item)...)
		case "ConsistentRead":
			t.consistent = r.bool()
		default:
			r.fail(unsupported("the parameter %s of a table in BatchGetItem", name))
		}
	}
	return t
}

func (s *Server) batchKeys(rq *tableKeys) (*table, []string, error) {
	t, err := s.table(&rq.name)
	if err != nil {
		return nil, nil, err
	}
	keys := make([]string, len(rq.keys))
	for i, it := range rq.keys {
		if keys[i], err = t.key(it); err != nil {
			return nil, nil, err
		}
		if slices.Contains(keys[:i], keys[i]) {
			return nil, nil, invalid("Provided list of item keys contains duplicates")
		}
	}
	return t, keys, nil
}

func (s *Server) itemsOf(t *table, keys []string) []item {
	items := make([]item, len(keys))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		items[i] = t.items[key]
	}
	return items
}

func appendUnprocessed(out []byte, t *tableKeys) []byte {
	out = appendItems(append(appendString(out, t.name), `:{"Keys":[`...), t.keys)
	out = append(out, ']')
	if t.consistent {
		out = append(out, `,"ConsistentRead":true`...)
	}
	return append(out, '}')
}

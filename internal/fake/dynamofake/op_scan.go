package dynamofake

import (
	"slices"
	"strconv"
)

// maxScanBytes is the maximum number of bytes that DynamoDB reads for a page of a scan.
const maxScanBytes = 1 << 20

type scanRequest struct {
	table                      *string
	filter                     *string
	substitutions              substitutions
	startKey                   item
	limit                      int // 0 for none
	consistent, reportCapacity bool
}

// scanPage is a page of a scan: the items that match the filter, and the key to continue at.
type scanPage struct {
	items   []item
	scanned int
	bytes   int
	lastKey string // empty at the table's end
}

func (s *Server) scan(in request, out []byte) ([]byte, error) {
	r := jsonReader{text: in.body}
	rq := r.scanRequest()
	if err := r.end(); err != nil {
		return nil, err
	}
	t, err := s.table(rq.table)
	if err != nil {
		return nil, err
	}
	var filter *bound
	if rq.filter != nil {
		if filter, err = s.expressions.bind(filterExpression, *rq.filter, &rq.substitutions); err != nil {
			return nil, err
		}
	}
	if err := rq.substitutions.finish(filter != nil, "FilterExpression is null"); err != nil {
		return nil, err
	}
	after := ""
	if len(rq.startKey) > 0 {
		if after, err = t.key(rq.startKey); err != nil {
			return nil, err
		}
	}
	page := s.scanPage(t, after, rq.limit, filter)
	units := readUnits(page.bytes, rq.consistent)
	s.usage.read(units)
	out = page.append(out, t)
	if rq.reportCapacity {
		out = appendCapacity(append(out, `,"ConsumedCapacity":`...), t.name, units)
	}
	return append(out, '}'), nil
}

func (r *jsonReader) scanRequest() *scanRequest {
	rq := new(scanRequest)
	for name := range r.fields() {
		switch name {
		case "TableName":
			rq.table = r.stringPointer()
		case "FilterExpression":
			rq.filter = r.stringPointer()
		case "ExpressionAttributeNames":
			r.substitutionNames(&rq.substitutions)
		case "ExpressionAttributeValues":
			r.substitutionValues(&rq.substitutions)
		case "ExclusiveStartKey":
			rq.startKey = r.item()
		case "Limit":
			if rq.limit = r.int(); rq.limit < 1 {
				r.fail(invalid("Limit must be greater than or equal to 1"))
			}
		case "ConsistentRead":
			rq.consistent = r.bool()
		case "ReturnConsumedCapacity":
			rq.reportCapacity = r.capacityReport()
		default:
			r.fail(unsupported("the parameter %s of Scan", name))
		}
	}
	return rq
}

// scanPage reads the items after a key (empty for the first page): at most limit, or any number if limit is
// 0.
func (s *Server) scanPage(t *table, after string, limit int, filter *bound) scanPage {
	var page scanPage
	s.mu.Lock()
	defer s.mu.Unlock()
	places := t.scanOrder()
	if after != "" {
		at, found := slices.BinarySearchFunc(places, placeOf(after), place.compare)
		if found {
			at++
		}
		places = places[at:]
	}
	for _, p := range places {
		it := t.items[p.key]
		page.scanned++
		page.bytes += it.size()
		if filter == nil || filter.holds(it) {
			page.items = append(page.items, it)
		}
		if page.scanned == limit || page.bytes >= maxScanBytes {
			page.lastKey = p.key
			break
		}
	}
	return page
}

// append writes the page's members, and leaves the object open.
func (p *scanPage) append(out []byte, t *table) []byte {
	out = appendItems(append(out, `{"Items":[`...), p.items)
	out = strconv.AppendInt(append(out, `],"Count":`...), int64(len(p.items)), 10)
	out = strconv.AppendInt(append(out, `,"ScannedCount":`...), int64(p.scanned), 10)
	if p.lastKey != "" {
		out = appendItem(append(out, `,"LastEvaluatedKey":`...), t.keyItem(p.lastKey))
	}
	return out
}

package dynamofake

import "strconv"

// writeUnits returns the capacity units of a write: one for each KB, rounded up, of the larger of the two
// items.
func writeUnits(old, now item) float64 {
	return units(max(old.size(), now.size()), 1<<10)
}

// readUnits returns the capacity units of a read: one for each 4 KB, rounded up, and half of that for an
// eventually consistent read.
func readUnits(bytes int, consistent bool) float64 {
	n := units(bytes, 4<<10)
	if !consistent {
		n /= 2
	}
	return n
}

func units(bytes, unit int) float64 { return float64(max(1, (bytes+unit-1)/unit)) }

func appendCapacity(out []byte, tableName string, units float64) []byte {
	out = appendString(append(out, `{"TableName":`...), tableName)
	out = strconv.AppendFloat(append(out, `,"CapacityUnits":`...), units, 'f', 1, 64)
	return append(out, '}')
}

// appendAnswer writes the answer to a request on one item: the item under the given name, unless it is nil,
// and the capacity if the request asks for it.
func appendAnswer(out []byte, member string, it item, table string, units float64,
	reportCapacity bool) []byte {
	out = append(out, '{')
	if it != nil {
		out = append(appendString(out, member), ':')
		out = appendItem(out, it)
	}
	if reportCapacity {
		if it != nil {
			out = append(out, ',')
		}
		out = appendCapacity(append(out, `"ConsumedCapacity":`...), table, units)
	}
	return append(out, '}')
}

// charges are the capacity units of a transaction, by table.
type charges []charge

type charge struct {
	table string
	units float64
}

func (c charges) add(table string, units float64) charges {
	for i := range c {
		if c[i].table == table {
			c[i].units += units
			return c
		}
	}
	return append(c, charge{table, units})
}

func (c charges) append(out []byte) []byte {
	return append(appendEach(append(out, '['), c, func(out []byte, one *charge) []byte {
		return appendCapacity(out, one.table, one.units)
	}), ']')
}

func (c charges) total() float64 {
	total := 0.0
	for i := range c {
		total += c[i].units
	}
	return total
}

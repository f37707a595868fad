package dynamofake

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

const (
	maxNameBytes = 65535
	maxNesting   = 32
)

// item reads an object of attribute values.
func (r *jsonReader) item() item { return r.attributes(1) }

// attributes reads the members of an item, or of a map at this depth in an item.
func (r *jsonReader) attributes(depth int) item {
	const usual = 16 // attributes, so that the slice seldom grows
	it := make(item, 0, usual)
	r.open('{')
	for r.next('}') {
		name := r.name()
		switch {
		case r.err != nil:
			return it
		case name == "":
			r.fail(invalid("Empty attribute name"))
		case len(name) > maxNameBytes:
			r.fail(invalid("Attribute name is too large, must be less than 65536 bytes"))
		}
		it = append(it, attribute{name, r.value(depth)})
	}
	slices.SortFunc(it, func(a, b attribute) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(it); i++ {
		if it[i].name == it[i-1].name {
			r.fail(malformed("duplicate member %q in an object", it[i].name))
		}
	}
	return it
}

// value reads an attribute value, {"S":"…"}, at this depth in its item.
func (r *jsonReader) value(depth int) value {
	if depth > maxNesting {
		r.fail(invalid("Nesting Levels have exceeded supported limits: " +
			"Attributes in the item have nested levels beyond supported limit"))
	}
	var v value
	if !r.null() {
		r.open('{')
		for r.next('}') {
			name := r.name()
			if r.null() {
				continue
			}
			if v.kind != kindNone {
				r.fail(invalid("Supplied AttributeValue has more than one datatypes set, " +
					"must contain exactly one of the supported datatypes"))
				break
			}
			v = r.typed(name, depth)
		}
	}
	if v.kind == kindNone {
		r.fail(invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"))
	}
	return v
}

func (r *jsonReader) typed(name string, depth int) value {
	switch name {
	case "S":
		return value{kind: kindS, text: r.string()}
	case "N":
		return value{kind: kindN, text: r.number()}
	case "B":
		return value{kind: kindB, text: r.binary()}
	case "BOOL":
		return value{kind: kindBOOL, boolean: r.bool()}
	case "NULL":
		if !r.bool() {
			r.fail(invalid("One or more parameter values were invalid: " +
				"Null attribute value types must have the value of true"))
		}
		return value{kind: kindNULL}
	case "M":
		return value{kind: kindM, members: r.attributes(depth + 1)}
	case "L":
		return value{kind: kindL,
			members: list(r, func() attribute { return attribute{value: r.value(depth + 1)} })}
	case "SS":
		return r.set(kindSS, kindS, r.string)
	case "NS":
		return r.set(kindNS, kindN, r.number)
	case "BS":
		return r.set(kindBS, kindB, r.binary)
	}
	r.fail(invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes; "+
		"unknown datatype %q", name))
	return value{}
}

func (r *jsonReader) set(set, member kind, read func() string) value {
	v := value{kind: set, members: list(r, func() attribute {
		return attribute{value: value{kind: member, text: read()}}
	})}
	if len(v.members) == 0 {
		r.fail(invalid("One or more parameter values were invalid: An %s set  may not be empty",
			strings.ToLower(member.longName())))
	}
	slices.SortFunc(v.members, func(a, b attribute) int { return strings.Compare(a.value.text, b.value.text) })
	for i := 1; i < len(v.members); i++ {
		if v.members[i].value.text == v.members[i-1].value.text {
			r.fail(invalid("One or more parameter values were invalid: Input collection contains duplicates"))
		}
	}
	return v
}

func (r *jsonReader) number() string {
	s := r.string()
	if r.err != nil {
		return ""
	}
	n, err := canonicalNumber(s)
	if err != nil {
		r.fail(err)
	}
	return n
}

func (r *jsonReader) binary() string {
	s := r.string()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		r.fail(malformed("a binary value is not base64: %v", err))
	}
	return string(b)
}

func appendItem(out []byte, it item) []byte {
	return append(appendEach(append(out, '{'), it, func(out []byte, a *attribute) []byte {
		return appendValue(append(appendString(out, a.name), ':'), &a.value)
	}), '}')
}

// appendItems appends items with commas between them.
func appendItems(out []byte, items []item) []byte {
	return appendEach(out, items, func(out []byte, it *item) []byte { return appendItem(out, *it) })
}

func appendValue(out []byte, v *value) []byte {
	out = append(out, `{"`...)
	out = append(out, v.kind.String()...)
	out = append(out, `":`...)
	switch v.kind {
	case kindBOOL:
		out = strconv.AppendBool(out, v.boolean)
	case kindNULL:
		out = append(out, "true"...)
	case kindM:
		out = appendItem(out, v.members)
	case kindL:
		out = appendList(out, v.members, appendValue)
	case kindSS, kindNS, kindBS:
		out = appendList(out, v.members, appendScalar)
	case kindS, kindN, kindB, kindNone:
		out = appendScalar(out, v)
	}
	return append(out, '}')
}

func appendList(out []byte, members []attribute, appendMember func([]byte, *value) []byte) []byte {
	return append(appendEach(append(out, '['), members, func(out []byte, a *attribute) []byte {
		return appendMember(out, &a.value)
	}), ']')
}

// appendScalar writes the text of an S, N or B.
func appendScalar(out []byte, v *value) []byte {
	if v.kind != kindB {
		return appendString(out, v.text)
	}
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, []byte(v.text))
	return append(out, '"')
}

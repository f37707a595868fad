package dynamofake

import (
	"slices"
	"strings"
)

// kind is the type of an attribute.
type kind uint8

const (
	kindNone kind = iota
	kindS
	kindN
	kindB
	kindBOOL
	kindNULL
	kindL
	kindM
	kindSS
	kindNS
	kindBS
)

// String returns the name of the type in DynamoDB's JSON.
func (k kind) String() string {
	return [...]string{"", "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"}[k]
}

// longName returns the name of the type in one of DynamoDB's messages.
func (k kind) longName() string {
	return [...]string{"", "STRING", "NUMBER", "BINARY", "BOOLEAN", "NULL", "LIST", "MAP",
		"STRING_SET", "NUMBER_SET", "BINARY_SET"}[k]
}

// ordered reports whether values of the type can be compared by < and >.
func (k kind) ordered() bool { return k == kindS || k == kindN || k == kindB }

func (k kind) isSet() bool { return k == kindSS || k == kindNS || k == kindBS }

// value is an attribute value. It is immutable.
type value struct {
	kind    kind
	boolean bool        // of a BOOL
	text    string      // an S, a B's bytes, or an N in canonical form
	members []attribute // of an M by name, of an L in its order, of a set by text; only an M's have names
}

type attribute struct {
	name  string
	value value
}

// item is an item: its attributes in the order of their names. It is immutable. nil means that there is no
// item.
type item []attribute

const maxItemBytes = 400 << 10

func compareNames(a attribute, name string) int { return strings.Compare(a.name, name) }

// get returns the attribute's value, or nil if the item has none.
func (it item) get(name string) *value {
	if i, ok := slices.BinarySearchFunc(it, name, compareNames); ok {
		return &it[i].value
	}
	return nil
}

// size returns the size of the item in bytes, for limits and capacity units.
func (it item) size() int {
	n := 0
	for i := range it {
		n += len(it[i].name) + it[i].value.size()
	}
	return n
}

// project returns the attributes with these names.
func (it item) project(names []string) item {
	var out item
	for i := range it {
		if slices.Contains(names, it[i].name) {
			out = append(out, it[i])
		}
	}
	return out
}

func (v *value) size() int {
	const container, member = 3, 1 // overhead of a list or map, and of each of its members
	switch v.kind {
	case kindS, kindB:
		return len(v.text)
	case kindN:
		return numberSize(v.text)
	case kindBOOL, kindNULL:
		return 1
	case kindL, kindM:
		return container + member*len(v.members) + item(v.members).size()
	case kindSS, kindNS, kindBS:
		return item(v.members).size()
	case kindNone:
	}
	return 0
}

func (v *value) equal(w *value) bool {
	if v.kind != w.kind || v.boolean != w.boolean || v.text != w.text {
		return false
	}
	return slices.EqualFunc(v.members, w.members, func(a, b attribute) bool {
		return a.name == b.name && a.value.equal(&b.value)
	})
}

// compare orders two values of the same ordered type. ok is false for other values.
func (v *value) compare(w *value) (order int, ok bool) {
	switch {
	case v.kind != w.kind || !v.kind.ordered():
		return 0, false
	case v.kind == kindN:
		return compareNumbers(v.text, w.text), true
	}
	return strings.Compare(v.text, w.text), true
}

package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/avro"

	"github.com/idemsk/idemsk/schema"
)

// counter walks encoded data to count its elements, before the library makes a value of them, and writes the JSON
// of that value.
type counter struct {
	avroType string     // of the Avro specification
	name     string     // the full name, or the type of one without a name
	kind     string     // of the encoded data
	size     int        // in the data, of a fixed size
	scale    int        // of a decimal: the zeros of its text
	big      bool       // a decimal that has its scale in the data
	names    []string   // of the fields of a record, or of the branches of a union
	quoted   [][]byte   // the names of the fields, in JSON
	children []*counter // the fields of a record, the branches of a union, or what a list or map has
}

// counters makes the counters of a schema. A named type has one, so that types can contain themselves.
type counters map[string]*counter

// of returns the counter of a part of a schema. Names without a dot are in the namespace of the type around
// them.
func (c counters) of(n *avro.SchemaNode, namespace string) (*counter, error) {
	made := &counter{avroType: n.Type, name: n.Type, kind: n.Type, size: n.Size, scale: n.Scale, big: n.LogicalType == "big-decimal"}
	var parts []*avro.SchemaNode
	switch n.Type {
	case "null", "string", "bytes", "int", "long", "enum", "fixed":
	case "boolean":
		made.kind, made.size = "fixed", 1
	case "float":
		made.kind, made.size = "fixed", 4
	case "double":
		made.kind, made.size = "fixed", 8
	case "record", "error":
		made.kind = "record"
		for i := range n.Fields {
			quoted, err := scalars["string"].EncodeJSON(n.Fields[i].Name)
			if err != nil {
				return nil, unquoted(err)
			}
			made.names, made.quoted = append(made.names, n.Fields[i].Name), append(made.quoted, quoted)
			parts = append(parts, &n.Fields[i].Type)
		}
	case "array":
		parts = append(parts, n.Items)
	case "map":
		parts = append(parts, n.Values)
	case "union":
		for i := range n.Branches {
			parts = append(parts, &n.Branches[i])
		}
	default:
		return c.named(n, namespace)
	}
	if n.Name != "" {
		made.name = qualified(n.Name, n.Namespace)
		namespace = made.name[:max(0, strings.LastIndexByte(made.name, '.'))]
		c[made.name] = made
	}
	for _, part := range parts {
		child, err := c.of(part, namespace)
		if err != nil {
			return nil, err
		}
		made.children = append(made.children, child)
		if n.Type == "union" {
			made.names = append(made.names, child.name)
		}
	}
	return made, nil
}

// named returns the counter of a type that is named, not defined. If no part before has defined it, another
// schema has.
func (c counters) named(n *avro.SchemaNode, namespace string) (*counter, error) {
	for _, name := range []string{qualified(n.Type, namespace), n.Type} {
		if known := c[name]; known != nil {
			return known, nil
		}
	}
	s, err := n.Schema(anyName)
	if err != nil {
		return nil, fmt.Errorf("the type %q: %w", n.Type, err)
	}
	root := s.Root()
	if root.Type == n.Type {
		return nil, fmt.Errorf("the type %q is not defined", n.Type)
	}
	return c.of(root, "")
}

func qualified(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

var errMalformed = errors.New("the data is cut off or does not fit the schema")

// maxDepth is the maximum depth of a value.
const maxDepth = 1000

// count counts the value at the beginning of data and returns the data behind it.
func (c *counter) count(data []byte, m *schema.Meter, name string, depth int) (rest []byte, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is deeper than %d values in each other", maxDepth)
	}
	if err := m.Add(len(name) + max(0, c.scale)); err != nil {
		return nil, err
	}
	switch c.kind {
	case "null":
		return data, nil
	case "fixed":
		return skip(data, int64(c.size))
	case "int", "long", "enum":
		_, data, err = long(data)
		return data, err
	case "record":
		for i, field := range c.children {
			if data, err = field.count(data, m, c.names[i], depth+1); err != nil {
				return nil, err
			}
		}
		return data, nil
	case "array", "map":
		return c.blocks(data, m, depth)
	}
	n, data, err := long(data)
	switch {
	case err != nil:
		return nil, err
	case c.kind != "union":
		if rest, err = skip(data, n); err == nil && c.big {
			err = m.AddBytes(bigScale(data[:n]))
		}
		return rest, err
	case n < 0 || n >= int64(len(c.children)):
		return nil, errMalformed
	}
	return c.children[n].count(data, m, "", depth+1)
}

// blocks counts the items of a list or map. A negative number of them has the size of the block behind it.
func (c *counter) blocks(data []byte, m *schema.Meter, depth int) ([]byte, error) {
	for items := int64(0); ; {
		n, rest, err := long(data)
		if data = rest; err != nil || n == 0 {
			return data, err
		}
		if n < 0 {
			if _, data, err = long(data); err != nil {
				return nil, err
			}
			if n = -n; n < 0 {
				return nil, errMalformed
			}
		}
		if err := c.copied(items, m); err != nil {
			return nil, err
		}
		items += n
		for ; n > 0; n-- {
			if data, err = c.item(data, m, depth); err != nil {
				return nil, err
			}
		}
	}
}

// copiesPerElement is the number of items whose copying takes about as much as an element.
const copiesPerElement = 16

// copied counts the items of a list that the library copies, which are those of the blocks before each block.
func (c *counter) copied(items int64, m *schema.Meter) error {
	if c.kind != "array" {
		return nil
	}
	for range items / copiesPerElement {
		if err := m.Add(0); err != nil {
			return err
		}
	}
	return nil
}

// item counts an item of a list, or the key and the value of an entry of a map.
func (c *counter) item(data []byte, m *schema.Meter, depth int) ([]byte, error) {
	if c.kind == "map" {
		length, key, err := long(data)
		if err != nil {
			return nil, err
		}
		if data, err = skip(key, length); err != nil {
			return nil, err
		}
	}
	return c.children[0].count(data, m, "", depth+1)
}

// bigScale returns the number of zeros that a big-decimal can have as text. What is malformed has none.
func bigScale(data []byte) int {
	n, data, err := long(data)
	if err == nil {
		data, err = skip(data, n)
	}
	if err == nil {
		n, _, err = long(data)
	}
	if err != nil || n < 0 {
		return 0
	}
	return int(min(n, schema.DefaultMaxBytes))
}

func long(data []byte) (n int64, rest []byte, err error) {
	n, size := binary.Varint(data)
	if size <= 0 {
		return 0, nil, errMalformed
	}
	return n, data[size:], nil
}

func skip(data []byte, n int64) ([]byte, error) {
	if n < 0 || n > int64(len(data)) {
		return nil, errMalformed
	}
	return data[n:], nil
}

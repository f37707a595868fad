package schema

import (
	"fmt"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// The defaults of Limits. Records that keep to them take at most about 64 MB of memory until they are
// handled.
const (
	DefaultMaxBytes    = 8 << 20
	DefaultMaxElements = 100_000
)

// Limits bound what a value can grow to when it is decoded: some bytes of Avro or Protobuf stand for
// thousands of elements. A value beyond them is not decoded, which is a permanent error. Zero fields have the
// defaults.
type Limits struct {
	// MaxBytes is the maximum size of a value without its compression, and of the same value as JSON (default
	// DefaultMaxBytes).
	MaxBytes int
	// MaxElements is the maximum number of elements of a value: its fields, the items of its lists, the
	// entries of its maps, and theirs (default DefaultMaxElements).
	MaxElements int
}

// Meter counts what a value will grow to, before it is decoded.
type Meter struct {
	limits          Limits
	bytes, elements int
}

// Meter returns a meter of one value.
func (l Limits) Meter() *Meter {
	return &Meter{limits: Limits{MaxBytes: orDefault(l.MaxBytes, DefaultMaxBytes),
		MaxElements: orDefault(l.MaxElements, DefaultMaxElements)}}
}

// Add counts an element that has the given number of bytes, for example those of its name. It returns an
// error beyond a limit.
func (m *Meter) Add(bytes int) error {
	if err := m.addElements(1); err != nil {
		return err
	}
	return m.AddBytes(bytes)
}

func (m *Meter) addElements(n int) error {
	if m.elements += n; m.elements > m.limits.MaxElements {
		return fmt.Errorf("it has more than %d elements (schema.Limits.MaxElements)", m.limits.MaxElements)
	}
	return nil
}

// AddBytes counts bytes that belong to no element of their own.
func (m *Meter) AddBytes(bytes int) error {
	if bytes > m.limits.MaxBytes-m.bytes {
		return fmt.Errorf("it has %d bytes or more, the limit is %d (schema.Limits.MaxBytes)", m.bytes+bytes,
			m.limits.MaxBytes)
	}
	m.bytes += bytes
	return nil
}

// checkJSON applies the limits to JSON without parsing it.
func (l Limits) checkJSON(data []byte) error {
	m := l.Meter()
	if err := m.AddBytes(len(data)); err != nil {
		return err
	}
	return m.addElements(rawjson.Elements(data))
}

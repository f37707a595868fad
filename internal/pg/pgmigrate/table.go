package pgmigrate

import (
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// Table is the name of a table.
type Table struct {
	schema string // "" is the first of the search path
	name   string
}

var tableName = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_-]{0,62})\.)?([A-Za-z_][A-Za-z0-9_-]{0,47})$`)

// ParseTable reads a table's name, with an optional schema and a dot before it. It leaves room for suffixes
// of up to 15 bytes.
func ParseTable(name string) (Table, error) {
	m := tableName.FindStringSubmatch(name)
	if m == nil {
		return Table{}, fmt.Errorf("Table is %q: want up to 48 letters, digits, '_' and '-', not beginning with a digit, "+
			"with a schema and a dot before it or not", name)
	}
	return Table{schema: m[1], name: m[2]}, nil
}

// SQL returns the name with a suffix, quoted for a statement.
func (t Table) SQL(suffix string) string {
	if t.schema == "" {
		return pgx.Identifier{t.name + suffix}.Sanitize()
	}
	return pgx.Identifier{t.schema, t.name + suffix}.Sanitize()
}

// String returns the name as ParseTable takes it.
func (t Table) String() string {
	if t.schema == "" {
		return t.name
	}
	return t.schema + "." + t.name
}

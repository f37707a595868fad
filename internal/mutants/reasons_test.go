//go:build mutants

package mutants_test

const (
	capacity = "a capacity: only allocations change"
	noNil    = "a parameter that is nil is not sent by the SDK, and append puts the others behind it"
)

// reasons says for each mutant that no test detects why its behaviour is the same.
var reasons = map[string]map[string]string{
	"idem/dynamostore/expression.go": {
		"settleChange: Status: store.StatusStarted => ": "store.Settled does not read the status, and settleChange does not write that of the empty entry",
		"expression: 12 => 13":                          capacity,
		"expression: 16 => 17":                          capacity,
	},
	"idem/dynamostore/statement.go": {
		"insertStatement: b.Grow(320) => ": capacity,
		"insertStatement: 320 => 321":      capacity,
		"statement: b.Grow(512) => ":       capacity,
		"statement: 512 => 513":            capacity,
		"statement: 0 => 1":                noNil,
		"statement: + => -":                capacity,
		"statement: 1 => 2":                capacity,
	},
	"idem/dynamostore/schema.go": {
		"attributes: 15 => 16": capacity,
	},
}

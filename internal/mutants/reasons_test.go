//go:build mutants

package mutants_test

// reasons says for each mutant that no test detects why its behaviour is the same.
var reasons = map[string]map[string]string{}

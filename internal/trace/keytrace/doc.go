// Package keytrace has the format of the traces of keys, which scripts/trace.sh compares with the model
// (docs/spec/trace.tla), and the mapping of entries to the states of the model.
package keytrace

// Package dynamofake is an in-process DynamoDB data plane for local runs, tests and benchmarks. A real
// DynamoDB client talks to it over HTTP (JSON 1.0) through its BaseEndpoint option.
//
// It does what this project sends, and no more: tables with one hash key of type S and a time to live,
// PutItem, GetItem, UpdateItem, DeleteItem, Scan, BatchGetItem, TransactWriteItems, and batches of PartiQL's
// INSERT and UPDATE (BatchExecuteStatement), with conditions, filters and updates on top-level attributes
// that are parsed, checked and evaluated as DynamoDB does it, reserved words, number rules, size limits and
// billed capacity included. Whatever it does not do it refuses by name; it ignores no parameter but
// CreateTable's for throughput, streams, encryption and tags. A differential test holds it to DynamoDB
// Local.
//
// Two things differ from DynamoDB on purpose: reads are always consistent (only their price depends on
// ConsistentRead), and expired items stay until [Server.ExpireNow] is called, since DynamoDB itself
// promises no more than "within a few days".
//
// How a request goes: [Server.ServeHTTP] reads it, op_*.go decodes it into a write or a read, the
// expression_*.go files compile its expressions (cached by text) and bind the request's placeholders to
// them, and table.go applies the result under one lock. Items never change once stored, so all work but
// evaluation and the map access itself happens outside the lock. PartiQL (partiql.go) is
// one more way into the same expressions and writes.
package dynamofake

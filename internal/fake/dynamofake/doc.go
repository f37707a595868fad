// Package dynamofake is an in-process DynamoDB for local runs, tests and benchmarks. DynamoDB clients reach
// it over HTTP (JSON 1.0) by their option BaseEndpoint.
//
// It implements the operations that this project uses: tables with one hash key of type S and a time to live,
// PutItem, GetItem, UpdateItem, DeleteItem, Scan, BatchGetItem, TransactWriteItems, and batches of PartiQL's
// INSERT and UPDATE (BatchExecuteStatement). Conditions, filters and updates on top-level attributes are
// parsed, checked and evaluated as in DynamoDB, including reserved words, number rules, size limits and
// billed capacity. Any other operation or parameter is refused by name. Only the parameters of CreateTable
// for throughput, streams, encryption and tags are ignored. A differential test compares the package with
// DynamoDB Local.
//
// There are two intended differences from DynamoDB. Reads are always consistent; ConsistentRead affects only
// their capacity units. Expired items stay until [Server.ExpireNow] is called, because DynamoDB only promises
// to delete them "within a few days".
//
// [Server.ServeHTTP] reads a request, op_*.go decodes it into a write or a read, the expression_*.go files
// compile its expressions (cached by text) and bind the request's placeholders, and table.go applies the
// result under one lock. Stored items are immutable, so only the evaluation and the map access need the lock.
// PartiQL statements (partiql.go) are translated to the same expressions and writes.
package dynamofake

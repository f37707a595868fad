// Package store defines what a store of idempotency keys implements: the stored entry of a key, the requests
// that change it, and the ten rules for these changes. Applications use package idem, which drives a [Store].
//
// The rules are in rules.go, one function each, and as sentences in docs/design.md. Stores that decide in Go
// call the functions. Stores that decide at the server, in Lua or SQL, state the same rules in their own
// language; package storetest checks that they agree with the functions. The rules were checked with TLA+
// (docs/spec); a rule and the model change together.
//
// To write a store, implement [Store], and [Admin], through which the suite reads entries, and call
// storetest.Run on it. Add [Batcher] if one request can carry many elements, and [Transactor] if the database can
// commit an effect together with a completion. CONTRIBUTING.md has the steps.
package store

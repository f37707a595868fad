// Package store defines what a store of idempotency keys implements: the stored entry of a key, the requests that change it, and the
// ten rules for these changes. Applications use package idem, which drives a [Store].
//
// The rules are in rules.go, one function each. Stores that decide in Go call them. Stores that decide at the server, in Lua or SQL, state the same
// rules in their own language; package storetest checks that both agree. The rules were checked with TLA+ (docs/spec); a rule and the model change together.
//
// To write a store, implement [Store], call storetest.Run on it, and add [Batcher], [Admin] or [Transactor] if the database can
// serve them.
package store

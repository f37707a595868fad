// Package idem completes each idempotency key once, although its message may be delivered many times, to many
// processes, which may crash, pause and resume. A handler may run again after a crash: see Guarantees.
//
// A key is in one of three stored states, kept by conditional writes in a store (package idem/store):
//
//	            claim                          complete
//	absent ────────────────▶ STARTED ─────────────────────────▶ COMPLETED ──┐
//	                         │  ▲  │ fail                                   │ retention over: as absent
//	    release (retryAt)    │  │  └──────────────────────────▶ FAILED ─────┤ (TTL deletes it later)
//	                         └──┘ steal when the lease is over    └─ redrive: claimed again
//
// An [Engine] takes a [Task] (key, fingerprint, handler) through those states: it claims the key, runs the
// handler under a lease that a heartbeat extends, and settles the key by the handler's result.
//
// # Which part to use
//
// A handler uses [Permanent], [RetryAfter], [Unavailable] and [AttemptFrom]. A program that gets one message
// at a time uses [New] and [Engine.Do]. A program that gets many uses package idem/schedule. [Session] and
// [Claim] are for schedulers such as that one: [Session.Claim], [Session.Run], [Session.Wait] and
// [Session.Release] are the steps of Do. Packages app/lambda and app/process run a handler of Kafka records
// as a function or a process.
//
// # Guarantees
//
// A key is completed once: within its retention, exactly one of its owners completes it, and every later
// delivery gets the stored result of that completion.
//
// The handler may run more than once. If a process dies after the effect and before the completion, the next
// owner runs the handler again. Effects are exactly once only if they commit together with the completion, or
// if their target refuses a smaller fencing token ([Attempt.Token]). With [Config.AtMostOnce] the next owner
// sends a dead letter instead.
//
// # The rules
//
// Every store keeps ten rules. docs/design.md states them as sentences, idem/store/rules.go as functions.
// Package storetest tests a store against them. They were model-checked with TLA+ (docs/spec).
package idem

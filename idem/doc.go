// Package idem makes the effect of a message happen once per idempotency key, although the message may be delivered
// many times, to many processes, which may crash, pause and come back.
//
// A key is in one of three stored states, kept by conditional writes in a [Store]:
//
//	            claim                          complete
//	absent ────────────────▶ STARTED ─────────────────────────▶ COMPLETED ──┐
//	                         │  ▲  │ fail                                   │ retention over: as absent
//	    release (retryAt)    │  │  └──────────────────────────▶ FAILED ─────┤ (TTL deletes it some day)
//	                         └──┘ steal when the lease is over    └─ redrive: claimed again
//
// An [Engine] takes a [Task] (key, fingerprint, handler) through those states: it claims the key, runs the handler under
// a lease that a heartbeat extends, and settles the key by what happened. [Engine.Do] is the whole way for one task;
// [Session.Claim], [Session.Run], [Session.Wait] and [Session.Release] are its parts, for callers that schedule many.
//
// # What is promised, and what is not
//
// One completion per key: of all the owners that a key ever had within its retention, one completes it, and every later
// delivery gets that one's stored result. That is not "the handler runs once": a process that dies after its effect and
// before the completion leaves a key that the next owner runs again. Effects are exactly once only if they commit
// together with the completion, or if the place where they land refuses an older fencing token ([Attempt.Token]).
//
// # The rules
//
// The ten rules that every store keeps are stated, one function each, in rules.go; package storetest proves them of a
// store. They were model-checked with TLA+ before they were written down.
package idem

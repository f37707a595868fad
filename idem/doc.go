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
// at a time uses [New] and [Engine.Do]. A program that gets many uses a [Scheduler]. Packages app/lambda and
// app/process run a handler of Kafka records as a function or a process.
//
// # The scheduler
//
// A caller arranges its messages in lanes. The items of a lane are handled in order: one after another, or in one
// call of a handler that takes many ([SchedulerConfig.Bulk]). A lane stops at an item that fails. Lanes are handled
// concurrently, up to [SchedulerConfig.Concurrency]. A lane is, for example, a Kafka partition, one key of a
// partition, or a single message if no order is required.
//
// A batch with a deadline, such as a Lambda invocation: [Scheduler.Run] returns when each item has its
// outcome. A lane stops at its first item that is not settled.
//
// An endless source, such as a consumer process: [Scheduler.Stream]. Lanes exist as long as they have items.
// There are no batches, so no item waits for the end of others. An item that fails is tried again until it is
// settled. The caller adds items, bounds how many are in progress, and stops lanes whose source is gone, such
// as a partition that is revoked.
//
// What it adds to an engine:
//
//   - Duplicates: if several items in progress make the same request under the same key, one is executed, and
//     the others share its outcome without a request.
//   - Prefetch: if the store takes many claims in one request, the claims of the next items are sent
//     together. A claim whose item does not begin is released, and its attempt is not counted.
//   - Group commit: concurrent completions share a request.
//   - Isolation: a key with two attempts that did not end, because their processes died, is taken over while no
//     other item is in progress or claimed. If the message kills the process again, only this message has an
//     attempt counted.
//   - A time budget, for a batch: items that have not begun when the time ends are released, and
//     [Scheduler.Run] returns in time for an answer even if a handler does not return.
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

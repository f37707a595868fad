// Package schedule schedules many tasks through an [idem.Engine]. It does not depend on the source of the
// messages.
//
// # Lanes
//
// A caller arranges its messages in lanes. The items of a lane are handled in order: one after another, or in one
// call of a handler that takes many ([Config.Bulk]). A lane stops at an item that fails. Lanes are handled
// concurrently, up to [Config.Concurrency]. A lane is, for example, a Kafka partition, one key of a partition, or a
// single message if no order is required.
//
// # What it adds to an engine
//
//   - Duplicates: if several items in progress make the same request under the same key, one is executed, and
//     the others share its outcome without a request.
//   - Prefetch: if the store takes many claims in one request, the claims of the next items are sent
//     together. A claim whose item does not begin is released, and its attempt is not counted.
//   - Group commit: concurrent completions share a request (see [idem.Session.RunAsync]).
//   - Isolation: a key with two attempts that did not end, because their processes died, is taken over while no
//     other item is in progress or claimed. If the message kills the process again, only this message has an
//     attempt counted.
//   - A time budget, for a batch: items that have not begun when the time ends are released, and
//     [Scheduler.Run] returns in time for an answer even if a handler does not return.
//
// # Batches and streams
//
// A batch with a deadline, such as a Lambda invocation: [Scheduler.Run] returns when each item has its
// outcome. A lane stops at its first item that is not settled.
//
// An endless source, such as a consumer process: [Scheduler.Stream]. Lanes exist as long as they have items.
// There are no batches, so no item waits for the end of others. An item that fails is tried again until it is
// settled. The caller adds items, bounds how many are in progress, and stops lanes whose source is gone, such
// as a partition that is revoked.
//
// For both, [Config.Bulk] is a handler that takes many messages in one call.
//
// # How it works
//
// A machine without goroutines, clock or I/O decides what happens next (machine.go). A driver does it
// (driver.go).
package schedule

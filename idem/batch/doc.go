// Package batch schedules many tasks through an [idem.Engine]. It knows nothing of where messages come from.
//
// # Lanes
//
// A caller arranges its messages in lanes. The items of a lane are handled one after another, in order, and a lane stops at its
// first item that is not settled; lanes are handled concurrently, as far as [Config.Concurrency] allows. A lane is a Kafka
// partition, or one key of it, or a single message where no order is to be kept.
//
// # What it adds to an engine
//
//   - Duplicates: of the items of a batch that ask for the same thing under the same key, one is executed, and the others share
//     its outcome without a request.
//   - Prefetch: where the store takes many claims in one request, claims are made for the items that come next, and given
//     back with their attempts if they are not begun.
//   - Group commit: completions that are made at the same time share a request (see [idem.Session.RunAsync]).
//   - Isolation: a key whose owner's lease is over is taken over with nothing else begun or claimed. If the message kills the
//     process again, it is the only one that is charged an attempt.
//   - A time budget: what is not begun when time runs out is given back, and [Scheduler.Run] returns in time for an answer
//     even if a handler does not return.
//
// # Three shapes of caller
//
// A batch with a barrier and a deadline, such as a Lambda invocation: [Scheduler.Run] returns when each item has its outcome.
//
// A handler that takes many messages in one call: [Scheduler.RunBulk] claims them, hands over those that are to be executed, and
// settles each by its own result.
//
// An endless source, such as a consumer process: lanes that live as long as their partition is assigned, fed item by item, with no
// barrier between batches. Its signatures will be
//
//	func (s *Scheduler) Stream(ctx context.Context, done func(*Item)) *Stream
//	func (st *Stream) Add(lane string, item *Item)           // returns at once: the caller bounds what is on its way
//	func (st *Stream) Stop(lane string) (unbegun []*Item)    // of a partition that is revoked
//	func (st *Stream) Close()                                // when each item has ended
package batch

// Package consumer runs a handler in a long-running process that consumes topics as a member of a Kafka
// consumer group, on ECS, EKS or a virtual machine. Package app/lambda runs the same handler as a Lambda
// function; both use package kafka, with the same keys, stores and dead letters. Package app/process
// configures a consumer by environment variables.
//
// # Guarantees
//
//   - An offset is committed only if every earlier record of the partition is settled: completed, replayed,
//     or sent to the dead letters. So no record is lost, whatever crashes. A commit does not move an offset
//     back, unless the brokers lost records: there is one commit at a time, and none for a partition that was
//     lost. A commit without an answer, which a broker may apply late, is repeated.
//   - A record beyond the committed offset that was settled is delivered again after a crash. The store has
//     its outcome, so its handler is not called again. After a clean shutdown no handler is called again.
//   - Order is kept within a lane: the records of a partition with the same Kafka key (see
//     kafka.Config.Order). A slow or failing record holds up its own lane only.
//   - Memory is bounded under any lag (see [Config].MaxBytes).
//
// # The window
//
// The window of a partition is its records from the first that is not settled to the last that was read.
// [Config] bounds its records and bytes. When a window is full, the partition is paused, and it is resumed
// when the window is half empty. A record that waits, for example because it fails and there are no dead
// letters, therefore stops its lane at once and its partition when the window is full.
//
// # Rebalances
//
// When a partition is revoked, its records that have not begun are dropped and their claims released. Running
// handlers have [Config].RevokeTimeout to return. Then the watermark is committed. A handler that still runs
// may complete its key, because the fencing token decides, but its offset is not committed: the new owner
// receives the record, waits for the key, and replays the result. For a partition that was lost nothing is
// committed.
//
// # Shutdown
//
// When the context of [Consumer.Run] ends, no more records are read, records that have not begun are dropped,
// running handlers have [Config].DrainTimeout to return, the offsets are committed, and the member leaves the
// group. A static member does not leave, unless [Config].LeaveGroup is set.
package consumer

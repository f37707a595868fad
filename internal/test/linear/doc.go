// Package linear checks that concurrent clients of a store see linearizable histories: each call takes effect
// at one moment between its beginning and its end, and in the order of these moments all answers are those
// that the rules of package store demand. The clients make random calls, over networks that delay, cut and
// lose messages (Check). Porcupine looks for the moments, for one key at a time, because the rules concern
// one key each.
//
// # The model
//
// The model (entry.go, claim.go, settle.go) is a second statement of the rules. It calls no function of
// idem/store/rules.go, by which most stores decide, so an error in the rules would have to be in both.
// TestMemory compares the two: idem/memstore is rules.go and a lock.
//
// A state of the model is the entry of one key. Its times and its token are spans [lo, hi]: a completion that
// was answered by nil was written at some millisecond between its call and its return, and the first answer
// that shows the entry narrows the span to one value.
//
// Clients of a store.Transactor also complete keys with an effect, which adds one to a counter of the key,
// complete keys that they have not claimed, and read the counters. The counter is a part of the state. It
// stays when the entry is deleted.
//
// # Why each alarm is a violation
//
// The checker accepts all that a correct store can do:
//
//   - Order. Beginnings and ends are numbered by one counter, before the call and after the return. So one
//     call is ordered before another only if it had returned.
//   - Time. The clock that decides (the server's; for DynamoDB the client's) is that of this machine, which
//     the checker reads before and after the call. Where in the call it is read does not matter: PostgreSQL
//     decides by the time before a statement waited. So "the lease is over" is right if the return is not
//     before the earliest end of the lease plus the skew, and "in flight" if the call is before the latest
//     one. A key that is taken gets an entry with the time at which it was taken, and its lease was over at
//     this time.
//   - Lost replies. An operation without an answer takes effect at any time from its call on, or never: it
//     ends after all others, and the model also accepts that it has no effect. A client that gives up a
//     request sends it again over another connection. The operation then has an answer, but each abandoned
//     connection may still deliver the request: each is one more operation without an answer. A client makes
//     one call at a time, so the connections on which it sends anything during a call belong to the call.
//   - The end of retention. From the earliest expiry on, an entry may be deleted or there.
//   - Contention. A store may answer that a key is being written if another operation on the key overlaps.
//
// The clock of the machine must not be set back during a run. Settlements carry tokens that a claim has
// returned, as package store requires: PostgreSQL reads the reason of a refusal after it, so an extension
// that arrives before the claim that issues its token can be answered by nil.
//
// # What it can miss
//
//   - An error in time that is smaller than the duration of its call, except of a key that is taken too
//     early.
//   - A value of an entry that no operation reads before it changes again.
//   - An effect of an abandoned request that comes much too late, or twice on more connections than were
//     used.
//   - What the clients do not ask for: List, effects whose conditions do not hold, results that are not
//     stored, the time of a failure. idem/storetest checks them.
//   - Servers whose clocks differ, and failovers.
//
// A key whose check takes longer than a minute does not count (Report.Undecided). The time grows with the
// number of abandoned requests, so a key with several is replaced by another one.
//
// # What it finds
//
// Of the 109 broken stores of idem/storetest it finds the 98 whose fault is in something that clients ask
// for, each within 3,000 operations (TestHistoriesOfBrokenStoresAreNotLinearizable). Among them:
//
//	broken store                                    rule
//	a fresh claim does not ask for absence          1, one winner
//	a take-over keeps the token                     2, the fencing token grows
//	a settlement ignores the owner                  3, only the owner settles
//	COMPLETED is taken                              4, final states
//	a settlement does not recognise itself          5, lost replies
//	fingerprints are not compared                   6, fingerprint
//	a lease ends a millisecond early                7, leases
//	a steal compares the token alone                7, leases
//	a refund counts twice                           8, attempts
//	TTL deletes locks                               9, expiry
//	a redrive opens every failure                   10, redrive
//
// It also found these faults in the statements of the real stores, behind the proxies, each in a few seconds:
//
//	broken store                                                           operations on other keys before
//	PostgreSQL: a settlement ignores the release before it                 0
//	PostgreSQL: a take-over does not lock the row that it has read         160
//	Redis: a settlement does not recognise itself                          40
//	DynamoDB (in process): a take-over compares neither lease nor delay    1,520
package linear

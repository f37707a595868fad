// Package proof holds what a function has left in its tables and its queue against what must be there.
//
// What must be there is worked out by package expect, from the records alone. Where processes were killed, the audit of the
// ledger tells which payments were booked again, and each of them has to be accounted for by a kill.
package proof

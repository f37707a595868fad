package store

import (
	"context"
	"time"
)

// Ranger is implemented by stores that keep leases of ranges (idem.Config.ClaimByPartition). The lease of a
// range is the claim of a key of its own, with ClaimRequest.Range, so the rules hold for it as for any claim.
// The keys of the range's messages have no claims: their settlements insert their entries (Settlement.Claim),
// for OpComplete, OpFail and OpRelease.
type Ranger interface {
	// Look returns for each request the result that Claim would have, and writes nothing. State is
	// ClaimUnknown, without an error, if Claim would take the key. If the key is absent, Entry has nothing
	// but the Token that the store would give (FreshToken).
	Look(ctx context.Context, reqs []ClaimRequest) []ClaimResult
}

// Range is what the entry of a lease keeps of its range. Positions are those of messages in their source,
// such as the offsets of a partition. They are 0 or greater, and grow.
type Range struct {
	// End is the position after the last message that the owner may begin. Only an extension changes it. It
	// is 0 after a release.
	End int64 `json:"end,omitempty"`
	// Till is the position after the last message that an owner may have begun and not settled, because it
	// did not release the lease. The keys of the messages before Till are claimed. It is 0 if there is none,
	// and never becomes smaller: it is not known which of these messages will come again.
	Till int64 `json:"till,omitempty"`
}

// Absent is the answer of a Look to a key that has no entry.
func Absent(now time.Time) ClaimResult { return ClaimResult{Entry: Entry{Token: FreshToken(now)}} }

// rangeTaken is rule 7 for ranges: the entry of a lease that was not released keeps the positions that its
// owner may have begun.
func rangeTaken(req *ClaimRequest, seen *Entry) *Range {
	next := Range{End: req.Range.End}
	if before := seen.Range; before != nil {
		next.Till = before.Till
		if !seen.Released() {
			next.Till = max(next.Till, before.End)
		}
	}
	return &next
}

// rangeToken is rule 2 for ranges: keys have tokens of the time at which the lease was held
// (ClaimRequest.Token), so the token of the next lease is greater than the end of the one before.
func rangeToken(seen *Entry, now time.Time) int64 {
	return max(FreshToken(now), seen.Token+1, seen.LeaseUntil.UnixMilli()+1)
}

package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Ranger is implemented by stores that keep leases of ranges (idem.Config.ClaimByRange). The lease of a range is the claim of a key of
// its own, with ClaimRequest.Range, so the rules hold for it as for any claim. The keys of the range's messages have no claims: their
// settlements insert their entries (Settlement.Claim), for OpComplete, OpFail and OpRelease.
type Ranger interface {
	// Look returns for each request the result that Claim would have, and writes nothing. State is ClaimUnknown, without an
	// error, if Claim would take the key; Entry is zero if the key is absent.
	Look(ctx context.Context, reqs []ClaimRequest) []ClaimResult
}

// Range is what the entry of a lease keeps of its range. Positions are those of messages in their source, such as the offsets of a
// partition. They are 0 or greater, and grow.
type Range struct {
	// End is the position after the last message that the owner may begin. Only an extension changes it. It is 0 after a release.
	End int64 `json:"end,omitempty"`
	// Till is the position after the last message that an earlier owner may have begun without settling it, because it did not release
	// the lease. It is 0 if there is none.
	Till int64 `json:"till,omitempty"`
	// Settled are the first messages of the last owner, all of which are settled.
	Settled SettledPrefix `json:"settled,omitzero"`
}

// SettledPrefix is a sequence of settled messages.
type SettledPrefix struct {
	First  int64     `json:"first"`  // the position of the first message
	End    int64     `json:"end"`    // the position after the last message
	Digest Digest    `json:"digest"` // of the position, key and fingerprint of each message
	At     time.Time `json:"at"`     // when it was written
}

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// MarshalText returns d in hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// rangeTaken is rule 7 for ranges: the entry of a lease that was not released keeps the positions that its owner may have begun.
func rangeTaken(req *ClaimRequest, seen *Entry) *Range {
	next := Range{End: req.Range.End}
	if before := seen.Range; before != nil {
		next.Till, next.Settled = before.Till, before.Settled
		if !seen.Released() {
			next.Till = max(next.Till, before.End)
		}
	}
	return &next
}

// rangeToken is rule 2 for ranges: a token is also that of the entries of keys, so it is not less than that of a fresh claim.
func rangeToken(seen *Entry, now time.Time) int64 { return max(FreshToken(now), seen.Token+1) }

// rangeReleased returns the range that a release writes.
func rangeReleased(s *Settlement, now time.Time) *Range {
	next := Range{Till: s.Range.Till, Settled: s.Range.Settled}
	if next.Settled.At = now; next.Settled.First == next.Settled.End {
		next.Settled = SettledPrefix{}
	}
	return &next
}

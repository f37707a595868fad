package store

import (
	"cmp"
	"errors"
	"fmt"
)

// Conditions that callers test for with errors.Is.
var (
	// ErrFenced says that the caller no longer owns the key; see FencedError.
	ErrFenced = errors.New("idem: the claim is no longer held")
	// ErrFingerprintMismatch says that the key was used before for a request that looked different.
	ErrFingerprintMismatch = errors.New("idem: the key was used before with another fingerprint")
	// ErrResultNotStored says that the key completed, but that its result was not kept.
	ErrResultNotStored = errors.New("idem: the result was not stored")
	// ErrContended says that a store refused a settlement for what others do at the same time: a transaction that writes the
	// same item, or a table of an effect that is throttled. Nothing was changed, and the same settlement may be sent again. The
	// store itself is well.
	ErrContended = errors.New("idem: refused for what others do at the same time")
	// ErrForeignRecord says that what the store holds under a key can't be read: something else wrote it. Nothing was changed,
	// and nothing will get on with that key until somebody mends or deletes what is there; the store itself is well.
	ErrForeignEntry = errors.New("idem: what the store holds under the key is not one of ours")
	// ErrNotFound says that a store has no record of a key.
	ErrNotFound = errors.New("idem: no such key")
	// ErrInvalidKey says that a key can't be used: it is empty.
	ErrInvalidKey = errors.New("idem: invalid key")
)

// FencedError says that a settlement was refused. Current is the record as it is now; its zero value means that the key is
// gone.
type FencedError struct {
	Key     string
	Token   int64 // of the claim that was refused
	Current Entry
}

// Error tells who holds the key now.
func (e *FencedError) Error() string {
	if e.Current.Status == "" {
		return fmt.Sprintf("%v: key %q, version %d: the record is gone", ErrFenced, e.Key, e.Token)
	}
	return fmt.Sprintf("%v: key %q, version %d: it is %s at version %d now, last claimed from %s",
		ErrFenced, e.Key, e.Token, e.Current.Status, e.Current.Token, cmp.Or(e.Current.Source, "an unknown source"))
}

// Unwrap returns ErrFenced.
func (e *FencedError) Unwrap() error { return ErrFenced }

// ErrRejected is matched by every RejectedError.
var ErrRejected = errors.New("idem: the effect was rejected")

// RejectedError says that an effect can't be committed as it is: one of its own conditions does not hold, or the store can't
// take it. Nothing was changed, and the key is held as before. The engine takes Err for the error of the handler.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return e.Err.Error() }

// Is matches ErrRejected.
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

func (e *RejectedError) Unwrap() error { return e.Err }

// ErrClaimRefused is matched by every ClaimRefusedError.
var ErrClaimRefused = errors.New("idem: the key is not free")

// ClaimRefusedError says that a completion was to claim its key too (Settlement.Claim), and that there is a record under the
// key. Nothing was changed. Result is what a claim would have been answered; its State is ClaimUnknown, without an error, if
// the claim would have taken the key.
type ClaimRefusedError struct{ Result ClaimResult }

func (e *ClaimRefusedError) Error() string {
	rec := &e.Result.Entry
	if rec.Status == "" && e.Result.Err != nil {
		return fmt.Sprintf("%v: %v", ErrClaimRefused, e.Result.Err)
	}
	return fmt.Sprintf("%v: %q is %s, version %d, from %s", ErrClaimRefused, rec.Key, rec.Status, rec.Token, cmp.Or(rec.Source, "an unknown source"))
}

// Is matches ErrClaimRefused.
func (e *ClaimRefusedError) Is(target error) bool { return target == ErrClaimRefused }

func (e *ClaimRefusedError) Unwrap() error { return e.Result.Err }

package store

import (
	"cmp"
	"errors"
	"fmt"
)

// Conditions that callers test for with errors.Is.
var (
	// ErrFenced means that the caller no longer owns the key; see FencedError.
	ErrFenced = errors.New("idem: the claim is no longer held")
	// ErrFingerprintMismatch means that the key was used before for a different request.
	ErrFingerprintMismatch = errors.New("idem: the key was used before with another fingerprint")
	// ErrResultNotStored means that the key completed without a stored result.
	ErrResultNotStored = errors.New("idem: the result was not stored")
	// ErrContended means that a concurrent write made the store refuse a settlement: another transaction
	// writes the same item, or the table of an effect is throttled. Nothing was changed, and the same
	// settlement may be sent again. The store is available.
	ErrContended = errors.New("idem: refused because of a concurrent write")
	// ErrForeignEntry means that the entry of a key can't be read because another program wrote it. Nothing
	// was changed, and the key stays unusable until an operator repairs or deletes the entry. The store is
	// available.
	ErrForeignEntry = errors.New("idem: the entry of the key was not written by idemsk")
	// ErrMisconfigured means that the store answers, but can't serve idemsk before an operator has changed
	// something: its table does not exist or has another key, or a permission is missing. Nothing was
	// changed. A program with this error at its start need not go on.
	ErrMisconfigured = errors.New("idem: the store is not set up for idemsk")
	// ErrNotFound means that a store has no entry of a key.
	ErrNotFound = errors.New("idem: no such key")
	// ErrInvalidKey means that a key is empty.
	ErrInvalidKey = errors.New("idem: invalid key")
)

// FencedError means that a settlement was refused because the caller no longer owns the key. Current is the
// current entry. It is zero if the key has no entry.
type FencedError struct {
	Key     string
	Token   int64 // of the claim that was refused
	Current Entry
}

// Error describes the current owner of the key.
func (e *FencedError) Error() string {
	if e.Current.Status == "" {
		return fmt.Sprintf("%v: key %q, token %d: the entry is gone", ErrFenced, e.Key, e.Token)
	}
	return fmt.Sprintf("%v: key %q, token %d: it is now %s with token %d, last claimed from %s",
		ErrFenced, e.Key, e.Token, e.Current.Status, e.Current.Token,
		cmp.Or(e.Current.Source, "an unknown source"))
}

// Unwrap returns ErrFenced.
func (e *FencedError) Unwrap() error { return ErrFenced }

// ErrRejected is matched by every RejectedError.
var ErrRejected = errors.New("idem: the effect was rejected")

// RejectedError means that an effect can't be committed: one of its own conditions does not hold, or the
// store does not accept it. Nothing was changed, and the claim is still held. The engine treats Err as the
// error of the handler.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return e.Err.Error() }

// Is matches ErrRejected.
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

func (e *RejectedError) Unwrap() error { return e.Err }

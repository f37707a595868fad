package kafka

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/idemsk/idemsk/idem"
)

// RedriveHeader is the header by which a redriven record carries the token of its dead letter (rule 10 of package idem).
const RedriveHeader = "idemsk-redrive"

// redriveToken reads the redrive header; 0 if there is none.
func redriveToken(r *Record) (int64, error) {
	var token int64
	for i := range r.Headers {
		h := &r.Headers[i]
		if h.Key != RedriveHeader {
			continue
		}
		n, err := strconv.ParseInt(string(h.Value), 10, 64)
		if err != nil || n <= 0 {
			return 0, fmt.Errorf("the header %q does not hold the token of a dead letter (a positive number)", RedriveHeader)
		}
		token = max(token, n)
	}
	return token, nil
}

// unknownTokenError says that a record carries a redrive token that is later than that of its FAILED key. Either a producer
// wrote the header, or the store lost its last writes in a failover or a restore. In the second case the redriven dead letter may
// have been the only one. The record therefore gets another dead letter, with the token that opens the key.
type unknownTokenError struct {
	failed  *idem.AlreadyFailedError
	carried int64
}

func (e *unknownTokenError) Error() string {
	return fmt.Sprintf("the header %q has the token %d, which the key never had: redrive this dead letter, which has the key's token (%v)",
		RedriveHeader, e.carried, e.failed)
}

func (e *unknownTokenError) Unwrap() error { return e.failed }

// unfit says why a record with a redrive token can't be handled under its key, whose task ended so, and gets a dead letter that is
// remembered under its place; nil if that is not so.
func unfit(out *idem.Outcome, redrive int64) error {
	var failed *idem.AlreadyFailedError
	switch {
	case out.Kind == idem.Mismatched || out.Kind == idem.InvalidKey:
		return out.Err
	case errors.As(out.Err, &failed) && failed.Token < redrive:
		return &unknownTokenError{failed: failed, carried: redrive}
	}
	return nil
}

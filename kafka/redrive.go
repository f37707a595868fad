package kafka

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// RedriveHeader is the header with the dead letter's token in a redriven record (rule 10 of package
// idem/store).
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
			return 0, fmt.Errorf("the header %q does not contain the token of a dead letter (a positive number)", RedriveHeader)
		}
		token = max(token, n)
	}
	return token, nil
}

// notOpenedError means that a redriven record does not open its FAILED key. The redriven dead letter may have
// been the only one. The record therefore gets another one, with the key's current token.
type notOpenedError struct {
	failed *idem.AlreadyFailedError
	why    string
}

func (e *notOpenedError) Error() string { return fmt.Sprintf("%s (%v)", e.why, e.failed) }

func (e *notOpenedError) Unwrap() error { return e.failed }

// anotherValue explains idem.Mismatched.
const anotherValue = "a record with another value used this idempotency key before. If the producer changes a part of the value on a retry, " +
	"such as a timestamp, compare only the parts that identify the request (IDEMSK_FINGERPRINT=json:$.a,$.b), or nothing (none). " +
	"If this is another request, it needs another key"

// unfit returns the error if a record can't be handled under its key because of the outcome, and must be sent
// to the dead letters under its place; otherwise nil.
func unfit(out *idem.Outcome, redrive int64) error {
	var failed *idem.AlreadyFailedError
	switch {
	case out.Kind == idem.Mismatched:
		return fmt.Errorf("%s: %w", anotherValue, out.Err)
	case out.Kind == idem.InvalidKey:
		return out.Err
	case errors.As(out.Err, &failed) && failed.Token < redrive:
		// Either a producer wrote the header, or the store lost its last writes in a failover or a restore.
		return &notOpenedError{failed, fmt.Sprintf("the header %q has the token %d, which the key never had: "+
			"redrive this dead letter, which has the key's token", RedriveHeader, redrive)}
	case failed != nil && failed.Token == redrive && failed.Failure.Code == store.CodeOutcomeUnknown:
		return &notOpenedError{failed, "its effect may have taken place, and IDEMSK_EFFECTS is at-most-once: " +
			"find out, run idemsk resolve, and then redrive this dead letter"}
	}
	return nil
}

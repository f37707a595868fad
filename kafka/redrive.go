package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// RedriveHeader is the header of a redriven record. Its value is the token of the dead letter (rule 10 of package
// idem/store), a blank and the code of its failure. The code may be missing. A producer that writes the header
// gains nothing: without it, the record would be handled as well.
const RedriveHeader = "idemsk-redrive"

// readRedrive reads the redrive header: the token, 0 if there is none, and whether the outcome of the failed
// attempt is unknown, or the header does not tell.
func readRedrive(r *Record) (token int64, unknown bool, err error) {
	for i := range r.Headers {
		h := &r.Headers[i]
		if h.Key != RedriveHeader {
			continue
		}
		number, code, _ := strings.Cut(string(h.Value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n <= 0 {
			return 0, false, fmt.Errorf("the header %q does not begin with the token of a dead letter (a positive number)", RedriveHeader)
		}
		token, unknown = max(token, n), unknown || code == "" || code == store.CodeOutcomeUnknown
	}
	return token, unknown, nil
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

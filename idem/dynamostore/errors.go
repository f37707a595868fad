package dynamostore

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/idemsk/idemsk/idem/store"
)

// cause is the reason why DynamoDB did not perform a request or a statement. It decides whether the request
// is retried and whether the store counts as unavailable. Both decisions are made only here. Reads meet no
// contention: they return the item as it was before a transaction or after it. The table of the keys has no
// index, so ItemCollectionSizeLimitExceeded comes only from effects, which are rejected.
//
//	cause          retried                    result for the engine
//	contention     MaxAttempts, with backoff  the store is available: a claim finds its key in flight, a settlement gets ErrContended
//	overload       MaxAttempts, with backoff  the store is unavailable
//	misconfigured  no                         ErrMisconfigured
//	other          by the SDK, if at all      the store is unavailable, unless the error is one that store.Store defines
type cause uint8

const (
	other cause = iota // no answer, wrong credentials, an invalid request
	// the table, the partition or the account is throttled, or the service has an internal error.
	overload
	contention    // a transaction, or a write in another region, is in progress on the item
	misconfigured // no table, no permission, a table with another key, or an endpoint that lacks the operation
)

// passes reports whether the same request may succeed a moment later.
func (c cause) passes() bool { return c == overload || c == contention }

// causeOf returns the cause of a request's or a statement's error.
func causeOf(err error) cause {
	var api smithy.APIError
	switch {
	case isUnsupported(err):
		return misconfigured
	case !errors.As(err, &api):
		return other
	case isWrongKey(api):
		return misconfigured
	}
	return causeOfCode(api.ErrorCode())
}

// isUnsupported reports whether an endpoint does not have the operation, or not all of its PartiQL, as some
// emulators of DynamoDB. DynamoDB answers an unknown operation with UnknownOperationException. Others have
// their own codes, or answer with something that is not DynamoDB's: moto with status 500 and a page. DynamoDB
// itself finds no fault with the store's statements.
func isUnsupported(err error) bool {
	var answered *smithyhttp.ResponseError
	status := 0
	if errors.As(err, &answered) {
		status = answered.HTTPStatusCode()
	}
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() != "UnknownError" { // the SDK's, of an answer without a code
		return status == http.StatusNotImplemented || strings.Contains(api.ErrorMessage(), "wasn't well formed") ||
			slices.ContainsFunc([]string{"UnknownOperation", "NotImplemented", "UnsupportedOperation", "InvalidAction"},
				func(code string) bool { return strings.HasPrefix(api.ErrorCode(), code) })
	}
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusInternalServerError:
		op := operationOf(err)
		return op == opBatch || op == opTransaction
	}
	return false
}

// The operations that some emulators of DynamoDB lack.
const (
	opBatch       = "BatchExecuteStatement"
	opTransaction = "TransactWriteItems"
)

// operationOf returns the operation of a request's error. An error of a statement has none.
func operationOf(err error) string {
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.OperationName
	}
	return opBatch
}

// unsupported returns the remedy if isUnsupported.
func unsupported(err error) string {
	const emulators = "DynamoDB, DynamoDB Local and LocalStack have it"
	switch op := operationOf(err); op {
	case opBatch:
		return " (the endpoint does not support " + op + ": set IDEMSK_BATCHING=off, which needs no PartiQL; " + emulators + ")"
	case opTransaction:
		return " (the endpoint does not support " + op + ", which effects in the completion's transaction need; " + emulators + ")"
	default:
		return " (the endpoint does not support " + op + ": is it one of DynamoDB? " + emulators + ")"
	}
}

// isWrongKey reports whether a request was refused because the table's key is not AttrKey alone, a string.
// DynamoDB has no code of its own for this. The texts are those of UpdateItem, GetItem and BatchGetItem,
// PutItem (two), INSERT and UPDATE, and two of DynamoDB Local.
func isWrongKey(api smithy.APIError) bool {
	if code := api.ErrorCode(); code != codeInvalid && code != "ValidationError" {
		return false
	}
	return slices.ContainsFunc([]string{
		"does not match the schema", "Missing the key", "Type mismatch for key",
		"equality on all key attributes",
		"Key attribute should be present", "Key attribute's data type should match",
		"One of the required keys was not given a value", "The number of conditions on the keys is invalid",
	}, func(text string) bool { return strings.Contains(api.ErrorMessage(), text) })
}

// The codes of requests and, without suffix, of statements.
const (
	codeNotFound = "ResourceNotFoundException"
	codeDenied   = "AccessDeniedException"
	codeInvalid  = "ValidationException"
)

// causeOfCode returns the cause by an error code of a request, a statement or a cancellation reason. Codes of
// requests have a suffix.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
func causeOfCode(code string) cause {
	switch code {
	case "TransactionConflictException", "TransactionConflict", "TransactionInProgressException",
		"ReplicatedWriteConflictException":
		return contention
	case "ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded", "ThrottlingException",
		"ThrottlingError", "RequestLimitExceeded",
		"InternalServerError":
		return overload
	case codeNotFound, "ResourceNotFound", codeDenied, "AccessDenied":
		return misconfigured
	}
	return other
}

// explain adds the operation, the key and the table to an error, and a remedy if the cause is known.
func (s *Store) explain(op, key string, err error) error {
	return fmt.Errorf("dynamostore: %s %q in table %s: %w%s", op, key, s.table, classified(err, causeOf(err)),
		hint(err))
}

// classified wraps an error with the condition of package store that its cause has, if any.
func classified(err error, c cause) error {
	switch c {
	case contention:
		return fmt.Errorf("%w: %w", store.ErrContended, err)
	case misconfigured:
		return fmt.Errorf("%w: %w", store.ErrMisconfigured, err)
	case other, overload:
	}
	return err
}

const (
	foreignItem = " (its message is not handled, and is redelivered, until the item is repaired or deleted: see `idemsk get`, and " +
		"`aws dynamodb get-item` for the raw item)"
	missingTable = " (the table does not exist in this account and region, or not yet: deploy the stack, or set IDEMSK_TABLE to the right one)"
	wrongKey     = " (this is not a table of idemsk: its partition key must be " + AttrKey +
		" of type String, without a sort key: " +
		"deploy the stack, or set IDEMSK_TABLE to the right one)"
	noPermission = " (the role needs dynamodb:PutItem, UpdateItem, PartiQLInsert, PartiQLUpdate, BatchGetItem, GetItem and DeleteItem on the table, " +
		"and Scan to list)"
)

// hint returns the remedy for an error whose cause is known.
func hint(err error) string {
	var api smithy.APIError
	switch {
	case errors.Is(err, store.ErrForeignEntry):
		return foreignItem
	case isUnsupported(err):
		return unsupported(err)
	case !errors.As(err, &api):
		return ""
	case isWrongKey(api):
		return wrongKey
	}
	switch api.ErrorCode() {
	case codeNotFound, "ResourceNotFound":
		return missingTable
	case codeDenied, "AccessDenied":
		return noPermission
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException":
		return " (the AWS credentials are missing, wrong or expired)"
	case "InternalServerError":
		return ""
	}
	switch causeOfCode(api.ErrorCode()) {
	case contention:
		return " (a transaction was writing the item during all attempts: try again)"
	case overload:
		return " (the table is throttled: raise its capacity, or its on-demand maximum)"
	case other, misconfigured:
	}
	return ""
}

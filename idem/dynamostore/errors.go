package dynamostore

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem/store"
)

// cause is the reason why DynamoDB did not perform a request or a statement. It decides whether the request is retried and
// whether the store counts as unavailable. Both decisions are made only here. Reads meet no contention: they return the item as
// it was before a transaction or after it. The table of the keys has no index, so ItemCollectionSizeLimitExceeded comes only
// from effects, which are rejected.
//
//	cause       retried                    result for the engine
//	contention  MaxAttempts, with backoff  the store is available: a claim finds its key in flight, a settlement gets ErrContended
//	overload    MaxAttempts, with backoff  the store is unavailable
//	other       by the SDK, if at all      the store is unavailable, unless the error is one that store.Store defines
type cause uint8

const (
	other      cause = iota // no answer, no table, no permission, an invalid request
	overload                // the table, the partition or the account is throttled, or the service has an internal error
	contention              // a transaction, or a write in another region, is in progress on the item
)

// causeOf returns the cause by the code of a request's or a statement's error.
func causeOf(err error) cause {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return other
	}
	return causeOfCode(api.ErrorCode())
}

// causeOfCode returns the cause by an error code of a request, a statement or a cancellation reason. Codes of requests have a
// suffix.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
func causeOfCode(code string) cause {
	switch code {
	case "TransactionConflictException", "TransactionConflict", "TransactionInProgressException", "ReplicatedWriteConflictException":
		return contention
	case "ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded", "ThrottlingException", "ThrottlingError", "RequestLimitExceeded",
		"InternalServerError":
		return overload
	}
	return other
}

// explain adds the operation, the key and the table to an error, and a remedy if the cause is known.
func (s *Store) explain(op, key string, err error) error {
	return fmt.Errorf("dynamostore: %s %q in table %s: %w%s", op, key, s.table, contended(err, causeOf(err)), hint(err))
}

// contended wraps an error caused by contention with ErrContended.
func contended(err error, c cause) error {
	if c != contention {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrContended, err)
}

const missingTable = " (the table does not exist in this account and region, or not yet: deploy the stack, or set IDEMSK_TABLE to the right one)"

const foreignItem = " (its message is not handled, and is redelivered, until the item is repaired or deleted: see `idemsk get`, and " +
	"`aws dynamodb get-item` for the raw item)"

func hint(err error) string {
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	switch {
	case errors.Is(err, store.ErrForeignEntry):
		return foreignItem
	case errors.As(err, &missing):
		return missingTable
	case !errors.As(err, &api):
		return ""
	}
	switch causeOfCode(api.ErrorCode()) {
	case contention:
		return " (a transaction was writing the item during all attempts: try again)"
	case overload:
		if api.ErrorCode() != "InternalServerError" {
			return " (the table is throttled: raise its capacity, or its on-demand maximum)"
		}
	case other:
	}
	switch api.ErrorCode() { // the names without suffix are codes of statements in a batch
	case "ResourceNotFound":
		return missingTable
	case "AccessDeniedException", "AccessDenied":
		return " (the role needs dynamodb:PutItem, UpdateItem, PartiQLInsert, PartiQLUpdate, BatchGetItem, GetItem and DeleteItem on the table, and Scan to list)"
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException":
		return " (the AWS credentials are missing, wrong or expired)"
	}
	return ""
}

package dynamostore

import (
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// cause is why DynamoDB did not perform a request or a statement. It decides what is sent again, and what counts as an outage of
// the store; both are stated here alone. Reads meet no contention: they see the item before a transaction, or after it. The table
// of the keys has no index, so ItemCollectionSizeLimitExceeded comes from effects only, which are rejected for it.
//
//	cause       sent again                 then, to the engine
//	contention  MaxAttempts, with backoff  the store is well: a claim finds its key in flight, a settlement is ErrContended
//	overload    MaxAttempts, with backoff  the store is down: it could not be asked
//	other       by the SDK, if at all      the store is down, unless the error is one of the proper answers of store.Store
type cause uint8

const (
	other      cause = iota // no answer, no table, no permission, a request that is not valid
	overload                // the table, the partition or the account is throttled, or the service is in trouble itself
	contention              // a transaction, or a write in another region, is under way on the item
)

// causeOf tells the cause from the code of an error, or of a statement's.
func causeOf(err error) cause {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return other
	}
	return causeOfCode(api.ErrorCode())
}

// causeOfCode knows the codes of requests, which have a suffix, and those of statements and of a cancellation's reasons.
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

// explain adds to a request's error what was done, on what, and, where the cause is known, what to do.
func (s *Store) explain(op, key string, err error) error {
	return fmt.Errorf("dynamostore: %s %q in table %s: %w%s", op, key, s.table, contended(err, causeOf(err)), hint(err))
}

// contended marks an error whose cause is contention.
func contended(err error, c cause) error {
	if c != contention {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrContended, err)
}

const missingTable = " (the table does not exist in this account and region, or not yet: deploy the stack, or set IDEMSK_TABLE to the right one)"

const foreignItem = " (its message is not handled, and comes again, until the item is mended or deleted: see `idemsk get`, and " +
	"`aws dynamodb get-item` for the item as it is)"

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
		return " (a transaction was writing the item for as long as the attempts took: try again)"
	case overload:
		if api.ErrorCode() != "InternalServerError" {
			return " (the table is throttled: raise its capacity, or its on-demand maximum)"
		}
	case other:
	}
	switch api.ErrorCode() { // the shorter names are those of a statement in a batch
	case "ResourceNotFound":
		return missingTable
	case "AccessDeniedException", "AccessDenied":
		return " (the role needs dynamodb:PutItem, UpdateItem, PartiQLInsert, PartiQLUpdate, BatchGetItem, GetItem and DeleteItem on the table, and Scan to list)"
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException":
		return " (the AWS credentials are missing, wrong or expired)"
	}
	return ""
}

package dynamostore

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem"
)

// explain adds to a request's error what was done, on what, and, where the cause is known, what to do.
func (s *Store) explain(op, key string, err error) error {
	return fmt.Errorf("dynamostore: %s %q in table %s: %w%s", op, key, s.table, err, hint(err))
}

const missingTable = " (the table does not exist in this account and region, or not yet: deploy the stack, or set IDEMSK_TABLE to the right one)"

const foreignItem = " (its message is not handled, and comes again, until the item is mended or deleted: see `idemsk get`, and " +
	"`aws dynamodb get-item` for the item as it is)"

func hint(err error) string {
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	switch {
	case errors.Is(err, idem.ErrForeignRecord):
		return foreignItem
	case errors.As(err, &missing):
		return missingTable
	case !errors.As(err, &api):
		return ""
	}
	switch api.ErrorCode() { // the shorter names are those of a statement in a batch
	case "ResourceNotFound":
		return missingTable
	case "AccessDeniedException", "AccessDenied":
		return " (the role needs dynamodb:PutItem, UpdateItem, PartiQLInsert, PartiQLUpdate, BatchGetItem, GetItem and DeleteItem on the table, and Scan to list)"
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException":
		return " (the AWS credentials are missing, wrong or expired)"
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "ProvisionedThroughputExceeded", "ThrottlingError":
		return " (the table is throttled: raise its capacity, or its on-demand maximum)"
	}
	return ""
}

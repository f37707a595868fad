package dynamostore

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// explain adds to a request's error what was done, on what, and, where the cause is known, what to do.
func (s *Store) explain(op, key string, err error) error {
	return fmt.Errorf("dynamostore: %s %q in table %s: %w%s", op, key, s.table, err, hint(err))
}

func hint(err error) string {
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	switch {
	case errors.As(err, &missing):
		return " (the table does not exist in this account and region, or not yet: deploy the stack, or set IDEMSK_TABLE to the right one)"
	case !errors.As(err, &api):
		return ""
	}
	switch api.ErrorCode() {
	case "AccessDeniedException":
		return " (the role needs dynamodb:PutItem, UpdateItem, GetItem and DeleteItem on the table, and Scan to list)"
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException":
		return " (the AWS credentials are missing, wrong or expired)"
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return " (the table is throttled: raise its capacity, or its on-demand maximum)"
	}
	return ""
}

package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/store"
)

// TTLClient is the part of *dynamodb.Client that reads whether a table deletes expired items. A Client that
// has it lets Check read the TTL.
type TTLClient interface {
	DescribeTimeToLive(
		ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, optFns ...func(*dynamodb.Options),
	) (*dynamodb.DescribeTimeToLiveOutput, error)
}

// Check checks that the table exists, that its key is AttrKey, that its TTL attribute is AttrExpiry, and that
// the role may write to it. It changes nothing: it sends the two kinds of write on a key of its own, under a
// condition that no item meets. DynamoDB bills two writes. If the role has no permission for
// dynamodb:DescribeTimeToLive, the TTL is not checked. A finding is store.ErrMisconfigured (wrapped), with
// the remedy. Any other error means that the table could not be checked.
func (s *Store) Check(ctx context.Context) error {
	const key = "idemsk check"
	var impossible change
	impossible.is(attrVersion, number(-1)) // tokens are positive
	impossible.set(attrUpdatedAt, number(0))
	if _, _, err := s.update(ctx, key, &impossible); err != nil {
		return s.explain("check", key, err)
	}
	if s.batch > 1 {
		answers := s.execute(ctx, []types.BatchStatementRequest{impossible.statement(s.table, key)})
		if _, err := answers[0].entry(); err != nil {
			return s.explain("check", key, err)
		}
	}
	return s.checkTTL(ctx)
}

func (s *Store) checkTTL(ctx context.Context) error {
	client, ok := s.client.(TTLClient)
	if !ok {
		return nil
	}
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	switch {
	case causeOf(err) == misconfigured: // the table exists, so the permission is missing
		return nil
	case err != nil:
		return fmt.Errorf("dynamostore: check of the TTL of table %s: %w%s", s.table, err, hint(err))
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil {
		ttl = &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusDisabled}
	}
	switch name := aws.ToString(ttl.AttributeName); ttl.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		if name == AttrExpiry {
			return nil
		}
		return fmt.Errorf("dynamostore: %w: the TTL attribute of table %s is %q: it must be %s, or DynamoDB deletes no expired item "+
			"(disable TTL on the table, wait an hour, and enable it on this attribute)",
			store.ErrMisconfigured, s.table, name, AttrExpiry)
	case types.TimeToLiveStatusDisabled, types.TimeToLiveStatusDisabling:
	}
	return fmt.Errorf("dynamostore: %w: table %s has no TTL, so that DynamoDB deletes no expired item (aws dynamodb update-time-to-live "+
		"--table-name %s --time-to-live-specification AttributeName=%s,Enabled=true)", store.ErrMisconfigured,
		s.table, s.table, AttrExpiry)
}

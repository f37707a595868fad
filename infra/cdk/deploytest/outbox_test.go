//go:build rest

package deploytest

import (
	"encoding/json"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// checkOutbox compares the table, its stream, the mapping of that, and the relay, which takes its environment
// and an empty batch.
func (s *stack) checkOutbox() {
	s.Helper()
	out, err := s.db.DescribeTable(s.Context(),
		&dynamodb.DescribeTableInput{TableName: &s.outputs.OutboxTableName})
	s.must(err)
	table := out.Table
	if len(table.KeySchema) != 2 {
		s.Fatalf("the outbox has %d key attributes; want 2", len(table.KeySchema))
	}
	same(s, "partition key of the outbox", aws.ToString(table.KeySchema[0].AttributeName),
		dynamooutbox.AttrAggregate)
	same(s, "sort key of the outbox", aws.ToString(table.KeySchema[1].AttributeName), dynamooutbox.AttrID)
	same(s, "stream of the outbox", table.StreamSpecification.StreamViewType, ddbtypes.StreamViewTypeNewImage)
	ttl, err := s.db.DescribeTimeToLive(s.Context(),
		&dynamodb.DescribeTimeToLiveInput{TableName: &s.outputs.OutboxTableName})
	s.must(err)
	same(s, "TTL attribute of the outbox", aws.ToString(ttl.TimeToLiveDescription.AttributeName),
		dynamooutbox.AttrExpiry)
	s.checkStreamMapping(aws.ToString(table.LatestStreamArn))
	s.checkRelay()
}

func (s *stack) checkStreamMapping(stream string) {
	s.Helper()
	got, err := s.fn.GetEventSourceMapping(s.Context(),
		&lambda.GetEventSourceMappingInput{UUID: &s.outputs.RelayEventSource})
	s.must(err)
	same(s, "event source of the relay", aws.ToString(got.EventSourceArn), stream)
	same(s, "whom it invokes", strings.HasSuffix(aws.ToString(got.FunctionArn),
		":"+s.outputs.RelayFunctionName), true)
	same(s, "batch size", aws.ToInt32(got.BatchSize), 100)
	same(s, "parallelization factor", aws.ToInt32(got.ParallelizationFactor), 1)
	same(s, "starting position", got.StartingPosition, types.EventSourcePositionTrimHorizon)
	same(s, "retries", aws.ToInt32(got.MaximumRetryAttempts), -1)
	same(s, "record age", aws.ToInt32(got.MaximumRecordAgeInSeconds), -1)
	same(s, "bisected", aws.ToBool(got.BisectBatchOnFunctionError), true)
	same(s, "response types", string(s.json(got.FunctionResponseTypes)), `["ReportBatchItemFailures"]`)
	if got.FilterCriteria == nil || len(got.FilterCriteria.Filters) != 2 {
		s.Errorf("the filters are %s; want 2", s.json(got.FilterCriteria))
	}
}

// checkRelay has the relay start: it ends itself if it does not understand its environment.
func (s *stack) checkRelay() {
	s.Helper()
	out, err := s.fn.Invoke(s.Context(),
		&lambda.InvokeInput{FunctionName: &s.outputs.RelayFunctionName,
			Payload: s.json(events.DynamoDBEvent{})})
	s.must(err)
	if out.FunctionError != nil {
		s.Fatalf("the relay failed: %s", out.Payload)
	}
	var resp events.DynamoDBEventResponse
	s.must(json.Unmarshal(out.Payload, &resp))
	same(s, "what the relay reports of nothing", len(resp.BatchItemFailures), 0)
}

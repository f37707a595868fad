package consumer_test

import (
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

const (
	globalTable = "AWS::DynamoDB::GlobalTable"
	queue       = "AWS::SQS::Queue"
	queuePolicy = "AWS::SQS::QueuePolicy"
)

func TestTable(t *testing.T) {
	tpl := synthesise(t, plain(t))
	id := tpl.id(t, "ConsumerTable")
	table := tpl.of(globalTable)[id]
	equal(t, "the key schema", table["KeySchema"],
		[]values{{"AttributeName": dynamostore.AttrKey, "KeyType": "HASH"}})
	equal(t, "the attributes", table["AttributeDefinitions"],
		[]values{{"AttributeName": dynamostore.AttrKey, "AttributeType": "S"}})
	equal(t, "TTL", table["TimeToLiveSpecification"],
		values{"AttributeName": dynamostore.AttrExpiry, "Enabled": true})
	equal(t, "billing", table["BillingMode"], "PAY_PER_REQUEST")
	equal(t, "encryption", table["SSESpecification"], values{"SSEEnabled": true, "SSEType": "KMS"})
	equal(t, "replicas: another region's would break the claim of a key", table["Replicas"], []values{{
		"Region":                           values{"Ref": "AWS::Region"},
		"DeletionProtectionEnabled":        true,
		"PointInTimeRecoverySpecification": values{"PointInTimeRecoveryEnabled": true},
		"ContributorInsightsSpecification": values{"Enabled": false},
	}})
	equal(t, "a stream", table["StreamSpecification"], nil)
	for _, policy := range []string{"DeletionPolicy", "UpdateReplacePolicy"} {
		equal(t, policy, at(t, tpl["Resources"], id, policy), "Retain")
	}
}

func TestTableProperties(t *testing.T) {
	tpl := synthesise(t, plain(t, func(p *props) {
		p.Store.Table = "keys"
		p.Store.ContributorInsights = true
		p.Store.DeletionProtection = new(false)
		p.RemovalPolicy = awscdk.RemovalPolicy_DESTROY
		p.keyed = true
	}))
	id := tpl.id(t, "ConsumerTable")
	table := tpl.of(globalTable)[id]
	equal(t, "the name", table["TableName"], "keys")
	replica := at(t, table, "Replicas", 0)
	equal(t, "insights", at(t, replica, "ContributorInsightsSpecification", "Enabled"), true)
	equal(t, "deletion protection", at(t, replica, "DeletionProtectionEnabled"), false)
	equal(t, "key", at(t, replica, "SSESpecification", "KMSMasterKeyId"), kmsKey)
	equal(t, "removal", at(t, tpl["Resources"], id, "DeletionPolicy"), "Delete")
}

func TestDeadLetterQueueIsProtected(t *testing.T) {
	for name, customer := range map[string]any{"AWS's key": nil, "customer key": kmsKey} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, finitely, func(p *props) { p.Source.OnFailure.Queue, p.keyed = true, customer != nil }))
			queues := tpl.of(queue)
			equal(t, "queues", len(queues), 2)
			for id, q := range queues {
				equal(t, id+": days", q["MessageRetentionPeriod"], 14*24*60*60)
				equal(t, id+": customer key", q["KmsMasterKeyId"], customer)
				if customer == nil {
					equal(t, id+": encryption", q["SqsManagedSseEnabled"], true)
				}
				equal(t, id+": refuses plain HTTP", refusesPlainHTTP(t, tpl, id), true)
				equal(t, id+": removal", at(t, tpl["Resources"], id, "DeletionPolicy"), "Retain")
			}
			equal(t, "the function's queue", variables(t, tpl)["IDEMSK_DEAD_LETTER_QUEUE_URL"],
				tpl.ref(t, "ConsumerDeadLetters"))
		})
	}
}

func refusesPlainHTTP(t *testing.T, tpl template, id string) bool {
	t.Helper()
	for _, policy := range tpl.of(queuePolicy) {
		if at(t, policy, "Queues", 0, "Ref") != id {
			continue
		}
		for _, statement := range at(t, policy, "PolicyDocument", "Statement").([]any) {
			s := statement.(values)
			if s["Effect"] == "Deny" && s["Action"] == "sqs:*" &&
				at(t, s, "Condition", "Bool", "aws:SecureTransport") == "false" {
				return true
			}
		}
	}
	return false
}

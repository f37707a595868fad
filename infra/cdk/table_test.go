package main

import (
	"testing"

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

func TestTableSettings(t *testing.T) {
	tpl := synthesise(t, plain(t, values{
		"tableName": "keys", "contributorInsights": "true", "deletionProtection": "false",
		"removalPolicy": "destroy", "kmsKeyArn": kmsKey,
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

func TestOnlyTheExampleHasALedger(t *testing.T) {
	with := synthesise(t, plain(t, values{"example": "ledger"}))
	ledger := with.of(globalTable)[with.id(t, "Ledger")]
	equal(t, "the ledger's key", ledger["KeySchema"],
		[]values{{"AttributeName": "account", "KeyType": "HASH"}})
	equal(t, "the function's ledger", variables(t, with)["IDEMSK_LEDGER_TABLE"], with.ref(t, "Ledger"))

	without := synthesise(t, plain(t))
	equal(t, "tables", len(without.of(globalTable)), 1)
	equal(t, "the function's ledger", variables(t, without)["IDEMSK_LEDGER_TABLE"], nil)
}

func TestDeadLetterQueueIsProtected(t *testing.T) {
	for name, more := range map[string]values{"AWS's key": {}, "customer key": {"kmsKeyArn": kmsKey}} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, more,
				values{"onFailure": "queue", "retries": "10", "retryDelay": "500ms"}))
			queues := tpl.of(queue)
			equal(t, "queues", len(queues), 2)
			for id, q := range queues {
				equal(t, id+": days", q["MessageRetentionPeriod"], 14*24*60*60)
				equal(t, id+": customer key", q["KmsMasterKeyId"], more["kmsKeyArn"])
				if more["kmsKeyArn"] == nil {
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

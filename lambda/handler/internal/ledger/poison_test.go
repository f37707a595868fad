package ledger

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
)

// The balances that poisonOnePartition leaves.
const (
	poisonedBalance = "700" // of acc-1/EUR: all but the poison
	fullBalance     = "9223372036854775807"
)

// poisonOnePartition delivers valid payments, and among them some that can't be booked, because a balance
// would overflow or a name is invalid in every database. These become dead letters at once, and do not block
// others.
func poisonOnePartition(t *testing.T, program string, env map[string]string) {
	t.Helper()
	client, queue := awstest.NewQueue(t, "letters")
	all := map[string]string{
		"AWS_ENDPOINT_URL_SQS": *client.Options().BaseEndpoint, "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY":        "test",
		"IDEMSK_DEAD_LETTER_QUEUE_URL": queue, "IDEMSK_KEY": "json:$.paymentId", "IDEMSK_LOG_LEVEL": "error",
	}
	maps.Copy(all, env)
	p := startProcess(t, program, all)
	batch := kafkaEvent(t, 0, map[int][]Payment{
		0: {
			{PaymentID: "fills", Account: "acc-full", Amount: math.MaxInt64, Currency: "EUR"},
			{PaymentID: "before", Account: "acc-1", Amount: 100, Currency: "EUR"},
			{PaymentID: "overflows", Account: "acc-full", Amount: 1, Currency: "EUR"},
			{PaymentID: "unwritable", Account: "acc-\x00", Amount: 1, Currency: "EUR"},
			{PaymentID: "behind", Account: "acc-1", Amount: 200, Currency: "EUR"},
		},
		1: {{PaymentID: "beside", Account: "acc-1", Amount: 400, Currency: "EUR"}},
	})
	for n := range 2 {
		result, err := p.Invoke(t.Context(), batch)
		if err != nil {
			t.Fatalf("delivery %d: %v", n+1, err)
		}
		equal(t, "answer", string(result.Payload), `{"batchItemFailures":[]}`)
	}
	equal(t, "executed", p.sum("Executed"), 4)
	got, err := client.ReceiveMessage(t.Context(),
		&sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10})
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]string{"ledger#payments#overflows": "ledger",
		"ledger#payments#unwritable": "want no control characters"}
	for _, m := range got.Messages {
		l, err := kafka.ParseDeadLetter([]byte(*m.Body))
		if err != nil {
			t.Fatal(err)
		}
		want, poison := says[l.IdempotencyKey]
		if !poison || l.Error.Code != store.CodePermanent || !strings.Contains(l.Error.Message, want) {
			t.Errorf("the dead letter of %s says %+v; want %q", l.IdempotencyKey, l.Error, want)
		}
		delete(says, l.IdempotencyKey)
	}
	if len(says) > 0 {
		t.Errorf("no dead letters of %v", says)
	}
}

// On DynamoDB, whose ledger has bounds of its own.
func TestPoisonRecordsDoNotBlockOthersOnDynamoDB(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"atomic":                {"IDEMSK_LEDGER": "atomic"},
		"plain":                 {"IDEMSK_LEDGER": "plain"},
		"plain, with the audit": {"IDEMSK_LEDGER": "plain", "IDEMSK_AUDIT": "on"},
	} {
		t.Run(name, func(t *testing.T) {
			db, cfg := startDynamo(t, dynamofake.Config{})
			createAudit(t, cfg)
			all := dynamoEnv(db)
			maps.Copy(all, env)
			poisonOnePartition(t, program, all)
			for account, want := range map[string]string{"acc-1/EUR": poisonedBalance,
				"acc-full/EUR": fullBalance} {
				balance, _ := booked(t, cfg, account)
				equal(t, "the balance of "+account, balance, want)
			}
		})
	}
}

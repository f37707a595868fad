package replay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/lambda/msk"
)

// site is what one pass works on: two tables and a queue of its own, gone with it.
type site struct {
	store         *store
	table, ledger string
	queue         string // the URL
}

// The attributes of the example's ledger.
const (
	ledgerAccount = "account"
	ledgerBalance = "balance"
)

// Times for making and removing a site.
const (
	createTimeout = 2 * time.Minute
	removeTimeout = 30 * time.Second
)

func newSite(ctx context.Context, s *store) (*site, error) {
	suffix := strings.ToLower(rand.Text()[:8])
	at := &site{store: s, table: "idemsk-replay-" + suffix, ledger: "idemsk-replay-ledger-" + suffix}
	if err := at.create(ctx, "idemsk-replay-letters-"+suffix); err != nil {
		return nil, errors.Join(err, at.remove(ctx))
	}
	return at, nil
}

func (at *site) create(ctx context.Context, queue string) error {
	if err := dynamostore.CreateTable(ctx, at.store.dynamo, at.table); err != nil {
		return err
	}
	_, err := at.store.dynamo.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &at.ledger,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(ledgerAccount), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(ledgerAccount), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err == nil {
		waiter := dynamodb.NewTableExistsWaiter(at.store.dynamo)
		err = waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &at.ledger}, createTimeout)
	}
	if err != nil {
		return fmt.Errorf("creating the ledger table %s: %w", at.ledger, err)
	}
	out, err := at.store.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &queue})
	if err != nil {
		return fmt.Errorf("creating the queue %s: %w", queue, err)
	}
	at.queue = aws.ToString(out.QueueUrl)
	return nil
}

// remove deletes what create made. It also works when the run was interrupted.
func (at *site) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	for _, table := range []string{at.table, at.ledger} {
		_, err := at.store.dynamo.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table})
		var missing *types.ResourceNotFoundException
		if err != nil && !errors.As(err, &missing) {
			errs = append(errs, fmt.Errorf("deleting the table %s: %w", table, err))
		}
	}
	if at.queue != "" {
		if _, err := at.store.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &at.queue}); err != nil {
			errs = append(errs, fmt.Errorf("deleting the queue %s: %w", at.queue, err))
		}
	}
	return errors.Join(errs...)
}

// statuses reads how the keys ended.
func (at *site) statuses(ctx context.Context) (map[string]idem.Status, error) {
	keys, err := dynamostore.New(at.store.dynamo, dynamostore.Config{Table: at.table})
	if err != nil {
		return nil, err
	}
	statuses := make(map[string]idem.Status)
	for rec, err := range keys.List(ctx, idem.ListQuery{}) {
		if err != nil {
			return nil, err
		}
		statuses[rec.Key] = rec.Status
	}
	return statuses, nil
}

// balances reads the ledger.
func (at *site) balances(ctx context.Context) (map[string]int64, error) {
	balances := make(map[string]int64)
	pages := dynamodb.NewScanPaginator(at.store.dynamo, &dynamodb.ScanInput{TableName: &at.ledger, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the ledger %s: %w", at.ledger, err)
		}
		for _, item := range page.Items {
			account, ok1 := item[ledgerAccount].(*types.AttributeValueMemberS)
			balance, ok2 := item[ledgerBalance].(*types.AttributeValueMemberN)
			if !ok1 || !ok2 {
				return nil, fmt.Errorf("the ledger %s has an item without account or balance", at.ledger)
			}
			if balances[account.Value], err = strconv.ParseInt(balance.Value, 10, 64); err != nil {
				return nil, fmt.Errorf("the balance of %s in the ledger %s: %w", account.Value, at.ledger, err)
			}
		}
	}
	return balances, nil
}

// letters takes the dead letters out of the queue, each once.
func (at *site) letters(ctx context.Context) ([]msk.DeadLetter, error) {
	type failure struct {
		source  string
		version int64
	}
	seen := make(map[failure]bool)
	var letters []msk.DeadLetter
	for {
		out, err := at.store.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &at.queue, MaxNumberOfMessages: 10, VisibilityTimeout: 600, //nolint:mnd // longer than the run has to go
		})
		if err != nil {
			return nil, fmt.Errorf("reading the dead letters: %w", err)
		}
		if len(out.Messages) == 0 {
			return letters, nil
		}
		for _, m := range out.Messages {
			l, err := msk.ParseDeadLetter([]byte(aws.ToString(m.Body)))
			if err != nil {
				return nil, err
			}
			if id := (failure{l.Source(), l.Version}); !seen[id] {
				seen[id] = true
				letters = append(letters, l)
			}
		}
	}
}

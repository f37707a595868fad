package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

const region = "us-east-1"

// server is the stub or a DynamoDB Local, on the first core.
type server struct {
	*process
	url    string
	db     *dynamodb.Client
	counts bool // it says what it was asked for
	tables int  // made so far
}

// latency is what the stub waits before it performs a request.
type latency struct{ plain, batch time.Duration }

func (r *runner) stub(ctx context.Context, l latency) (*server, error) {
	return r.serve(ctx, "stub", true, []string{r.program("stub"), "-latency", l.plain.String(),
		"-batch-latency", l.batch.String()})
}

func (r *runner) dynamoDBLocal(ctx context.Context) (*server, error) {
	return r.serve(ctx, "DynamoDB Local", false, []string{r.options.dynamoDBLocal, "dynamodb-local", "0"})
}

func (r *runner) serve(ctx context.Context, name string, counts bool, command []string) (*server, error) {
	p, err := start(ctx, name, r.serverCore, r.options.cache, nil, command)
	if err != nil {
		return nil, err
	}
	for {
		line, err := p.line()
		if err != nil {
			p.stop()
			return nil, err
		}
		if url, ok := strings.CutPrefix(line, "listening "); ok {
			s := &server{process: p, url: strings.TrimSpace(url), counts: counts}
			s.db = dynamodb.New(dynamodb.Options{
				Region: region, BaseEndpoint: &s.url,
				Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", ""),
			})
			return s, nil
		}
	}
}

// table makes a table with a key of that name: idemsk's, if the key is.
func (s *server) table(ctx context.Context, key string) (string, error) {
	s.tables++
	name := fmt.Sprintf("bench-%d", s.tables)
	if key == ourKey {
		return name, dynamostore.CreateTable(ctx, s.db, name)
	}
	_, err := s.db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &name,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key,
			AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:   []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
		BillingMode: types.BillingModePayPerRequest,
	})
	if err != nil {
		return "", fmt.Errorf("creating a table: %w", err)
	}
	return name, nil
}

// used returns the requests and the units since reset.
func (s *server) used(ctx context.Context) (u used, err error) {
	if !s.counts {
		return u, nil
	}
	var usage dynamofake.Usage
	if err := s.usage(ctx, http.MethodGet, &usage); err != nil {
		return u, err
	}
	u.writeUnits, u.readUnits = usage.WriteUnits, usage.ReadUnits
	for _, n := range usage.Requests {
		u.requests += n
	}
	return u, nil
}

func (s *server) reset(ctx context.Context) error {
	if !s.counts {
		return nil
	}
	return s.usage(ctx, http.MethodDelete, nil)
}

func (s *server) usage(ctx context.Context, method string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/usage", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the stub's counts: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("the stub's counts: %w", err)
	}
	return nil
}

// statuses returns the status of each item of a table, by its key.
func (s *server) statuses(ctx context.Context, table, key string) (map[string]string, error) {
	found := make(map[string]string)
	pages := dynamodb.NewScanPaginator(s.db,
		&dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading table %s: %w", table, err)
		}
		for _, item := range page.Items {
			found[text(item[key])] = text(item["status"])
		}
	}
	return found, nil
}

func text(av types.AttributeValue) string {
	s, ok := av.(*types.AttributeValueMemberS)
	if !ok {
		return fmt.Sprintf("%T", av)
	}
	return s.Value
}

package glue_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"

	"github.com/idemsk/idemsk/internal/fake/gluefake"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/schema"
	own "github.com/idemsk/idemsk/schema/glue"
)

// A producer registers the versions of a schema as AWS's serializers do, in the Glue in memory, and the
// registry reads them.
func TestVersionsThatAProducerRegisters(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(gluefake.New())
	t.Cleanup(server.Close)
	cfg := awstest.Config(t, server.URL)
	client := glue.NewFromConfig(cfg)
	byName := &types.SchemaId{RegistryName: aws.String("bank"), SchemaName: aws.String("payments")}
	first, second := aws.String(`"string"`), aws.String(`"long"`)

	var missing *types.EntityNotFoundException
	_, err := client.GetSchemaByDefinition(t.Context(),
		&glue.GetSchemaByDefinitionInput{SchemaId: byName, SchemaDefinition: first})
	if !errors.As(err, &missing) {
		t.Errorf("a schema that is not registered: %v", err)
	}
	create := &glue.CreateSchemaInput{
		RegistryId: &types.RegistryId{RegistryName: aws.String("bank")}, SchemaName: aws.String("payments"),
		DataFormat: types.DataFormatAvro, SchemaDefinition: first,
	}
	if _, err := client.CreateSchema(t.Context(), create); !errors.As(err, &missing) {
		t.Errorf("a registry that does not exist: %v", err)
	}
	if _, err := client.CreateRegistry(t.Context(),
		&glue.CreateRegistryInput{RegistryName: aws.String("bank")}); err != nil {
		t.Fatal(err)
	}
	created, err := client.CreateSchema(t.Context(), create)
	if err != nil || created.SchemaVersionStatus != types.SchemaVersionStatusAvailable {
		t.Fatal(created, err)
	}
	var exists *types.AlreadyExistsException
	if _, err := client.CreateSchema(t.Context(), create); !errors.As(err, &exists) {
		t.Errorf("a schema that exists: %v", err)
	}
	byARN := &types.SchemaId{SchemaArn: created.SchemaArn}
	again, err := client.RegisterSchemaVersion(t.Context(),
		&glue.RegisterSchemaVersionInput{SchemaId: byARN, SchemaDefinition: first})
	if err != nil || *again.SchemaVersionId != *created.SchemaVersionId || *again.VersionNumber != 1 {
		t.Errorf("the same version again: %+v, %v; want %s", again, err, *created.SchemaVersionId)
	}
	next, err := client.RegisterSchemaVersion(t.Context(),
		&glue.RegisterSchemaVersionInput{SchemaId: byARN, SchemaDefinition: second})
	if err != nil || *next.VersionNumber != 2 {
		t.Fatal(next, err)
	}
	found, err := client.GetSchemaByDefinition(t.Context(),
		&glue.GetSchemaByDefinitionInput{SchemaId: byName, SchemaDefinition: second})
	if err != nil || *found.SchemaVersionId != *next.SchemaVersionId ||
		found.DataFormat != types.DataFormatAvro {
		t.Errorf("by its definition: %+v, %v; want %s", found, err, *next.SchemaVersionId)
	}
	latest, err := client.GetSchemaVersion(t.Context(), &glue.GetSchemaVersionInput{
		SchemaId: byName, SchemaVersionNumber: &types.SchemaVersionNumber{LatestVersion: true},
	})
	if err != nil || *latest.SchemaVersionId != *next.SchemaVersionId {
		t.Errorf("the latest version: %+v, %v; want %s", latest, err, *next.SchemaVersionId)
	}

	registry := own.New(cfg)
	if s, err := registry.Fetch(t.Context(), *created.SchemaVersionId); err != nil || s.Text != *first ||
		s.DataFormat != schema.Avro {
		t.Errorf("%+v, %v; want the first version", s, err)
	}
	if _, err := registry.Fetch(t.Context(), "00000000-0000-0000-0000-000000000001"); !errors.Is(err,
		schema.ErrUnknown) {
		t.Errorf("a version that does not exist: %v", err)
	}
}

// A service that takes connections and never answers is given up after two attempts, long before the time of
// the caller.
func TestSilentServiceIsGivenUp(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan int)
	go func() {
		var open []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			open = append(open, conn)
		}
		for _, conn := range open {
			_ = conn.Close() // of the test
		}
		accepted <- len(open)
	}()
	cfg := awstest.Config(t, "http://"+listener.Addr().String())
	cfg.HTTPClient = nil // the SDK's, as in a program: that of the tests has no limit
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = own.New(cfg).Fetch(ctx, "00000000-0000-0000-0000-000000000001")
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil {
		t.Errorf("%v; want that an attempt got no answer in time", err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if got := <-accepted; got != 2 {
		t.Errorf("%d connections, want 2: one for each attempt", got)
	}
}

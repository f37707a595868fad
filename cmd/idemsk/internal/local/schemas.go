package local

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/internal/fake/gluefake"
	"github.com/idemsk/idemsk/internal/fake/localhttp"
	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/confluent"
	"github.com/idemsk/idemsk/schema/glue"
	"github.com/idemsk/idemsk/schema/jsonschema"
	"github.com/idemsk/idemsk/schema/proto"
)

// The Options.SchemaRegistry of a registry in this process.
const (
	RegistryFake     = "fake"      // with Confluent's API
	RegistryFakeGlue = "fake-glue" // with AWS Glue's
)

// openSchemas returns a decoder by the schema registry, nil if there is none.
func (r *run) openSchemas(ctx context.Context) (*schema.Decoder, error) {
	if r.o.SchemaRegistry == "" {
		return nil, nil //nolint:nilnil // esm.Parts says what nil means
	}
	registry, err := r.openRegistry(ctx, r.o.SchemaRegistry)
	if err != nil {
		return nil, err
	}
	return schema.New(schema.Config{Registry: registry,
		Formats: []schema.Format{avro.Format{}, proto.Format{}, jsonschema.Format{}}})
}

// openRegistry returns the registry that SchemaRegistryURI names: by its ARN at Glue, by its URL at
// Confluent's. It starts one in this process.
func (r *run) openRegistry(ctx context.Context, name string) (schema.Registry, error) {
	if strings.HasPrefix(name, "arn:aws:glue:") {
		return r.openGlue(ctx, name)
	}
	switch name {
	case RegistryFakeGlue:
		return r.startGlue()
	case RegistryFake:
		fake := srfake.New()
		r.closers = append(r.closers, func() error { fake.Close(); return nil })
		name = fake.URL()
		r.o.Say(fmt.Sprintf("Schema registry in this process at %s.", name))
	}
	registry, err := confluent.New([]string{name})
	if err != nil {
		return nil, optionsf("--schema-registry: %w", err)
	}
	return registry, nil
}

// openGlue returns the registries of Glue in the region of an ARN. A version's ID is unique among them.
func (r *run) openGlue(ctx context.Context, arn string) (schema.Registry, error) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[3] == "" || !strings.HasPrefix(parts[5], "registry/") {
		return nil, optionsf("--schema-registry is %q: want arn:aws:glue:REGION:ACCOUNT:registry/NAME", arn)
	}
	cfg, err := r.o.AWS(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Region = parts[3]
	return glue.New(cfg), nil
}

// startGlue starts a Glue in this process.
func (r *run) startGlue() (schema.Registry, error) {
	server, err := localhttp.New(localhttp.FreePort, gluefake.New())
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the schema registry in this process: %w", err)
	}
	transport := &http.Transport{}
	r.closers = append(r.closers, func() error { transport.CloseIdleConnections(); return server.Close() })
	url := server.URL()
	r.o.Say(fmt.Sprintf("Schema registry of AWS Glue in this process: AWS_ENDPOINT_URL_GLUE=%s, region %s.",
		url, testenv.Region))
	return glue.New(aws.Config{
		Region: testenv.Region, BaseEndpoint: &url, HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider(testenv.AccessKeyID, testenv.AccessSecret, ""),
	}), nil
}

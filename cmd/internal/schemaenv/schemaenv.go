// Package schemaenv decodes records by the schema registry that the environment names, for programs whose
// handlers are in other languages. docs/schemas.md has the variables.
package schemaenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/internal/awsclient/secret"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/confluent"
	"github.com/idemsk/idemsk/schema/glue"
	"github.com/idemsk/idemsk/schema/proto"
	"github.com/idemsk/idemsk/schema/schemaapp"
)

// Schemas returns the option that adds the decoders of Avro, Protobuf and JSON.
func Schemas() app.Option { return app.WithSchemas(app.Schemas{Check: check, Open: open}) }

// wantRegistry is the form of IDEMSK_SCHEMA_REGISTRY, for messages.
const wantRegistry = "the URL of a registry with Confluent's API, https://HOST:PORT, several separated by commas, " +
	"or the ARN of one of AWS Glue, arn:aws:glue:REGION:ACCOUNT:registry/NAME"

// check reports variables that are invalid. Errors do not contain the URL, because it may have a password.
func check(v *app.Vars, c *app.SchemaConfig) {
	const arnVariable = "IDEMSK_SCHEMA_SECRET_ARN"
	_, user, err := registryOf(c.Registry)
	if err != nil {
		v.FailSecret("IDEMSK_SCHEMA_REGISTRY", wantRegistry)
		return
	}
	if c.SecretARN == "" {
		return
	}
	a, err := arn.Parse(c.SecretARN)
	switch {
	case err != nil || a.Service != "secretsmanager" || !strings.HasPrefix(a.Resource, "secret:"):
		v.Fail(arnVariable, c.SecretARN, "the ARN of a secret, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
	case isGlue(c.Registry):
		v.Fail(arnVariable, c.SecretARN, "none with a registry of AWS Glue, which the role gives access to")
	case user != nil:
		v.Fail(arnVariable, c.SecretARN, "either a secret or a user in the URL of the registry")
	}
}

func isGlue(registry string) bool { return strings.HasPrefix(registry, "arn:") }

// region returns the region of the ARN of a registry.
func region(registry string) (string, error) {
	a, err := arn.Parse(registry)
	if err != nil || a.Service != "glue" || a.Region == "" || !strings.HasPrefix(a.Resource, "registry/") {
		return "", errors.New("it is not the ARN of a registry")
	}
	return a.Region, nil
}

// registryOf returns the URLs of a registry without the user in the first of them, and the user; or nothing
// for one of AWS Glue.
func registryOf(registry string) (urls []string, login *url.Userinfo, err error) {
	if isGlue(registry) {
		_, err = region(registry)
		return nil, nil, err
	}
	for address := range strings.SplitSeq(registry, ",") {
		u, err := url.Parse(strings.TrimSpace(address)) // its error contains the URL
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, nil, errors.New("it is not the URL of a registry")
		}
		if login == nil {
			login = u.User
		}
		u.User = nil
		urls = append(urls, u.String())
	}
	return urls, login, nil
}

// open opens the registry, which sends no request.
func open(ctx context.Context, b *app.Base) (func(ctx context.Context, r *kafka.Record) error, error) {
	registry, err := openRegistry(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("IDEMSK_SCHEMA_REGISTRY: %w", err)
	}
	d, err := schema.New(schema.Config{Registry: registry,
		Formats: []schema.Format{avro.Format{}, proto.Format{}}})
	if err != nil {
		return nil, err
	}
	c := &b.Config.Schemas
	schemaapp.DecodeParts(b, d)
	if c.Key {
		schemaapp.DecodeKey(b, d)
	}
	if !c.Converts() {
		return nil, nil //nolint:nilnil // app.Schemas says what nil means
	}
	return func(ctx context.Context, r *kafka.Record) error { return convert(ctx, d, c, r) }, nil
}

func convert(ctx context.Context, d *schema.Decoder, c *app.SchemaConfig, r *kafka.Record) error {
	if c.Value {
		if err := d.ConvertValue(ctx, r); err != nil {
			return err
		}
	}
	if c.Key {
		return d.ConvertKey(ctx, r)
	}
	return nil
}

func openRegistry(ctx context.Context, b *app.Base) (schema.Registry, error) {
	c := &b.Config.Schemas
	if isGlue(c.Registry) {
		cfg, err := b.AWS(ctx)
		if err != nil {
			return nil, err
		}
		cfg = cfg.Copy()
		cfg.Region, err = region(c.Registry)
		return glue.New(cfg), err
	}
	urls, user, err := registryOf(c.Registry)
	if err != nil {
		return nil, err
	}
	var options []sr.ClientOpt
	switch {
	case c.SecretARN != "":
		cfg, err := b.AWS(ctx)
		if err != nil {
			return nil, err
		}
		l := &login{read: secret.New(cfg, c.SecretARN).Read, arn: c.SecretARN}
		options = append(options, sr.PreReq(l.add))
	case user != nil:
		password, _ := user.Password()
		options = append(options, sr.BasicAuth(user.Username(), password))
	}
	return confluent.New(urls, options...)
}

// Package glue reads schemas from the AWS Glue Schema Registry.
package glue

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"

	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/schema"
)

// Registry is a schema.Registry. The ID of a schema version is unique among all registries, so it needs no
// name of a registry.
type Registry struct {
	client *glue.Client
	// MaxInflated is the maximum size of a value that its producer compressed, without the compression. New
	// sets it to DefaultMaxInflated. It must not be changed once the registry is in use.
	MaxInflated int
}

// DefaultMaxInflated is the default of Registry.MaxInflated. It is less than schema.DefaultMaxBytes, because
// to decompress takes time, too.
const DefaultMaxInflated = 4 << 20

// The attempts to fetch a schema, the time after which one is given up that gets no answer, and the longest
// pause between them. All together are less than schema.DefaultTimeout, so that the second attempt is not cut
// off.
const (
	attempts       = 2
	attemptTimeout = time.Second
	maxBackoff     = 500 * time.Millisecond
)

// New returns the registries of an AWS account in a region. It needs the permission glue:GetSchemaVersion.
//
// An attempt that gets no answer ends after one second. With an HTTP client in cfg that is not the SDK's, or
// has a timeout, only that client and schema.Config.Timeout end it.
func New(cfg aws.Config) *Registry {
	return &Registry{MaxInflated: DefaultMaxInflated, client: glue.NewFromConfig(cfg, func(o *glue.Options) {
		o.HTTPClient = awsclient.New(cfg.HTTPClient, attemptTimeout)
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = attempts,
				maxBackoff
		})
	})}
}

// String returns the name of the service.
func (*Registry) String() string { return "AWS Glue" }

// The framing: a version, the compression, and the UUID of the schema version.
// https://github.com/awslabs/aws-glue-schema-registry, class AWSSchemaRegistryConstants
const (
	headerVersion = 3
	uncompressed  = 0
	zlibbed       = 5
	uuidBytes     = 16
	headerBytes   = 2 + uuidBytes
)

var errFraming = errors.New("want the byte 3, a compression of 0 or 5, and the UUID of a schema version in 16 bytes")

// Unframe implements schema.Registry.
func (r *Registry) Unframe(p schema.Part) (framed schema.Framed, err error) {
	data := p.Data
	if len(data) < headerBytes || data[0] != headerVersion || data[1] != uncompressed && data[1] != zlibbed {
		if name, header := p.HeaderID(); header != nil {
			return framed, fmt.Errorf("%w; its header %s is of a serializer of Confluent's registry", errFraming, name)
		}
		return framed, errFraming
	}
	framed = schema.Framed{ID: uuid(data[2:headerBytes]), Payload: data[headerBytes:]}
	if data[1] == zlibbed {
		framed.Payload, err = inflate(framed.Payload, r.MaxInflated)
	}
	return framed, err
}

func inflate(data []byte, limit int) ([]byte, error) {
	source := bytes.NewReader(data)
	r, err := zlib.NewReader(source)
	if err != nil {
		return nil, fmt.Errorf("it can't be decompressed: %w", err)
	}
	var out bytes.Buffer // io.ReadAll allocates several times the size
	_, err = out.ReadFrom(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("it can't be decompressed: %w", err)
	case out.Len() > limit:
		return nil, fmt.Errorf("it is decompressed to more than %d bytes (glue.Registry.MaxInflated)", limit)
	case source.Len() > 0:
		return nil, fmt.Errorf("there are %d bytes behind the compressed value", source.Len())
	}
	return out.Bytes(), nil
}

// uuid returns 16 bytes as a UUID.
func uuid(b []byte) string {
	text := make([]byte, 0, 2*uuidBytes+4)
	for i := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, b[i:i+1])
	}
	return string(text)
}

// index removes the place of the message type among all types of the schema.
func index(data []byte) (schema.Index, []byte, error) {
	place, n := binary.Uvarint(data)
	if n <= 0 || int(place) < 0 {
		return schema.Index{}, nil, errors.New("the index of the message type is invalid")
	}
	return schema.Index{Sorted: int(place)}, data[n:], nil
}

// Fetch implements schema.Registry.
func (r *Registry) Fetch(ctx context.Context, id string) (*schema.Schema, error) {
	out, err := r.client.GetSchemaVersion(ctx, &glue.GetSchemaVersionInput{SchemaVersionId: &id})
	var unknown *types.EntityNotFoundException
	var invalid *types.InvalidInputException
	switch {
	case errors.As(err, &unknown) || errors.As(err, &invalid):
		return nil, fmt.Errorf("%w: %w", schema.ErrUnknown, err)
	case err != nil:
		return nil, err
	case strings.TrimSpace(aws.ToString(out.SchemaDefinition)) == "":
		return nil, schema.ErrNoSchema
	}
	return &schema.Schema{ID: id, DataFormat: string(out.DataFormat),
		Text: aws.ToString(out.SchemaDefinition), Index: index}, nil
}

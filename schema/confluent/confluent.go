// Package confluent reads schemas from a registry with the API of Confluent's: Confluent Cloud and Platform,
// Redpanda, Apicurio, Karapace.
package confluent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/idemsk/idemsk/schema"
)

// Registry is a schema.Registry.
type Registry struct {
	client *sr.Client
	name   string
}

// attemptTimeout is the maximum time of a request to one of the addresses.
const attemptTimeout = 2 * time.Second

// New returns a registry at one or more addresses, which may have one user and password. Options such as
// sr.BasicAuth and sr.DialTLSConfig configure the client.
func New(urls []string, options ...sr.ClientOpt) (*Registry, error) {
	addresses, user, err := parseURLs(urls)
	if err != nil {
		return nil, fmt.Errorf("confluent: %w", err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // a silent connection with HTTP/2 would be used again
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute,
		Protocols: protocols}
	own := []sr.ClientOpt{sr.URLs(addresses...),
		sr.HTTPClient(&http.Client{Transport: transport, Timeout: attemptTimeout}), sr.UserAgent("idemsk")}
	if user != nil {
		password, _ := user.Password()
		own = append(own, sr.BasicAuth(user.Username(), password))
	}
	client, err := newClient(append(own, options...))
	if err != nil {
		return nil, fmt.Errorf("confluent: %w", err)
	}
	return &Registry{client: client, name: "the registry " + strings.Join(addresses, ",")}, nil
}

// parseURLs returns URLs without their user, because errors of the client have the URL. Its own errors do not quote
// them.
func parseURLs(urls []string) (addresses []string, user *url.Userinfo, err error) {
	for i, address := range urls {
		u, err := url.Parse(address)
		switch {
		case err != nil || u.Host == "":
			return nil, nil, fmt.Errorf("address %d of the registry is not a URL: want https://HOST", i+1)
		case u.RawQuery != "":
			return nil, nil, fmt.Errorf("the URL of the registry at %s has a query, to which no path can be added", u.Host)
		case u.User != nil && user != nil && u.User.String() != user.String():
			return nil, nil, fmt.Errorf("the URL of the registry at %s has another user than the one before", u.Host)
		}
		user = cmp.Or(u.User, user)
		u.User = nil
		addresses = append(addresses, u.String())
	}
	return addresses, user, nil
}

// newClient returns a client whose answers are bounded, whichever HTTP client the options have.
func newClient(options []sr.ClientOpt) (*sr.Client, error) {
	unbounded, err := sr.NewClient(options...)
	if err != nil {
		return nil, err
	}
	own, _ := unbounded.OptValue(sr.HTTPClient).(*http.Client) // it always has one
	client := *own
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = bounded{client.Transport}
	// the transport has the settings of TLS by now
	return sr.NewClient(append(options, sr.DialTLSConfig(nil), sr.HTTPClient(&client))...)
}

// String returns the addresses.
func (r *Registry) String() string { return r.name }

// The errors of Confluent's framing, before the data or in a header.
// https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
var (
	errFraming = errors.New("want a zero byte and the ID of a schema in 4 bytes")
	errHeader  = errors.New("want a zero byte and the ID of a schema in 4 bytes, or a byte 1 and its GUID in 16 bytes")
)

// Unframe implements schema.Registry. The data of a record with the ID of its schema in a header has no framing.
func (r *Registry) Unframe(p schema.Part) (schema.Framed, error) {
	name, header := p.HeaderID()
	if header == nil {
		if err := apicurio(p); err != nil {
			return schema.Framed{}, err
		}
		number, payload, err := new(sr.ConfluentHeader).DecodeID(p.Data)
		if err != nil {
			return schema.Framed{}, errFraming
		}
		return schema.Framed{ID: strconv.Itoa(number), Payload: payload}, nil
	}
	framed, err := readHeader(header)
	if err != nil {
		return schema.Framed{}, fmt.Errorf("its header %s (%d bytes): %w", name, len(header), err)
	}
	framed.Payload = p.Data
	return framed, nil
}

// apicurio returns an error for data without framing of Apicurio's serializers. The IDs in their headers are not
// those of Confluent's API.
func apicurio(p schema.Part) error {
	part := "value"
	if p.Key {
		part = "key"
	}
	for _, h := range p.Headers {
		if h.Key == "apicurio."+part+".globalId" || h.Key == "apicurio."+part+".contentId" {
			return fmt.Errorf("its header %s has the ID: configure Apicurio's serializer for Confluent's framing, without headers", h.Key)
		}
	}
	return nil
}

// readHeader reads the header with the ID of a schema. The index of a message type is behind the ID.
func readHeader(header []byte) (framed schema.Framed, err error) {
	const guidBytes = 16
	if number, rest, err := new(sr.ConfluentHeader).DecodeID(header); err == nil {
		framed.ID, framed.Index = strconv.Itoa(number), rest
	} else if len(header) > guidBytes && header[0] == 1 {
		guid := header[1 : 1+guidBytes]
		framed.ID = fmt.Sprintf("%x-%x-%x-%x-%x", guid[:4], guid[4:6], guid[6:8], guid[8:10], guid[10:])
		framed.Index = header[1+guidBytes:]
	} else {
		return framed, errHeader
	}
	if len(framed.Index) == 0 {
		return framed, nil
	}
	_, rest, err := index(framed.Index)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are behind the index of the message type", len(rest))
	}
	return framed, err
}

// maxIndex is the maximum depth of nested message types.
const maxIndex = 100

func index(data []byte) (schema.Index, []byte, error) {
	path, message, err := new(sr.ConfluentHeader).DecodeIndex(data, maxIndex)
	if err != nil {
		return schema.Index{}, nil, fmt.Errorf("the indexes of the message type are invalid: %w", err)
	}
	return schema.Index{Path: path}, message, nil
}

// Fetch implements schema.Registry. The ID is a number or a GUID.
func (r *Registry) Fetch(ctx context.Context, id string) (*schema.Schema, error) {
	found, err := r.find(ctx, id)
	if err != nil {
		return nil, unknown(err)
	}
	if strings.TrimSpace(found.Schema) == "" {
		return nil, schema.ErrNoSchema
	}
	s := &schema.Schema{ID: id, DataFormat: found.Type.String(), Text: found.Schema, Index: index}
	return s, r.addReferences(ctx, s, found.References, make(map[string]bool))
}

func (r *Registry) find(ctx context.Context, id string) (sr.Schema, error) {
	if number, err := strconv.Atoi(id); err == nil {
		return r.client.SchemaByID(ctx, number)
	}
	if len(id) != len("00000000-0000-0000-0000-000000000000") {
		return sr.Schema{}, fmt.Errorf("%w: want a number or a GUID", schema.ErrUnknown)
	}
	found, err := r.client.SchemaByGUID(ctx, id)
	return found.Schema, err
}

// addReferences adds the schemas that a schema refers to, and before each of them those that it refers to
// itself.
func (r *Registry) addReferences(ctx context.Context, s *schema.Schema, references []sr.SchemaReference,
	known map[string]bool) error {
	for _, ref := range references {
		if known[ref.Name] {
			continue
		}
		known[ref.Name] = true
		found, err := r.client.SchemaByVersion(ctx, ref.Subject, ref.Version)
		if err == nil && strings.TrimSpace(found.Schema.Schema) == "" {
			err = schema.ErrNoSchema
		}
		if err != nil {
			return fmt.Errorf("the schema %q, version %d of %s, that it refers to: %w", ref.Name, ref.Version,
				ref.Subject, unknown(err))
		}
		if err := r.addReferences(ctx, s, found.References, known); err != nil {
			return err
		}
		s.References = append(s.References, schema.Reference{Name: ref.Name, Text: found.Schema.Schema})
	}
	return nil
}

// unknown returns the error of a request, with schema.ErrUnknown if it means that the registry has no such
// schema. A 404 without a code of the registry does not: it can be the answer of another server.
func unknown(err error) error {
	var answer *sr.ResponseError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.ErrorCode {
	case sr.ErrSchemaNotFound.Code, sr.ErrSubjectNotFound.Code, sr.ErrVersionNotFound.Code:
		return fmt.Errorf("%w: %w", schema.ErrUnknown, err)
	}
	return fmt.Errorf("status %d: %w", answer.StatusCode, err)
}

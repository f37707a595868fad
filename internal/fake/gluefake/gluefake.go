// Package gluefake is an AWS Glue Schema Registry in memory: the calls by which producers register schemas
// and consumers read them. It compares schemas by their text, parses none, and checks no compatibility. It
// does not check credentials.
package gluefake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/idemsk/idemsk/internal/uuid"
)

const (
	arnPrefix       = "arn:aws:glue:us-east-1:000000000000:"
	defaultRegistry = "default-registry" // which exists in each account
	target          = "AWSGlue."
	maxRequest      = 1 << 20
)

// Server is an http.Handler. It is safe for concurrent use.
type Server struct {
	mu         sync.Mutex
	registries map[string]bool
	schemas    map[schemaName]*schema
	versions   map[string]*version // by ID
}

type schemaName struct{ registry, name string }

type schema struct {
	arn, format string
	versions    []*version
}

// version is the answer to GetSchemaVersion.
type version struct {
	ID         string `json:"SchemaVersionId"` //nolint:tagliatelle // as Glue names them
	Definition string `json:"SchemaDefinition"`
	Format     string `json:"DataFormat"`
	SchemaARN  string `json:"SchemaArn"`
	Number     int    `json:"VersionNumber"`
	Status     string `json:"Status"`
}

// New returns a server with the default registry.
func New() *Server {
	return &Server{registries: map[string]bool{defaultRegistry: true}, schemas: make(map[schemaName]*schema),
		versions: make(map[string]*version)}
}

// Seed adds a schema of its own with an ID, a UUID, and a data format: AVRO, JSON or PROTOBUF.
func (s *Server) Seed(id, format, definition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(&schema{arn: arnPrefix + "schema/" + defaultRegistry + "/" + id, format: format}, id, definition)
}

// add adds a version to a schema. The caller holds s.mu.
func (s *Server) add(to *schema, id, definition string) *version {
	v := &version{ID: id, Definition: definition, Format: to.format, SchemaARN: to.arn,
		Number: len(to.versions) + 1, Status: "AVAILABLE"}
	to.versions, s.versions[id] = append(to.versions, v), v
	return v
}

// request has the parameters of all calls.
type request struct {
	RegistryName     string
	RegistryID       struct{ RegistryName, RegistryArn string } `json:"RegistryId"`
	SchemaName       string
	SchemaID         schemaID `json:"SchemaId"`
	DataFormat       string
	Definition       string `json:"SchemaDefinition"`
	VersionID        string `json:"SchemaVersionId"`
	VersionOfASchema struct {
		LatestVersion bool
		VersionNumber int
	} `json:"SchemaVersionNumber"`
}

// schemaID names a schema by its ARN, or by the names of its registry and its own.
type schemaID struct{ SchemaArn, SchemaName, RegistryName string }

func (id schemaID) name() schemaName {
	if _, names, ok := strings.Cut(id.SchemaArn, ":schema/"); ok {
		registry, name, _ := strings.Cut(names, "/")
		return schemaName{registry, name}
	}
	return schemaName{id.RegistryName, id.SchemaName}
}

// apiError is an error answer.
type apiError struct{ code, message string }

func (e *apiError) Error() string { return e.code + ": " + e.message }

func notFound(what string, name any) error {
	return &apiError{"EntityNotFoundException", fmt.Sprintf("%s is not found: %v", what, name)}
}

func invalid(format string, args ...any) error {
	return &apiError{"InvalidInputException", fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := s.perform(r)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if refused := (*apiError)(nil); errors.As(err, &refused) {
		w.WriteHeader(http.StatusBadRequest)
		out = map[string]string{"__type": refused.code, "Message": refused.message}
	}
	_ = json.NewEncoder(w).Encode(out) // an error means that the client went away
}

func (s *Server) perform(r *http.Request) (any, error) {
	var in request
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		return nil, invalid("the request can't be read: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch name, _ := strings.CutPrefix(r.Header.Get("X-Amz-Target"), target); name {
	case "CreateRegistry":
		return s.createRegistry(&in)
	case "CreateSchema":
		return s.createSchema(&in)
	case "RegisterSchemaVersion":
		return s.registerSchemaVersion(&in)
	case "GetSchemaByDefinition":
		return s.getSchemaByDefinition(&in)
	case "GetSchemaVersion":
		return s.getSchemaVersion(&in)
	default:
		return nil, invalid("this registry does not have the call %q", name)
	}
}

func (s *Server) createRegistry(in *request) (any, error) {
	switch {
	case in.RegistryName == "":
		return nil, invalid("RegistryName is missing")
	case s.registries[in.RegistryName]:
		return nil, &apiError{"AlreadyExistsException", "the registry exists: " + in.RegistryName}
	}
	s.registries[in.RegistryName] = true
	return map[string]string{"RegistryArn": arnPrefix + "registry/" + in.RegistryName,
		"RegistryName": in.RegistryName}, nil
}

func (s *Server) createSchema(in *request) (any, error) {
	registry := in.RegistryID.RegistryName
	if _, name, ok := strings.Cut(in.RegistryID.RegistryArn, ":registry/"); ok {
		registry = name
	}
	if registry == "" {
		registry = defaultRegistry
	}
	name := schemaName{registry, in.SchemaName}
	switch {
	case !s.registries[registry]:
		return nil, notFound("the registry", registry)
	case in.SchemaName == "" || !slices.Contains([]string{"AVRO", "JSON", "PROTOBUF"}, in.DataFormat):
		return nil, invalid("SchemaName is %q and DataFormat %q: want a name, and AVRO, JSON or PROTOBUF",
			in.SchemaName, in.DataFormat)
	case s.schemas[name] != nil:
		return nil, &apiError{"AlreadyExistsException",
			"the schema exists: " + registry + "/" + in.SchemaName}
	}
	created := &schema{arn: arnPrefix + "schema/" + registry + "/" + in.SchemaName, format: in.DataFormat}
	s.schemas[name] = created
	out := map[string]any{"SchemaArn": created.arn, "SchemaName": in.SchemaName, "RegistryName": registry,
		"DataFormat": in.DataFormat}
	if in.Definition != "" {
		v := s.add(created, uuid.New(), in.Definition)
		out["SchemaVersionId"], out["SchemaVersionStatus"] = v.ID, v.Status
	}
	return out, nil
}

// registerSchemaVersion returns the version that has the definition, if there is one.
func (s *Server) registerSchemaVersion(in *request) (any, error) {
	of := s.schemas[in.SchemaID.name()]
	if of == nil {
		return nil, notFound("the schema", in.SchemaID)
	}
	v := of.with(in.Definition)
	if v == nil {
		v = s.add(of, uuid.New(), in.Definition)
	}
	return v, nil
}

func (s *Server) getSchemaByDefinition(in *request) (any, error) {
	if of := s.schemas[in.SchemaID.name()]; of != nil {
		if v := of.with(in.Definition); v != nil {
			return v, nil
		}
	}
	return nil, notFound("a version with this definition of the schema", in.SchemaID)
}

func (s *Server) getSchemaVersion(in *request) (any, error) {
	if in.VersionID != "" {
		if v := s.versions[in.VersionID]; v != nil {
			return v, nil
		}
		return nil, notFound("the schema version", in.VersionID)
	}
	of, number := s.schemas[in.SchemaID.name()], in.VersionOfASchema.VersionNumber
	if of != nil && in.VersionOfASchema.LatestVersion {
		number = len(of.versions)
	}
	if of == nil || number < 1 || number > len(of.versions) {
		return nil, notFound("the version of the schema", in.SchemaID)
	}
	return of.versions[number-1], nil
}

// with returns the version that has a definition, nil if there is none.
func (s *schema) with(definition string) *version {
	for _, v := range s.versions {
		if v.Definition == definition {
			return v
		}
	}
	return nil
}

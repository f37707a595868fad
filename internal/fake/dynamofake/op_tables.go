package dynamofake

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// The table operations use encoding/json, because they are rare.

type keyElement struct{ AttributeName, KeyType string }

type attributeDefinition struct{ AttributeName, AttributeType string }

type createTableInput struct {
	TableName            string
	KeySchema            []keyElement
	AttributeDefinitions []attributeDefinition
	BillingMode          string

	// Accepted, without effect.
	ProvisionedThroughput, OnDemandThroughput, StreamSpecification, SSESpecification, Tags,
	TableClass json.RawMessage
}

type tableDescription struct {
	TableName             string
	TableArn              string
	TableStatus           string
	CreationDateTime      float64 // epoch seconds
	KeySchema             []keyElement
	AttributeDefinitions  []attributeDefinition
	BillingModeSummary    struct{ BillingMode string }
	ItemCount             int
	TableSizeBytes        int
	ProvisionedThroughput struct{ ReadCapacityUnits, WriteCapacityUnits, NumberOfDecreasesToday int }
}

type tableInput struct{ TableName *string }

// decode reads a table operation's input, and refuses members that it does not know.
func decode(body string, input any) error {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(input)
	if err == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unsupported("the parameter %s", strings.Trim(name, `"`))
	}
	return malformed("malformed JSON: %v", err)
}

func encode(out []byte, output any) ([]byte, error) {
	encoded, err := json.Marshal(output)
	return append(out, encoded...), err
}

func (s *Server) createTableOperation(rq request, out []byte) ([]byte, error) {
	var in createTableInput
	if err := decode(rq.body, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.BillingMode == "" {
		in.BillingMode = "PROVISIONED"
	}
	t, err := s.createTable(Table{Name: in.TableName, HashKey: in.KeySchema[0].AttributeName}, in.BillingMode)
	if err != nil {
		return nil, err
	}
	return encode(out, struct{ TableDescription tableDescription }{s.describe(t)})
}

func (in *createTableInput) check() error {
	switch {
	case !validTableName(in.TableName):
		return invalidTableName()
	case len(in.KeySchema) == 0:
		return invalid("No defined key schema.  " +
			"A key schema containing at least a hash key must be defined for all tables")
	case len(in.KeySchema) > 1:
		return unsupported("tables with a sort key: %s", in.TableName)
	case in.KeySchema[0].KeyType != "HASH":
		return invalid("No Hash Key specified in schema.  All Dynamo DB tables must have exactly one hash key")
	case len(in.AttributeDefinitions) != 1:
		return invalid("The number of attributes in key schema must match " +
			"the number of attributes defined in attribute definitions.")
	case in.AttributeDefinitions[0].AttributeName != in.KeySchema[0].AttributeName:
		return invalid("Hash Key not specified in Attribute Definitions.  Type unknown.")
	case in.AttributeDefinitions[0].AttributeType != "S":
		return unsupported("a hash key of type %s: %s of table %s",
			in.AttributeDefinitions[0].AttributeType, in.AttributeDefinitions[0].AttributeName, in.TableName)
	case in.BillingMode != "PAY_PER_REQUEST" && in.ProvisionedThroughput == nil:
		return invalid("No provisioned throughput specified for the table")
	}
	return nil
}

func (s *Server) describe(t *table) tableDescription {
	d := tableDescription{
		TableName:            t.name,
		TableArn:             "arn:aws:dynamodb:local:000000000000:table/" + t.name,
		TableStatus:          "ACTIVE",
		CreationDateTime:     float64(t.created.UnixMilli()) / 1000,
		KeySchema:            []keyElement{{t.hashKey, "HASH"}},
		AttributeDefinitions: []attributeDefinition{{t.hashKey, "S"}},
	}
	d.BillingModeSummary.BillingMode = t.billing
	s.mu.Lock()
	defer s.mu.Unlock()
	d.ItemCount = len(t.items)
	for _, it := range t.items {
		d.TableSizeBytes += it.size()
	}
	return d
}

// tableOf returns the table of an operation whose only parameter is its name.
func (s *Server) tableOf(body string) (*table, error) {
	var in tableInput
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	return s.table(in.TableName)
}

func (s *Server) describeTable(rq request, out []byte) ([]byte, error) {
	t, err := s.tableOf(rq.body)
	if err != nil {
		return nil, err
	}
	return encode(out, struct{ Table tableDescription }{s.describe(t)})
}

func (s *Server) deleteTable(rq request, out []byte) ([]byte, error) {
	t, err := s.tableOf(rq.body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.tables, t.name)
	s.mu.Unlock()
	description := s.describe(t)
	description.TableStatus = "DELETING"
	return encode(out, struct{ TableDescription tableDescription }{description})
}

func (s *Server) listTables(rq request, out []byte) ([]byte, error) {
	const most = 100
	in := struct {
		Limit                   *int
		ExclusiveStartTableName string
	}{}
	if err := decode(rq.body, &in); err != nil {
		return nil, err
	}
	limit := most
	if in.Limit != nil {
		if limit = *in.Limit; limit < 1 || limit > most {
			return nil, invalid("Limit of ListTables must be between 1 and %d", most)
		}
	}
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.tables))
	s.mu.Unlock()
	if in.ExclusiveStartTableName != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name <= in.ExclusiveStartTableName })
	}
	output := struct {
		TableNames             []string
		LastEvaluatedTableName string `json:",omitempty"`
	}{TableNames: append([]string{}, names[:min(limit, len(names))]...)}
	if len(names) > limit {
		output.LastEvaluatedTableName = names[limit-1]
	}
	return encode(out, output)
}

type timeToLive struct {
	Enabled       *bool
	AttributeName *string
}

func (s *Server) updateTimeToLive(rq request, out []byte) ([]byte, error) {
	var in struct {
		TableName               *string
		TimeToLiveSpecification *timeToLive
	}
	if err := decode(rq.body, &in); err != nil {
		return nil, err
	}
	t, err := s.table(in.TableName)
	if err != nil {
		return nil, err
	}
	spec := in.TimeToLiveSpecification
	if spec == nil || spec.Enabled == nil || spec.AttributeName == nil {
		return nil, missing("timeToLiveSpecification and its members")
	}
	s.mu.Lock()
	err = t.setTimeToLive(*spec.Enabled, *spec.AttributeName)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return encode(out, struct{ TimeToLiveSpecification *timeToLive }{spec})
}

// setTimeToLive changes the time to live of a table. The caller holds Server.mu.
func (t *table) setTimeToLive(enabled bool, attribute string) error {
	const maxAttribute = 255
	switch {
	case attribute == "" || len(attribute) > maxAttribute:
		return invalid("the AttributeName of a time to live must be between 1 and %d characters",
			maxAttribute)
	case t.ttl == "" && !enabled:
		return invalid("TimeToLive is already disabled")
	case t.ttl != "" && t.ttl != attribute:
		return invalid("TimeToLive is active on a different AttributeName: current AttributeName is %s",
			t.ttl)
	case t.ttl != "" && enabled:
		return invalid("TimeToLive is already enabled")
	case enabled:
		t.ttl = attribute
	default:
		t.ttl = ""
	}
	return nil
}

func (s *Server) describeTimeToLive(rq request, out []byte) ([]byte, error) {
	t, err := s.tableOf(rq.body)
	if err != nil {
		return nil, err
	}
	type description struct {
		TimeToLiveStatus string
		AttributeName    string `json:",omitempty"`
	}
	s.mu.Lock()
	d := description{"DISABLED", t.ttl}
	s.mu.Unlock()
	if d.AttributeName != "" {
		d.TimeToLiveStatus = "ENABLED"
	}
	return encode(out, struct{ TimeToLiveDescription description }{d})
}

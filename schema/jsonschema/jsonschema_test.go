package jsonschema_test

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/jsonschema"
)

const text = `{
	"type": "object", "required": ["paymentId", "to"],
	"properties": {
		"paymentId": {"type": "string"}, "amount": {"type": "integer", "minimum": 1}, "rate": {"minimum": 1}, "at": {"type": "string", "format": "date-time"},
		"owners": {"additionalProperties": {"type": "string"}}, "to": {"$ref": "party.json"}
	}
}`

var party = schema.Reference{Name: "party.json",
	Text: `{"type": "object", "properties": {"iban": {"type": "string", "pattern": "^DE"}}}`}

func compile(t *testing.T, s schema.Schema) schema.Type {
	t.Helper()
	typ, err := jsonschema.Format{}.Compile(&s)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// A value that is not valid is refused with its place and the keyword, and without what it contains.
func TestValuesAreValidated(t *testing.T) {
	t.Parallel()
	typ := compile(t, schema.Schema{Text: text, References: []schema.Reference{party}})
	for data, want := range map[string]string{
		`{"paymentId":"p-1","amount":7,"to":{"iban":"DE07"}}`: "",
		`{"paymentId":"p-1","to":{"iban":"FR4711"}}`:          "it is not valid: /to/iban does not satisfy pattern",
		`{"paymentId":4711,"to":{}}`:                          "it is not valid: /paymentId does not satisfy type: it is number, want string",
		`{"amount":1,"to":{}}`:                                "it is not valid: / does not satisfy required: it lacks paymentId",
		`{"paymentId":"","to":{},"amount":0.5}`:               "it is not valid: /amount does not satisfy type: it is number, want integer",
		`{"paymentId":"","to":{},"amount":-4711}`:             "it is not valid: /amount does not satisfy minimum",
		`{"paymentId":"","to":{},"at":"4711"}`:                "it is not valid: /at does not satisfy format",
		`{"paymentId":"","to":{},"owners":{"4711":1}}`:        "it is not valid: /owners/* does not satisfy type: it is number, want string",
		`{"paymentId":"","to":{},"rate":1e4711471}`:           "a number has an exponent beyond 1000",
		`{"paymentId":"p-1","to":{},"rate":1.5}`:              "",
		`{} {}`:                                               "it is not JSON: ",
		`{`:                                                   "it is not JSON: ",
	} {
		var into struct{ PaymentID string }
		err := typ.Decode([]byte(data), &into)
		out, toJSON := typ.ToJSON([]byte(data))
		switch {
		case (err == nil) != (toJSON == nil) || err != nil && err.Error() != toJSON.Error():
			t.Errorf("%s: Decode %v, ToJSON %v", data, err, toJSON)
		case want == "" && (err != nil || into.PaymentID != "p-1" || string(out) != data):
			t.Errorf("%s: %v, %+v, %s", data, err, into, out)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "4711")):
			t.Errorf("%s: %v; want %q", data, err, want)
		}
	}
}

// References are found by their names, relative to the $id of the schema.
func TestReferences(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`"$id": "https://example.com/bank/payment.json",`,
		`"$schema": "http://json-schema.org/draft-04/schema#", "id": "payment.json#",`, ""} {
		typ := compile(t, schema.Schema{Text: strings.Replace(text, "{", "{"+id, 1),
			References: []schema.Reference{party}})
		if _, err := typ.ToJSON([]byte(`{"paymentId":"p-1","to":[]}`)); err == nil ||
			!strings.Contains(err.Error(), "/to does not satisfy type") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Nothing is loaded from elsewhere, and a schema that does not compile is an error.
func TestSchemasThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:                             "unexpected EOF",
		`{"type": "amount"}`:            "/type",
		text:                            "not among the references",
		`{"$ref": "file:///etc/hosts"}`: "not among the references",
		`{"$id": ":"}`:                  "$id",
		`{"minimum": 1e1000001}`:        "exponent beyond 1000",
	} {
		if typ, err := (jsonschema.Format{}).Compile(&schema.Schema{Text: text}); err == nil || typ != nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	if _, err := (jsonschema.Format{}).Compile(
		&schema.Schema{Text: text, References: []schema.Reference{{Name: "party.json",
			Text: "{"}}}); err == nil ||
		!strings.Contains(err.Error(), `"party.json" that it refers to`) {
		t.Error(err)
	}
}

package schema_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/idemsk/idemsk/internal/fake/gluefake"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/schema"
	avroformat "github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/confluent"
	"github.com/idemsk/idemsk/schema/glue"
	"github.com/idemsk/idemsk/schema/internal/paymentpb"
	"github.com/idemsk/idemsk/schema/jsonschema"
	protoformat "github.com/idemsk/idemsk/schema/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(stopsClock{m}) }

// stopsClock ends the goroutine with the time of regexp2, which ends by itself a second after the last pattern.
type stopsClock struct{ *testing.M }

func (m stopsClock) Run() int {
	defer regexp2.StopTimeoutClock()
	return m.M.Run()
}

// payment is what the tests' records contain.
type payment struct {
	PaymentID string `avro:"paymentId" json:"paymentId"`
	Amount    int64  `avro:"amount" json:"amount,string"`
	Currency  string `avro:"currency" json:"currency"`
	From      party  `avro:"from" json:"from"`
	To        party  `avro:"to" json:"to"`
	Text      string `avro:"text" json:"text"`
}

type party struct {
	Name string `avro:"name" json:"name"`
	IBAN string `avro:"iban" json:"iban"`
}

const (
	partySchema = `{"type":"record","name":"bank.Party","fields":[{"name":"name","type":"string"},{"name":"iban","type":"string"}]}`
	// avroSchema refers to partySchema.
	avroSchema = `{"type":"record","name":"bank.Payment","fields":[{"name":"paymentId","type":"string"},{"name":"amount","type":"long"},` +
		`{"name":"currency","type":["null","string"]},{"name":"from","type":"bank.Party"},{"name":"to","type":"bank.Party"},{"name":"text","type":"string"}]}`
)

// jsonSchema is that of payments in JSON. It also admits the keys of the tests.
const jsonSchema = `{"type":"object","properties":{"paymentId":{"type":"string","minLength":1},` +
	`"amount":{"type":"string","pattern":"^-?[0-9]+$"},"currency":{"type":"string","enum":["EUR","USD"]},"from":{"$ref":"#/definitions/party"},` +
	`"to":{"$ref":"#/definitions/party"}},"definitions":{"party":{"type":"object","properties":{"name":{"type":"string"},"iban":{"type":"string"}}}}}`

// selfContained is avroSchema without a reference, for Glue, which has none.
var selfContained = strings.Replace(avroSchema, `"bank.Party"`, partySchema, 1)

func aPayment(id string) payment {
	return payment{
		PaymentID: id, Amount: 1250, Currency: "EUR", From: party{"Alice Example", "DE02120300000000202051"},
		To:   party{"Bob Example", "DE02500105170137075030"},
		Text: strings.Repeat("invoice 4711, ", 12),
	}
}

func (p payment) message() *paymentpb.Payment {
	side := func(p party) *paymentpb.Payment_Party {
		return &paymentpb.Payment_Party{Name: p.Name,
			Iban: p.IBAN}
	}
	return &paymentpb.Payment{PaymentId: p.PaymentID, Amount: p.Amount, Currency: p.Currency,
		From: side(p.From), To: side(p.To), Text: p.Text}
}

func paymentOf(m *paymentpb.Payment) payment {
	return payment{m.PaymentId, m.Amount, m.Currency, party{m.From.GetName(), m.From.GetIban()},
		party{m.To.GetName(), m.To.GetIban()}, m.Text}
}

// encode encodes a payment, without framing and without the index of the message type.
func encode(t testing.TB, format string, p payment) (out []byte) {
	t.Helper()
	var err error
	switch format {
	case schema.Avro:
		out, err = avro.MustParse(selfContained).Encode(&p)
	case schema.Protobuf:
		out, err = proto.Marshal(p.message())
	default:
		out, err = json.Marshal(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// asJSON is a payment as the event source converts it.
func asJSON(t testing.TB, format string, p payment) (out []byte) {
	t.Helper()
	var err error
	switch format {
	case schema.Avro:
		out, err = avro.MustParse(selfContained).EncodeJSON(&p)
	case schema.Protobuf:
		out, err = protojson.Marshal(p.message())
	default:
		out, err = json.Marshal(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// registries is a fake of each registry, with the schemas of payments.
type registries struct {
	testing.TB
	confluent *srfake.Registry
	glue      *gluefake.Server
	glueURL   string
}

// confluentIDs are the IDs of two versions of the schemas of payments. Those of Glue are these numbers as
// UUIDs.
var confluentIDs = map[string][2]int{schema.Avro: {10, 11}, schema.Protobuf: {20, 21}, schema.JSON: {30, 31}}

func newRegistries(t testing.TB) *registries {
	t.Helper()
	r := &registries{TB: t, confluent: srfake.New(), glue: gluefake.New()}
	t.Cleanup(r.confluent.Close)
	server := httptest.NewServer(r.glue)
	t.Cleanup(server.Close)
	r.glueURL = server.URL
	r.confluent.SeedSchema("party", 1, 1, sr.Schema{Schema: partySchema})
	for version := range 2 {
		add := func(format, text string, s sr.Schema) {
			id := confluentIDs[format][version]
			s.Schema += strings.Repeat(" ", version)
			r.confluent.SeedSchema("payments-"+format, version+1, id, s)
			r.glue.Seed(glueID(id), format, text)
		}
		add(schema.Avro, selfContained, sr.Schema{Schema: avroSchema,
			References: []sr.SchemaReference{{Name: "bank.Party", Subject: "party", Version: 1}}})
		add(schema.Protobuf, protoSchema(t), sr.Schema{Schema: protoSchema(t), Type: sr.TypeProtobuf})
		add(schema.JSON, jsonSchema, sr.Schema{Schema: jsonSchema, Type: sr.TypeJSON})
	}
	return r
}

// of returns a registry by its name. An address replaces that of the fake.
func (r *registries) of(name, address string) schema.Registry {
	r.Helper()
	if name == "Glue" {
		if address == "" {
			address = r.glueURL
		}
		return glue.New(awstest.Config(r, address))
	}
	if address == "" {
		address = r.confluent.URL()
	}
	found, err := confluent.New([]string{address})
	if err != nil {
		r.Fatal(err)
	}
	return found
}

// decoder returns a decoder of all formats.
func (r *registries) decoder(cfg schema.Config) *schema.Decoder {
	r.Helper()
	cfg.Formats = append(cfg.Formats, avroformat.Format{}, protoformat.Format{}, jsonschema.Format{})
	d, err := schema.New(cfg)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

// glueID returns the UUID of the schema with a number.
func glueID(number int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", number) }

// frame frames encoded data. The index of Payment is 1 for Confluent, its place in the file, and 0 for Glue,
// its place by name.
func frame(t testing.TB, registry, format string, version int, data []byte) []byte {
	t.Helper()
	return append(header(t, registry, confluentIDs[format][version]), indexed(registry, format, data)...)
}

func header(t testing.TB, registry string, number int) []byte {
	t.Helper()
	if registry == "Glue" {
		id, err := hex.DecodeString(strings.ReplaceAll(glueID(number), "-", ""))
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte{3, 0}, id...)
	}
	out, err := new(sr.ConfluentHeader).AppendEncode(nil, number, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// indexed adds the index of the message type before a Protobuf message.
func indexed(registry, format string, data []byte) []byte {
	var index []byte
	switch {
	case format != schema.Protobuf:
	case registry == "Glue":
		index = binary.AppendUvarint(nil, 0)
	default:
		index = binary.AppendVarint(binary.AppendVarint(nil, 1), 1)
	}
	return append(index, data...)
}

// schemaID is the ID of a schema as an event has it.
func schemaID(registry, format string, version int) string {
	number := confluentIDs[format][version]
	if registry == "Glue" {
		return glueID(number)
	}
	return strconv.Itoa(number)
}

func compressed(t testing.TB, framed []byte) []byte {
	t.Helper()
	out := bytes.NewBuffer(append([]byte{3, 5}, framed[2:18]...))
	w := zlib.NewWriter(out)
	_, _ = w.Write(framed[18:]) // to memory
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

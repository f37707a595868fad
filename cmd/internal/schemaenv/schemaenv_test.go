package schemaenv_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/cmd/internal/schemaenv"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/kafka"
)

// The layer claims a payment by its ID in the decoded value, in all formats and framings: the function gets
// each payment once, as bytes or as JSON with its schema.
func TestFunctionGetsEachPaymentOnce(t *testing.T) {
	r := newRegistries(t)
	for _, registry := range []string{confluent, glue} {
		for format, tc := range map[string]struct {
			schema int
			json   string
		}{
			"AVRO":     {avroID, `{"paymentId":"p-1","amount":1250}`},
			"PROTOBUF": {protoID, `{"paymentId":"p-1","amount":"1250"}`},
			"JSON":     {jsonID, `{"paymentId":"p-1","amount":1250}`},
		} {
			for _, decode := range []string{"none", "value"} {
				name, _, _ := strings.Cut(registry, ":")
				t.Run(name+"/"+format+"/"+decode, func(t *testing.T) {
					f := newFunction(t, r, registry, map[string]string{"IDEMSK_SCHEMA_DECODE": decode})
					value := framed(registry, tc.schema, payment(tc.schema, "p-1"))
					other := framed(registry, tc.schema, payment(tc.schema, "p-2"))
					for range 2 {
						if n := f.deliver(eventOf([]byte("k"), value, other, value)); n != 0 {
							t.Errorf("%d records are reported", n)
						}
					}
					if len(f.calls) != 1 || len(f.calls[0]) != 2 {
						t.Fatalf("the function got %d calls: %q", len(f.calls), f.got())
					}
					got := f.calls[0][0]
					if string(got.Key) != "k" || got.KeySchemaMetadata != nil || len(got.Headers) != 2 {
						t.Errorf("the function got %+v", got)
					}
					if decode == "none" {
						if !bytes.Equal(got.Value, value) || got.ValueSchemaMetadata != nil {
							t.Errorf("the value is %q with %v", got.Value, got.ValueSchemaMetadata)
						}
						return
					}
					want := metadata{format, id(registry, tc.schema)}
					if string(got.Value) != tc.json || got.ValueSchemaMetadata == nil ||
						*got.ValueSchemaMetadata != want {
						t.Errorf("the value is %s with %v; want %s with %v", got.Value,
							got.ValueSchemaMetadata, tc.json, want)
					}
				})
			}
		}
	}
}

// Values that Glue's serializer compressed, tombstones, and values that an event source has converted are
// delivered beside framed ones.
func TestOtherValuesBesideFramedOnes(t *testing.T) {
	f := newFunction(t, newRegistries(t), glue, map[string]string{"IDEMSK_SCHEMA_DECODE": "value",
		"IDEMSK_KEY": "offset", "IDEMSK_FINGERPRINT": "value"})
	event := mskevent.Cluster("").Messages(
		mskevent.Message{Topic: "payments", Value: deflated(t, framed(glue, avroID, payment(avroID, "p-1")))},
		mskevent.Message{Topic: "payments", Offset: 1},
		mskevent.Message{Topic: "payments", Offset: 2, Value: []byte(`{"paymentId":"p-2"}`),
			ValueSchema: &mskevent.Schema{ID: "source", DataFormat: "AVRO"}},
	)
	if n := f.deliver(event); n != 0 || len(f.letters()) != 0 {
		t.Errorf("%d records are reported, the dead letters are %v", n, f.letters())
	}
	f.wantValues(`{"paymentId":"p-1","amount":1250}`, "", `{"paymentId":"p-2"}`)
	if got := f.calls[0]; got[1].Value != nil || got[1].ValueSchemaMetadata != nil ||
		got[2].ValueSchemaMetadata.SchemaID != "source" {
		t.Errorf("the function got %+v", got)
	}
}

func valueOf(t *testing.T, letter string) []byte {
	t.Helper()
	l, err := kafka.ParseDeadLetter([]byte(letter))
	if err != nil {
		t.Fatal(err)
	}
	return l.Value
}

// A value whose schema is named in a header is decoded, and what can't be is a dead letter that names the header.
func TestSchemaThatAHeaderNames(t *testing.T) {
	f := newFunction(t, newRegistries(t), confluent, map[string]string{"IDEMSK_SCHEMA_DECODE": "value"})
	message := func(offset int64, id, value []byte) mskevent.Message {
		return mskevent.Message{Topic: "payments", Offset: offset, Value: value,
			Headers: []mskevent.Header{{Key: "__value_schema_id", Value: id}}}
	}
	if n := f.deliver(mskevent.Cluster("").Messages(
		message(0, framed(confluent, avroID, nil), payment(avroID, "p-1")),
		message(1, framed(confluent, protoID, []byte{0}), payment(protoID, "p-2")[1:]),
		message(2, []byte{1}, framed(confluent, avroID, payment(avroID, "p-3"))),
	)); n != 0 {
		t.Errorf("%d records are reported", n)
	}
	f.wantValues(`{"paymentId":"p-1","amount":1250}`, `{"paymentId":"p-2","amount":"1250"}`)
	if letters := f.letters(); len(letters) != 1 || !strings.Contains(letters[0], "its header __value_schema_id (1 bytes)") {
		t.Errorf("the dead letters are %q", letters)
	}
}

// Kafka keys are decoded only on request, because most are written without a schema.
func TestKafkaKeyIsDecodedOnRequest(t *testing.T) {
	r := newRegistries(t)
	key := framed(confluent, keyID, []byte("\x06k-1"))
	value := framed(confluent, avroID, payment(avroID, "p-1"))
	for decode, want := range map[string][2]string{
		"none":      {string(key), string(value)},
		"value":     {string(key), `{"paymentId":"p-1","amount":1250}`},
		"key":       {`"k-1"`, string(value)},
		"key,value": {`"k-1"`, `{"paymentId":"p-1","amount":1250}`},
	} {
		f := newFunction(t, r, confluent, map[string]string{"IDEMSK_SCHEMA_DECODE": decode,
			"IDEMSK_KEY": "key"})
		if n := f.deliver(eventOf(key, value)); n != 0 || len(f.calls) != 1 {
			t.Fatalf("%s: %d records are reported, %d calls", decode, n, len(f.calls))
		}
		got := f.calls[0][0]
		if string(got.Key) != want[0] || string(got.Value) != want[1] ||
			(got.KeySchemaMetadata != nil) != strings.Contains(decode, "key") {
			t.Errorf("%s: the key is %q, the value %q, %v", decode, got.Key, got.Value, got.KeySchemaMetadata)
		}
	}
}

// A value that can't be decoded becomes a dead letter with the bytes of the topic, whether its key or the
// function needs it, and its neighbours reach the function.
func TestHostileBytesBecomeDeadLetters(t *testing.T) {
	r := newRegistries(t)
	r.confluent.SeedSchema("broken", 1, 51, sr.Schema{Schema: "message {", Type: sr.TypeProtobuf})
	r.confluent.SeedSchema("deep", 1, 52, sr.Schema{
		Schema: `{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}`})
	r.confluent.SeedSchema("many", 1, 53, sr.Schema{Schema: `{"type":"array","items":"null"}`})
	good := func(registry string) []byte { return framed(registry, avroID, payment(avroID, "good")) }
	bomb := deflated(t, framed(glue, jsonID, bytes.Repeat([]byte(" "), 16<<20)))
	for name, tc := range map[string]struct {
		registry string
		value    []byte
		says     string
	}{
		"no framing":           {confluent, []byte(`{"paymentId":"p"}`), "no framing of the registry http"},
		"empty":                {confluent, []byte{}, "no framing"},
		"cut off":              {confluent, framed(confluent, avroID, payment(avroID, "p")[:2]), "the schema 7 of"},
		"bytes behind":         {confluent, append(framed(confluent, avroID, payment(avroID, "p")), 0), "bytes behind"},
		"negative length":      {confluent, framed(confluent, avroID, []byte{1}), "the schema 7 of"},
		"unknown schema":       {confluent, framed(confluent, 99, []byte("x")), "no schema with this ID"},
		"broken schema":        {confluent, framed(confluent, 51, []byte{0}), "the schema 51 of"},
		"deep":                 {confluent, framed(confluent, 52, bytes.Repeat([]byte{2}, 100_000)), "the schema 52 of"},
		"many from few bytes":  {confluent, framed(confluent, 53, []byte{0x80, 0xc2, 0xd7, 0x2f, 0}), "more than 100000 elements"},
		"endless index":        {confluent, framed(confluent, protoID, bytes.Repeat([]byte{0xff}, 20)), "index"},
		"unknown message type": {glue, framed(glue, protoID, []byte{9}), "no message type 9"},
		"of the other framing": {glue, framed(confluent, avroID, payment(avroID, "p")), "no framing of AWS Glue"},
		"a bomb of zlib":       {glue, bomb, "more than 4194304 bytes"},
		"unknown, Glue":        {glue, framed(glue, 99, []byte("x")), "EntityNotFound"},
	} {
		for by, key := range map[string]string{"key": "json:$.paymentId", "function": "offset"} {
			t.Run(name+"/"+by, func(t *testing.T) {
				f := newFunction(t, r, tc.registry, map[string]string{"IDEMSK_SCHEMA_DECODE": "value",
					"IDEMSK_KEY": key, "IDEMSK_FINGERPRINT": "value"})
				if n := f.deliver(eventOf(nil, tc.value, good(tc.registry))); n != 0 {
					t.Errorf("%d records are reported", n)
				}
				f.wantValues(`{"paymentId":"good","amount":1250}`)
				letters := f.letters()
				if len(letters) != 1 || !strings.Contains(letters[0], tc.says) || !bytes.Equal(valueOf(t, letters[0]), tc.value) {
					t.Errorf("the dead letters are %.2000q; want one that says %q, with the value", letters,
						tc.says)
				}
			})
		}
	}
}

// While a registry can't be reached, records are delivered again, and no attempt is counted. When it can be
// reached, the function gets them.
func TestRegistryThatIsDown(t *testing.T) {
	r := newRegistries(t)
	up := *r
	for _, registry := range []string{confluent, glue} {
		for name, fault := range map[string]faultproxy.Fault{"refused": faultproxy.Refused,
			"reset": faultproxy.Reset, "silent": faultproxy.Silent} {
			for by, key := range map[string]string{"key": "json:$.paymentId", "function": "offset"} {
				if fault == faultproxy.Silent && by == "key" {
					continue // it takes seconds, and the schemas of both are fetched alike
				}
				kind, _, _ := strings.Cut(registry, ":")
				t.Run(kind+"/"+name+"/"+by, func(t *testing.T) {
					address := map[string]string{confluent: up.confluent.URL(), glue: up.glueURL}[registry]
					proxy, proxied := faultproxy.StartURL(t, address)
					proxy.New(fault)
					r, named := up, registry
					if r.glueURL = proxied; registry == confluent {
						named = proxied
					}
					f := newFunction(t, &r, named, map[string]string{"IDEMSK_SCHEMA_DECODE": "value",
						"IDEMSK_KEY": key, "IDEMSK_FINGERPRINT": "value", "IDEMSK_WAIT": "0"})
					event := eventOf(nil, framed(registry, avroID, payment(avroID, "p-1")))
					for range 3 { // more than the attempts
						if n := f.deliver(event); n != 1 {
							t.Fatalf("%d records are reported; want 1", n)
						}
					}
					f.wantValues()
					proxy.New(faultproxy.None)
					for f.deliver(event) > 0 { // until the failure is no longer kept
						<-time.After(50 * time.Millisecond)
					}
					f.wantValues(`{"paymentId":"p-1","amount":1250}`)
					if letters := f.letters(); len(letters) > 0 {
						t.Errorf("the dead letters are %q", letters)
					}
				})
			}
		}
	}
}

// User and password are those of the URL, or of a secret, which is read when a schema is fetched.
func TestRegistryWithAPassword(t *testing.T) {
	r := newRegistries(t)
	guarded := srfake.New(srfake.WithAuth("Basic " + base64.StdEncoding.EncodeToString([]byte("u:p/w"))))
	defer guarded.Close()
	guarded.SeedSchema("payments", 1, avroID, sr.Schema{Schema: avroSchema})
	secret, reads := `{"username":"u","password":"old"}`, 0
	manager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = w.Write([]byte(`{"SecretString":` + quoted(secret) + `}`))
	}))
	defer manager.Close()
	t.Setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", manager.URL)
	const arn = "arn:aws:secretsmanager:us-east-1:000000000000:secret:registry"
	event := eventOf(nil, framed(confluent, avroID, payment(avroID, "p-1")))

	f := newFunction(t, r, strings.Replace(guarded.URL(), "://", "://u:p%2Fw@", 1), nil)
	if n := f.deliver(event); n != 0 || len(f.calls) != 1 {
		t.Errorf("with the user of the URL %d records are reported", n)
	}
	f = newFunction(t, r, guarded.URL(), nil)
	if n := f.deliver(event); n != 1 || len(f.calls) != 0 {
		t.Errorf("without a user %d records are reported", n)
	}
	for content, reported := range map[string]int{`{"username":"u","password":"p/w"}`: 0,
		`{"username":"u","password":"old"}`: 1, `{"username":"u"}`: 1, `p/w`: 1} {
		secret, reads = content, 0
		f = newFunction(t, r, guarded.URL(), map[string]string{"IDEMSK_SCHEMA_SECRET_ARN": arn})
		if reads != 0 {
			t.Error("the secret is read before a schema is")
		}
		if n := f.deliver(event); n != reported || reads == 0 {
			t.Errorf("with the secret %s %d records are reported after %d reads", content, n, reads)
		}
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// A wrong variable is an error of the start, which does not contain the URL.
func TestVariablesThatAreRefused(t *testing.T) {
	const arn = "arn:aws:secretsmanager:us-east-1:000000000000:secret:registry"
	for want, env := range map[string][2]string{
		"IDEMSK_SCHEMA_REGISTRY is missing":   {"http:// u:hidden@h"},
		"IDEMSK_SCHEMA_REGISTRY":              {"registry:8081"},
		"want the URL of a registry":          {"http://a,hidden"},
		"arn:aws:glue:REGION":                 {"arn:aws:glue::000000000000:registry/hidden"},
		"registry/NAME":                       {"arn:aws:glue:us-east-1:000000000000:schema/hidden"},
		"want the ARN of a secret":            {"http://a", "arn:aws:s3:::b"},
		"want none with a registry of AWS":    {glue, arn},
		"either a secret or a user in the UR": {"http://u:hidden@a", arn},
	} {
		all := map[string]string{"IDEMSK_NAMESPACE": "n", "IDEMSK_STORE": "memory",
			"IDEMSK_SCHEMA_REGISTRY": env[0], "IDEMSK_SCHEMA_SECRET_ARN": env[1]}
		v := app.NewVars(func(name string) (string, bool) { s, ok := all[name]; return s, ok })
		app.ReadConfig(v, app.Defaults{}, schemaenv.Schemas())
		if err := v.Err(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v: error %v; want one that says %q, without the URL", env, err, want)
		}
	}
}

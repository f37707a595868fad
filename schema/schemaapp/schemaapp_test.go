package schemaapp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/confluent"
	"github.com/idemsk/idemsk/schema/schemaapp"
)

// Keys and fingerprints that are parts of values are taken from the decoded values, and others from the
// record.
func TestVariablesApplyToDecodedValues(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	server.SeedSchema("t", 1, 7, sr.Schema{Schema: `{"type":"record","name":"R","fields":[{"name":"id","type":"string"}]}`})
	server.SeedSchema("k", 1, 8, sr.Schema{Schema: `"string"`})
	record := &kafka.Record{Topic: "t", Key: []byte("\x00\x00\x00\x00\x08\x06abc"),
		Value: []byte("\x00\x00\x00\x00\x07\x06p-1")}
	for _, tc := range []struct {
		key, fingerprint, wantKey string
		wantFingerprint           store.Fingerprint
	}{
		{"json:$.id", "json:$.id", "p-1", store.FingerprintOf([]byte(`["p-1"]`))},
		{"key", "value", "abc", store.FingerprintOf(record.Value)},
		{"offset", "", "t-0@0", store.FingerprintOf(record.Value)},
		{"hash:$.id", "", "8b54475402832ed678027ac0d12c6ef67b3fb83224d4f6d68dc0315337a52773",
			store.Fingerprint{}},
	} {
		env := map[string]string{"IDEMSK_STORE": "memory", "IDEMSK_NAMESPACE": "n", "IDEMSK_KEY": tc.key,
			"IDEMSK_FINGERPRINT": tc.fingerprint}
		vars := app.NewVars(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
		base := app.NewBase(vars, app.ReadConfig(vars, app.Defaults{}), t.Output())
		var handled string
		parts, err := base.Parts(t.Context(),
			schemaapp.Build(func(context.Context, *app.Base) (*schema.Decoder, error) {
				registry, err := confluent.New([]string{server.URL()})
				if err != nil {
					return nil, err
				}
				return schema.New(schema.Config{Registry: registry, Formats: []schema.Format{avro.Format{}}})
			}, func(_ context.Context, v struct {
				ID string `avro:"id"`
			}, _ kafka.Record) (string, error) {
				handled = v.ID
				return "", nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		key, err := parts.Records.Key(t.Context(), record)
		fingerprint, err2 := parts.Records.Fingerprint(t.Context(), record)
		if err := errors.Join(err, err2); err != nil || key != tc.wantKey ||
			fingerprint != tc.wantFingerprint {
			t.Errorf("%s: key %s, fingerprint %v, %v", tc.key, key, fingerprint, err)
		}
		handler, _ := parts.Handler.(kafka.HandlerFunc)
		if _, err := handler(t.Context(), *record); err != nil || handled != "p-1" {
			t.Errorf("handled %q, %v", handled, err)
		}
		base.Close()
	}
}

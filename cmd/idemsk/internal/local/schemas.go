package local

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/confluent"
	"github.com/idemsk/idemsk/schema/proto"
)

// RegistryFake is the Options.SchemaRegistry of one in this process.
const RegistryFake = "fake"

// openSchemas returns a decoder by the schema registry, nil if there is none.
func (r *run) openSchemas() (*schema.Decoder, error) {
	address := r.o.SchemaRegistry
	switch address {
	case "":
		return nil, nil //nolint:nilnil // esm.Parts says what nil means
	case RegistryFake:
		fake := srfake.New()
		r.closers = append(r.closers, func() error { fake.Close(); return nil })
		address = fake.URL()
		r.o.Say(fmt.Sprintf("Schema registry in this process at %s.", address))
	}
	registry, err := confluent.New([]string{address})
	if err != nil {
		return nil, optionsf("--schema-registry: %w", err)
	}
	return schema.New(schema.Config{Registry: registry, Formats: []schema.Format{avro.Format{}, proto.Format{}}})
}

package schema

import (
	"encoding/json"
	"errors"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// jsonFormat reads JSON without looking at its schema.
type jsonFormat struct{}

// DataFormat implements Format.
func (jsonFormat) DataFormat() string { return JSON }

// Compile implements Format.
func (jsonFormat) Compile(*Schema) (Type, error) { return jsonType{}, nil }

type jsonType struct{}

// Decode implements Type.
func (jsonType) Decode(data []byte, into any) error { return rawjson.Unmarshal(data, into) }

// FromJSON implements Type.
func (jsonType) FromJSON(data []byte, into any) error { return rawjson.Unmarshal(data, into) }

var errNotJSON = errors.New("it is not JSON")

// ToJSON implements Type.
func (jsonType) ToJSON(data []byte) ([]byte, error) {
	if !json.Valid(data) {
		return nil, errNotJSON
	}
	return data, nil
}

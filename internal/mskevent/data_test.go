package mskevent

import "testing"

// Another key and value replace those of a record, in whatever order its fields are, and all else stays.
func TestRecordWithOtherData(t *testing.T) {
	m := Message{Key: []byte("k"), Value: []byte("{}"), ValueSchema: &Schema{ID: "7", DataFormat: "AVRO"}}
	const data = `{"key":"aw==","value":"e30=","valueSchemaMetadata":{"dataFormat":"AVRO","schemaId":"7"}`
	for json, want := range map[string]string{
		`{}`: data + `}`,
		`{"topic":"t","offset":1,"key":"eA==","value":"eA==","headers":[{"a":[1]}]}`: data + `,"topic":"t","offset":1,"headers":[{"a":[1]}]}`,
		`{ "value" : null, "offset": 1 , "valueSchemaMetadata": {"schemaId": 3}, "new": {"key": 1}, "value": 2}`: data +
			`,"offset":1,"new":{"key": 1}}`,
		`{"\u006bey":"eA==","ä\"":1}`: data + `,"ä\"":1}`,
	} {
		r := Record{JSON: []byte(json)}
		if got, err := r.WithDataOf(&m); err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v; want %s", json, got, err, want)
		}
	}
	tombstone := Record{JSON: []byte(`{"key":"eA==","offset":1}`)}
	if got, err := tombstone.WithDataOf(&Message{}); err != nil || string(got) != `{"key":null,"value":null,"offset":1}` {
		t.Errorf("a tombstone becomes %s, %v", got, err)
	}
	for _, json := range []string{``, `{`, `[]`, `1`} {
		r := Record{JSON: []byte(json)}
		if got, err := r.WithDataOf(&m); err == nil {
			t.Errorf("%q becomes %s; want an error", json, got)
		}
	}
}

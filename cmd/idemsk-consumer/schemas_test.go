package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/lambda/msk"
)

// A web service gets payments in Avro as JSON with their schema, each once by its ID in the value, in batches
// and one by one.
func TestWebServiceGetsDecodedValues(t *testing.T) {
	registry := srfake.New()
	defer registry.Close()
	registry.SeedSchema("payments", 1, 7, sr.Schema{Schema: `{"type":"record","name":"Payment","fields":[{"name":"id","type":"string"}]}`})
	for name, inCall := range map[string]string{"batches": "100", "single records": "1"} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, 2)
			var records []*kgo.Record
			for i := range 60 {
				id := fmt.Sprintf("p-%02d", i%40)
				records = append(records, &kgo.Record{Topic: topic, Key: []byte(id),
					Value: append([]byte("\x00\x00\x00\x00\x07\x08"), id...)})
			}
			records[50].Value = []byte(`{"id":"p-99"}`) // not in the framing
			client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			got := make(map[string]int)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				for _, p := range eventIn(t, r) {
					got[p]++
				}
				w.WriteHeader(http.StatusNoContent)
			}))
			defer server.Close()
			run(t, c, len(records), []string{"--http", server.URL}, map[string]string{
				"IDEMSK_CALL_RECORDS": inCall,
				"IDEMSK_KEY":          "json:$.id", "IDEMSK_SCHEMA_REGISTRY": registry.URL(),
				"IDEMSK_SCHEMA_DECODE": "value"})
			want := make(map[string]int)
			for i := range 40 {
				want[fmt.Sprintf(`{"id":"p-%02d"} AVRO 7`, i)] = 1
			}
			if !maps.Equal(got, want) {
				t.Errorf("the service got %v", got)
			}
			if letters := deadLetters(t, c, 1); !letters["p-10"] {
				t.Errorf("the dead letters are %v", letters)
			}
		})
	}
}

// eventIn returns the values of a request's event, each with its schema.
func eventIn(t *testing.T, r *http.Request) (values []string) {
	var body json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Error(err)
		return nil
	}
	event, err := msk.Decode(body)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, r := range slices.Concat(event.Partitions...) {
		text := []string{string(r.Value)}
		if s := r.ValueSchema; s != nil {
			text = append(text, s.DataFormat, s.ID)
		}
		values = append(values, strings.Join(text, " "))
	}
	return values
}

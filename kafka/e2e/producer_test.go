package e2e_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka/producer"
)

// A request that its producer sends twice, by a client with the hook, is handled once by a consumer with the default key.
func TestRequestThatIsProducedAgainIsHandledOnce(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		for range 2 { // the second process does not know that the first had sent its records
			client := f.client(kgo.WithHooks(producer.Hook(func(r *kgo.Record) string { return producer.Derive("payment", string(r.Value)) })))
			for _, reference := range []string{"4711", "4712"} {
				if err := client.ProduceSync(f.Context(), &kgo.Record{Topic: topic, Value: []byte(reference)}).FirstErr(); err != nil {
					f.Fatal(err)
				}
			}
			client.Close()
		}
		c := f.start()
		f.until("all records are settled", func() bool { return f.offsets()[0] == 4 })
		if r := c.report(); r.Executed != 2 || r.Executed+r.Replayed+r.Duplicates != 4 {
			f.Errorf("%+v; want 2 executed, and 2 replayed or shared", r)
		}
		if len(f.letters.all()) > 0 {
			f.Errorf("dead letters: %v", f.letters.all())
		}
		c.mustEnd()
	})
}

package msk_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/idemsk/idemsk/kafka"
)

// aws-lambda-go, whose types are the format, reads the sample events, but for the two whose fault is a type.
// As their README promises, they can be delivered in any order: no two use one place or one key, except a
// pair in which the second follows the first.
func TestSampleFiles(t *testing.T) {
	owner := make(map[string]string)
	claim := func(family, what string) {
		if other, taken := owner[what]; taken && other != family {
			t.Errorf("%s is used by %s and %s", what, other, family)
		}
		owner[what] = family
	}
	for _, file := range must(filepath.Glob(filepath.Join(samples, "*.json"))) {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		family := strings.TrimSuffix(strings.TrimSuffix(name, "-batches-1"), "-batches-2")
		var event events.KafkaEvent
		err := json.Unmarshal(must(os.ReadFile(file)), &event)
		if wrong := slices.Contains([]string{"bad-header-byte", "value-not-a-string"},
			name); wrong != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		places := make(map[string]bool)
		for partition, records := range event.Records {
			for _, r := range records {
				if want := fmt.Sprintf("%s-%d", r.Topic, r.Partition); partition != want {
					t.Errorf("%s: a record of %s under %s", name, want, partition)
				}
				place := fmt.Sprintf("place %s@%d", partition, r.Offset)
				if places[place] {
					t.Errorf("%s has two records at %s", name, place)
				}
				places[place] = true
				claim(family, place)
				for _, h := range r.Headers {
					if key, ok := h[kafka.DefaultKeyHeader]; ok {
						claim(family, "key "+string(key))
					}
				}
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

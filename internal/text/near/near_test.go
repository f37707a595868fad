package near_test

import (
	"testing"

	"github.com/idemsk/idemsk/internal/text/near"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "key", 3}, {"key", "", 3}, {"key", "key", 0}, {"key", "kex", 1}, {"key", "ky", 1},
		{"key", "keys", 1}, {"lease", "laese", 2},
		{"kitten", "sitting", 3},
	} {
		if got := near.Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("from %q to %q: %d; want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestOf(t *testing.T) {
	candidates := []string{"IDEMSK_KEY", "IDEMSK_LEASE", "IDEMSK_STORE", "IDEMSK_STORE_URL", "IDEMSK_WAIT",
		"IDEMSK_DEAD_LETTER_QUEUE_URL", "IDEMSK_KAFKA_TOPICS", "IDEMSK_KAFKA_GROUP", "IDEMSK_DEAD_LETTER_TOPIC",
		"IDEMSK_DEAD_LETTER_BUCKET"}
	for name, want := range map[string]string{
		"IDEMSK_LEAS": "IDEMSK_LEASE", "IDEMSK_LAESE": "IDEMSK_LEASE", "IDEMSK_STOREURL": "IDEMSK_STORE_URL",
		"IDEMSK_STORES": "IDEMSK_STORE",
		"IDEMSK_KY":     "IDEMSK_KEY", "IDEMSK_X": "", "IDEMSK_": "", "IDEMSK_TEST_ENDPOINT": "",
		"IDEMSK_TOPICS": "IDEMSK_KAFKA_TOPICS", "IDEMSK_GROUP": "IDEMSK_KAFKA_GROUP", "IDEMSK_URL": "IDEMSK_STORE_URL",
		"IDEMSK_DEAD_QUEUE": "IDEMSK_DEAD_LETTER_QUEUE_URL", "IDEMSK_QUEUE_LETTER": "", "IDEMSK_TOPICS_GROUP": "",
		// words that are joined, or missing, or misspelt as well
		"IDEMSK_DEADLETTER_QUEUE": "IDEMSK_DEAD_LETTER_QUEUE_URL", "IDEMSK_DEAD_LETTER_QEUE": "IDEMSK_DEAD_LETTER_QUEUE_URL",
		"IDEMSK_DEADLETTERTOPIC": "IDEMSK_DEAD_LETTER_TOPIC", "IDEMSK_DEAD_LETTER_URL": "IDEMSK_DEAD_LETTER_QUEUE_URL",
		"IDEMSK_DEAD_LETER_BUKET": "IDEMSK_DEAD_LETTER_BUCKET", "IDEMSK_TOPIC": "IDEMSK_KAFKA_TOPICS",
		// another word is not one that is misspelt
		"IDEMSK_DEAD_LETTER_TABLE": "", "IDEMSK_KAFKA_BROKER": "", "IDEMSK_STORE_TABLE": "",
	} {
		if got := near.Of(name, "IDEMSK_", candidates); got != want {
			t.Errorf("%s: got %q; want %q", name, got, want)
		}
	}
}

// Without the meant name another one is not suggested in its place.
func TestOfWithoutTheMeantName(t *testing.T) {
	for name, candidates := range map[string][]string{
		"IDEMSK_DEADLETTER_QUEUE":       {"IDEMSK_DEAD_LETTER_BUCKET", "IDEMSK_DEAD_LETTER_TOPIC"},
		"IDEMSK_KAFKA_SESSION_TIMEOUT":  {"IDEMSK_DRAIN_TIMEOUT"},
		"IDEMSK_OUTBOX_POLL_INTERVAL":   {"IDEMSK_COMMIT_INTERVAL"},
		"IDEMSK_DEAD_LETTER_TOPIC_NAME": {"IDEMSK_DEAD_LETTER_BUCKET"},
	} {
		if got := near.Of(name, "IDEMSK_", candidates); got != "" {
			t.Errorf("%s: got %q; want none", name, got)
		}
	}
}

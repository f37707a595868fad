package topic

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
)

func TestNewRefusesInvalidConfigurations(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  Config
		want string
	}{
		"no topic": {Config{}, `Topic is ""`},
		"two dots": {Config{Topic: ".."}, `Topic is ".."`},
		"a space":  {Config{Topic: "dead letters"}, "letters, digits"},
		"a short timeout": {Config{Topic: "letters", Timeout: time.Millisecond},
			"Timeout is 1ms: want 0, for 10s, or at least 1s"},
		"a negative timeout": {Config{Topic: "letters", Timeout: -1}, "Timeout is -1ns"},
		"not idempotent": {Config{Topic: "letters", Options: []kgo.Opt{kgo.DisableIdempotentWrite()}},
			"kgo.DisableIdempotentWrite"},
		"transactional": {Config{Topic: "letters", Options: []kgo.Opt{kgo.TransactionalID("x")}},
			"transactional"},
	} {
		topic, err := New(tc.cfg)
		if err == nil {
			topic.Close()
		}
		if !errors.Is(err, idem.ErrInvalidConfig) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q in it", name, err, tc.want)
		}
	}
}

func TestClosedTopicRefusesLetters(t *testing.T) {
	topic, err := New(Config{Topic: "letters", Options: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}})
	if err != nil {
		t.Fatal(err)
	}
	topic.Close()
	if err := topic.Send(t.Context(), letter()); !errors.Is(err, errClosed) ||
		!strings.Contains(err.Error(), "payments-3@17") {
		t.Errorf("error %v", err)
	}
}

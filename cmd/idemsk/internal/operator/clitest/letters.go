package clitest

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

// LetterJSON returns the dead letter of the record at an offset.
func LetterJSON(offset int) string {
	return fmt.Sprintf(`{"topic":"payments","partition":1,"offset":%d,"key":null,"value":"e30=","idempotencyKey":"payments#p-%d\u001b","token":17,
		"attempts":1,"error":{"code":"permanent","message":"no\u001b[31m"}}`, offset, offset)
}

// FillLetterTopic sends dead letters of a function, those of the records at some offsets, to the topic
// "letters".
func FillLetterTopic(t *testing.T, brokers, function string, offsets ...int) {
	t.Helper()
	topic, err := topicletters.New(topicletters.Config{Topic: "letters",
		Options: []kgo.Opt{kgo.SeedBrokers(brokers)}})
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	for _, offset := range offsets {
		l, err := kafka.ParseDeadLetter([]byte(LetterJSON(offset)))
		if err != nil {
			t.Fatal(err)
		}
		l.Function = function
		if err := topic.Send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

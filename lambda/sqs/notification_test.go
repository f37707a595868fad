package sqs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// The dead letter of a notification of SNS says that raw message delivery is off, however its record failed: SNS
// keeps the attributes in the body, so that no key is found, or the handler can't read it.
func TestNotificationsOfSNS(t *testing.T) {
	const notification = `{"Type":"Notification","MessageId":"m","TopicArn":"arn:aws:sns:us-east-1:1:payments",` +
		`"Message":"{\"paymentId\":\"p\"}","Timestamp":"2026-01-01T00:00:00.000Z"}`
	for body, explained := range map[string]bool{
		notification: true, " \n" + notification: true,
		strings.Replace(notification, "Notification", "SubscriptionConfirmation", 1): false,
		`{"Type":"Notification","amount":1}`:                                         false, `{"paymentId":"p"}`: false, `hello`: false,
	} {
		for _, key := range []string{"", "k"} {
			f := newFixture(t)
			f.handle = func(context.Context, kafka.Record) error { return idem.Permanent(errBoom) }
			equalSlices(t, "named", f.deliver(message{queue: standard, id: "1", key: key, body: body}))
			equal(t, "letters", len(f.letters), 1)
			if got := strings.Contains(f.letters[0].Error.Message, "raw message delivery"); got != explained {
				t.Errorf("%s, key %q: %s", body, key, f.letters[0].Error.Message)
			}
		}
	}
}

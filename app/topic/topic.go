// Package topic adds dead letters in a Kafka topic to a Lambda function. The function's main package imports
// it:
//
//	func main() {
//		lambda.Start(handler, topic.DeadLetters())
//	}
//
// The variable IDEMSK_DEAD_LETTER_TOPIC then names the topic, and IDEMSK_KAFKA_BROKERS, _AUTH, _TLS, _TLS_CA,
// _TLS_CERT, _TLS_KEY, _USERNAME, _PASSWORD and _SECRET_ARN its cluster. Processes of package app/process
// have it without an import; their topic is in the cluster that they consume.
package topic

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/internal/kafkaauth"
	"github.com/idemsk/idemsk/kafka"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

// DeadLetters returns the option that adds the topic.
func DeadLetters() app.Option {
	var auth kafkaauth.Config
	return app.WithDeadLetterTopic(app.DeadLetterTopic{
		Read: func(v *app.Vars) { auth = kafkaauth.Read(v) },
		Open: func(ctx context.Context, b *app.Base) (kafka.DeadLetters, error) { return open(ctx, b, auth) },
	})
}

func open(ctx context.Context, b *app.Base, auth kafkaauth.Config) (_ kafka.DeadLetters, err error) {
	if auth.NeedsAWS() {
		if auth.AWS, err = b.AWS(ctx); err != nil {
			return nil, err
		}
	}
	options, err := auth.Options()
	if err != nil {
		return nil, err
	}
	topic, err := topicletters.New(topicletters.Config{
		Topic:   b.Config.DeadLetterTopic,
		Options: append(options, kgo.WithLogger(kslog.New(b.Logger.With("component", "kafka")))),
	})
	if err != nil {
		return nil, err
	}
	b.OnClose(topic.Close)
	return topic, nil
}

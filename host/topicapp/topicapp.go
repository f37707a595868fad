// Package topicapp adds dead letters in a Kafka topic to a Lambda function. The function's main package imports it:
//
//	func main() {
//		app.Start(handler, topicapp.DeadLetters())
//	}
//
// The variable IDEMSK_DEAD_LETTER_TOPIC then names the topic, and IDEMSK_KAFKA_BROKERS, _AUTH, _TLS, _TLS_CA, _TLS_CERT, _TLS_KEY,
// _USERNAME, _PASSWORD and _SECRET_ARN its cluster. Processes of package kafka/app have it without an import; their topic is in the
// cluster that they consume.
package topicapp

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/idemsk/idemsk/host"
	"github.com/idemsk/idemsk/internal/kafkaauth"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/topicdlq"
)

// DeadLetters returns the option that adds the topic.
func DeadLetters() host.Option {
	var auth kafkaauth.Config
	return host.WithDeadLetterTopic(host.DeadLetterTopic{
		Read: func(v *host.Vars) { auth = kafkaauth.Read(v) },
		Open: func(ctx context.Context, b *host.Base) (kafka.DeadLetters, error) { return open(ctx, b, auth) },
	})
}

func open(ctx context.Context, b *host.Base, auth kafkaauth.Config) (_ kafka.DeadLetters, err error) {
	if auth.NeedsAWS() {
		if auth.AWS, err = b.AWS(ctx); err != nil {
			return nil, err
		}
	}
	options, err := auth.Options()
	if err != nil {
		return nil, err
	}
	topic, err := topicdlq.New(topicdlq.Config{
		Topic:   b.Config.DeadLetterTopic,
		Options: append(options, kgo.WithLogger(kslog.New(b.Logger.With("component", "kafka")))),
	})
	if err != nil {
		return nil, err
	}
	b.OnClose(topic.Close)
	return topic, nil
}

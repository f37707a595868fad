package adapters

import (
	"cmp"
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// RabbitMQ handles the messages of a queue until ctx ends or the channel is closed: each MessageId once, which
// the publisher sets. A message that fails is tried again here. One that failed for good, that has no MessageId,
// or whose MessageId was used for another body, goes to the queue Dead. Channel.Qos bounds the messages in
// progress.
type RabbitMQ struct {
	Channel     *amqp.Channel
	Queue, Dead string
	Scheduler   *idem.Scheduler
	Handle      func(context.Context, amqp.Delivery) ([]byte, error)
}

// Run runs the consumer. The caller closes the channel afterwards: messages in progress are delivered again.
func (q *RabbitMQ) Run(ctx context.Context) error {
	_, declared := q.Channel.QueueDeclare(q.Dead, true, false, false, false, nil)
	deliveries, err := q.Channel.ConsumeWithContext(ctx, q.Queue, "", false, false, false, false, nil)
	if err := errors.Join(declared, err, q.Channel.Confirm(false)); err != nil {
		return err
	}
	stream := q.Scheduler.Stream(ctx, func(it *idem.Item) {
		if d, ok := it.Substitute.(delivery); ok {
			_ = d.Ack(false) // after an error it is delivered again
		}
	}, nil)
	defer stream.Close(context.WithoutCancel(ctx))
	for m := range deliveries {
		d := delivery{m, q}
		stream.Add(&idem.Item{Lane: m.MessageId, Substitute: d, Task: idem.Task{
			Key: d.key(m.MessageId), Fingerprint: store.FingerprintOf(m.Body), Source: q.Queue + "@" + m.MessageId,
			Handler: d, DeadLetters: d}})
	}
	return cmp.Or[error](context.Cause(ctx), amqp.ErrClosed)
}

// delivery is a message as the scheduler uses it: handler, dead-letter sink and substitute of its task.
type delivery struct {
	amqp.Delivery
	*RabbitMQ
}

func (d delivery) key(id string) string {
	if id == "" {
		return ""
	}
	return d.Queue + "#" + id
}

// Handle implements idem.Handler.
func (d delivery) Handle(ctx context.Context) ([]byte, error) {
	return d.RabbitMQ.Handle(ctx, d.Delivery)
}

// Send implements idem.DeadLetterSink.
func (d delivery) Send(ctx context.Context, letter idem.DeadLetter) error {
	sent, err := d.Channel.PublishWithDeferredConfirmWithContext(ctx, "", d.Dead, false, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: d.MessageId, ContentType: d.ContentType, Body: d.Body,
		Headers: amqp.Table{"error": letter.Err.Error()}})
	if err != nil {
		return err
	}
	if stored, err := sent.WaitContext(ctx); err != nil || !stored {
		return errors.Join(errors.New("the broker did not confirm the dead letter"), err)
	}
	return nil
}

// SubstituteFor implements idem.Substitute: a message whose key is refused fails under a key of its own.
func (d delivery) SubstituteFor(out *idem.Outcome) (idem.Task, bool) {
	if out.Kind == idem.ReplayedFailed {
		return idem.Task{}, false
	}
	cause := idem.Permanent(out.Err)
	return idem.Task{Key: d.key("refused#" + store.FingerprintOf(d.Body).String()), Source: d.Queue, Rejected: true,
		Handler:     idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, cause }),
		DeadLetters: d}, true
}

package adapters_test

import (
	"context"
	"errors"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/test/adapters"
)

const dead = "payments that failed"

// openQueue connects to a broker, and creates the queue.
func openQueue(broker string) (*amqp.Connection, *amqp.Channel, error) {
	connection, err := amqp.Dial("amqp://guest:guest@" + broker)
	if err != nil {
		return nil, nil, err
	}
	channel, err := connection.Channel()
	if err == nil {
		err = channel.Qos(50, 0, false)
	}
	if err == nil {
		_, err = channel.QueueDeclare(topic, true, false, false, false, nil)
	}
	if err != nil {
		return nil, nil, errors.Join(err, connection.Close())
	}
	return connection, channel, nil
}

// consumeQueue handles the messages of the queue until ctx ends.
func consumeQueue(ctx context.Context, broker string, engine *idem.Engine,
	handle func(context.Context, amqp.Delivery) ([]byte, error)) error {
	connection, channel, err := openQueue(broker)
	if err != nil {
		return err
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{})
	if err != nil {
		return err
	}
	q := adapters.RabbitMQ{Channel: channel, Queue: topic, Dead: dead, Scheduler: scheduler, Handle: handle}
	return errors.Join(q.Run(ctx), connection.Close())
}

// dyingRabbitMQ is the process that dies.
func dyingRabbitMQ(engine *idem.Engine) error {
	return consumeQueue(context.Background(), os.Getenv(brokerVariable), engine,
		func(ctx context.Context, _ amqp.Delivery) ([]byte, error) { return die(ctx) })
}

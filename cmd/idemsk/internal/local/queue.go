package local

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm/queues"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// queueSource is an SQS queue in this process whose messages the function gets.
type queueSource struct {
	*queues.Mapping
	client *sqs.Client
	url    string
	fifo   bool
}

// fromQueue reports whether the run reads a queue.
func (o *Options) fromQueue() bool { return o.Queue != "" }

// checkQueue refuses options that do not apply to a queue. The verb refuses the flags of the topic.
func (o *Options) checkQueue(check checkFunc) {
	if !o.fromQueue() {
		return
	}
	check(o.ownStore(), "--sqs needs --function, and a --store: the queue is in the SQS in this process")
	check(o.Queue != deadLetterQueue, "--sqs is %s, which is the queue of the dead letters: want another name", o.Queue)
	check(o.Visibility >= time.Second && o.Visibility%time.Second == 0,
		"--visibility-timeout is %s: want whole seconds, 1s or more", o.Visibility)
	check(o.UI.Addr == "" && !o.processes() && len(o.ESM.Events) == 0 && !o.Compare,
		"--sqs excludes --ui, --host process, --events and --compare")
}

// openQueueSource creates the queue and its event source mapping.
func (r *run) openQueueSource(ctx context.Context) (*queueSource, error) {
	o, s := r.o, r.store
	q := &queueSource{client: s.sqs, fifo: strings.HasSuffix(o.Queue, ".fifo")}
	attributes := map[string]string{"VisibilityTimeout": strconv.Itoa(int(o.Visibility.Seconds()))}
	if q.fifo {
		attributes["FifoQueue"] = "true"
	}
	out, err := s.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &o.Queue, Attributes: attributes})
	if err != nil {
		return nil, fmt.Errorf("--sqs: %w", err)
	}
	q.url = aws.ToString(out.QueueUrl)
	o.Say(fmt.Sprintf("Queue in this process: aws sqs send-message --endpoint-url %s --queue-url %s …",
		s.queues.URL(), q.url))
	parts := queues.Parts{
		Client: s.sqs, URL: q.url, Name: o.Queue, Left: func() int { return len(s.queues.Bodies(q.url)) },
		BatchSize: o.ESM.BatchSize, Window: o.ESM.MaximumBatchingWindow,
		Partial: slices.Contains(o.ESM.FunctionResponseTypes, esm.ReportBatchItemFailures),
		Pollers: o.ESM.Pollers, Invoker: r.invoker, Observe: r.observe, Cut: r.cut,
	}
	if r.chances != nil {
		parts.Faults = r.chances
	}
	if o.UntilDrained {
		parts.Drain = r.produced
	}
	q.Mapping = queues.New(parts)
	return q, nil
}

// generated returns the generator of the payments of the run.
func (o *Options) generated() payments.Config {
	return payments.Config{Records: o.Produce, Seed: o.Seed, Copies: o.Copies,
		FreezesPerMille: o.FreezesPerMille}
}

// send sends the payments of the run. The group of a payment is its account.
func (q *queueSource) send(ctx context.Context, o *Options) error {
	n := 0
	for m, err := range o.generated().Messages(o.Queue) {
		if err != nil {
			return err
		}
		in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String(string(m.Value)),
			MessageAttributes: make(map[string]types.MessageAttributeValue)}
		for _, h := range m.Headers {
			in.MessageAttributes[h.Key] = types.MessageAttributeValue{DataType: aws.String("String"),
				StringValue: aws.String(string(h.Value))}
		}
		if n++; q.fifo {
			in.MessageGroupId, in.MessageDeduplicationId = aws.String(string(m.Key)), aws.String(strconv.Itoa(n))
		}
		if _, err := q.client.SendMessage(ctx, in); err != nil {
			return fmt.Errorf("sending to %s: %w", o.Queue, err)
		}
	}
	return nil
}

// sent calls each with the payments of the run, as records.
func (o *Options) sent(each func([]mskevent.Record) error) error {
	for m, err := range o.generated().Messages(o.Queue) {
		if err == nil {
			err = each([]mskevent.Record{m.Record()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queueLines returns the progress of a queue.
func queueLines(name string, partitions []esm.PartitionState) []string {
	lag, flight := sums(partitions)
	return []string{fmt.Sprintf("queue %s: %s deleted, %s left, %s in flight", term.Escape(name),
		term.Plural(int(partitions[0].Committed), "message", "messages"), term.Count(lag), term.Count(flight))}
}

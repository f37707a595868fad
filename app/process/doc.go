// Package process runs a handler as a long-running process that consumes topics as a member of a Kafka
// consumer group: on ECS, on EKS, or on any machine. It reads the configuration from the environment and
// creates the store, the engine, the dead letters and the logger by package app, and the consumer by package
// kafka/consumer.
//
//	func main() {
//		process.Start(kafka.JSON(func(ctx context.Context, p Payment, r kafka.Record) (Receipt, error) {
//			return book(ctx, p)
//		}))
//	}
//
// The same handler runs as a Lambda function by package app/lambda.
//
// SIGTERM or SIGINT drains the consumer, and the process exits with status 0. A second signal ends the
// process at once, with status 1. An error ends it with status 1. An invalid configuration is reported by one
// message that names every invalid variable. A store that is not set up (store.ErrMisconfigured) ends the
// process before it joins its group. Config lists the variables.
package process

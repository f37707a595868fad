// Package lambda runs a handler as a Lambda function. It reads the configuration from the environment and
// creates the store, the engine, the dead letters and the logger by package app, and writes metrics.
//
//	func main() {
//		lambda.Start(msk.JSON(func(ctx context.Context, p Payment, r msk.Record) (Receipt, error) {
//			return book(ctx, p)
//		}))
//	}
//
// An invalid configuration ends the process before it requests work from the Runtime API, with one message
// that names every invalid variable. docs/configuration.md lists the variables. A program that is configured
// in Go calls msk.New with an engine of its own.
package lambda

// Package app makes a Lambda function of a handler: it reads the configuration from the environment, and wires store,
// engine, dead letters, logs and metrics.
//
//	func main() {
//		app.Start(msk.JSON(func(ctx context.Context, p Payment, r msk.Record) (Receipt, error) {
//			return book(ctx, p)
//		}))
//	}
//
// A wrong configuration ends the process before it asks the Runtime API for work, with one message that names every
// variable at fault. The variables are those of Config.
package app

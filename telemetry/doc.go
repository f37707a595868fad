// Package telemetry traces and measures the handling of records by OpenTelemetry. It uses the API of
// OpenTelemetry only: the program chooses an SDK and exporters, or none. Attributes follow the semantic
// conventions for messaging, version 1.43.0, whose status is Development:
// https://github.com/open-telemetry/semantic-conventions/tree/v1.43.0/docs/messaging.
//
//	t, err := telemetry.New(telemetry.Config{Group: "ledger"}) // after the SDK has set the providers
//	…
//	lambda.Start(handler, t.Option())
//
// docs/telemetry.md lists the spans, attributes and metrics.
package telemetry

package main

import (
	"log/slog"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/internal/kafkaauth"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// config is the function's configuration.
type config struct {
	table    string // IDEMSK_OUTBOX_TABLE
	kafka    kafkaauth.Config
	timeout  time.Duration // IDEMSK_KAFKA_TIMEOUT: for the events that are sent together
	function string        // AWS_LAMBDA_FUNCTION_NAME
	logLevel slog.Level    // IDEMSK_LOG_LEVEL
}

func readConfig(v *app.Vars) config {
	return config{
		table:    v.Table("IDEMSK_OUTBOX_TABLE", dynamooutbox.DefaultTable),
		kafka:    kafkaauth.Read(v),
		timeout:  v.Duration("IDEMSK_KAFKA_TIMEOUT", relay.DefaultTimeout, time.Second, time.Minute),
		function: v.String("AWS_LAMBDA_FUNCTION_NAME", ""),
		logLevel: readLogLevel(v),
	}
}

func readLogLevel(v *app.Vars) slog.Level {
	switch v.OneOf("IDEMSK_LOG_LEVEL", "INFO", "DEBUG", "WARN", "ERROR") {
	case "DEBUG":
		return slog.LevelDebug
	case "WARN":
		return slog.LevelWarn
	case "ERROR":
		return slog.LevelError
	}
	return slog.LevelInfo
}

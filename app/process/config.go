package process

import (
	"net"
	"strings"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/internal/kafkaauth"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// Config is the configuration of a process.
type Config struct {
	app.Config
	// IDEMSK_KAFKA_BROKERS, _TOPICS, _GROUP, _INSTANCE_ID, _LEAVE, _PROTOCOL, _RESET, _SESSION_TIMEOUT,
	// IDEMSK_COMMIT_INTERVAL, IDEMSK_DRAIN_TIMEOUT, IDEMSK_MAX_BYTES. The other fields are set when the process
	// starts.
	Consumer consumer.Config
	HTTPAddr string // IDEMSK_HTTP_ADDR

	// IDEMSK_KAFKA_AUTH, _TLS, _TLS_CA, _TLS_CERT, _TLS_KEY, _USERNAME, _PASSWORD, _SECRET_ARN, and the
	// brokers again
	auth kafkaauth.Config
}

// The bounds of variables.
const (
	maxInterval = time.Minute
	maxTimeout  = 20 * time.Minute
	maxSession  = 30 * time.Minute // group.max.session.timeout.ms of a broker
	mostBytes   = 64 << 30
	leastBytes  = 4 << 10
)

// ReadConfig reads the configuration of a process with these options. Errors are collected in v.
func ReadConfig(v *app.Vars, options ...app.Option) Config {
	const name = "IDEMSK_KAFKA_GROUP"
	cfg := Config{
		Config: app.ReadConfig(v, app.Defaults{Name: v.String(name, ""), NameVariable: name,
			Order: kafka.ByKey}, options...),
		Consumer: readConsumer(v, v.String(name, "")),
		auth:     kafkaauth.Read(v),
		HTTPAddr: v.String("IDEMSK_HTTP_ADDR", ""),
	}
	cfg.Consumer.Brokers = cfg.auth.Brokers
	if _, _, err := net.SplitHostPort(cfg.HTTPAddr); err != nil && cfg.HTTPAddr != "" {
		v.Fail("IDEMSK_HTTP_ADDR", cfg.HTTPAddr, "an address to listen on, such as 127.0.0.1:8080 or :8080")
	}
	return cfg
}

func readConsumer(v *app.Vars, group string) consumer.Config {
	cfg := consumer.Config{
		Topics:     readList(v, "IDEMSK_KAFKA_TOPICS", "the topics to consume: payments,refunds"),
		Group:      group,
		InstanceID: v.String("IDEMSK_KAFKA_INSTANCE_ID", ""),
		LeaveGroup: v.Bool("IDEMSK_KAFKA_LEAVE", false),
		SessionTimeout: v.Duration("IDEMSK_KAFKA_SESSION_TIMEOUT", consumer.DefaultSessionTimeout,
			time.Second, maxSession),
		CommitInterval: v.Duration("IDEMSK_COMMIT_INTERVAL", consumer.DefaultCommitInterval, time.Millisecond,
			maxInterval),
		DrainTimeout: v.Duration("IDEMSK_DRAIN_TIMEOUT", consumer.DefaultDrainTimeout, time.Millisecond,
			maxTimeout),

		MaxBytes: int64(v.Int("IDEMSK_MAX_BYTES", consumer.DefaultMaxBytes, leastBytes, mostBytes)),
	}
	cfg.RevokeTimeout = cfg.DrainTimeout / 2 //nolint:mnd // the group waits meanwhile
	if group == "" {
		v.Fail("IDEMSK_KAFKA_GROUP", "", "the name of the consumer group")
	}
	if v.OneOf("IDEMSK_KAFKA_PROTOCOL", "classic", "consumer") == "consumer" {
		cfg.Protocol = consumer.Incremental
	}
	if v.OneOf("IDEMSK_KAFKA_RESET", "earliest", "fail") == "fail" {
		cfg.Reset = consumer.Fail
	}
	if cfg.LeaveGroup && cfg.InstanceID == "" {
		v.Fail("IDEMSK_KAFKA_LEAVE", "true",
			"false, as IDEMSK_KAFKA_INSTANCE_ID is not set: other members always leave")
	}
	if cfg.LeaveGroup && cfg.Protocol == consumer.Incremental {
		v.Fail("IDEMSK_KAFKA_LEAVE", "true",
			"false, as IDEMSK_KAFKA_PROTOCOL is consumer: a static member of such a group can't be made to leave")
	}
	return cfg
}

// readList returns the elements of a list, at least one.
func readList(v *app.Vars, name, want string) (list []string) {
	s := v.String(name, "")
	for e := range strings.SplitSeq(s, ",") {
		if e = strings.TrimSpace(e); e != "" {
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		v.Fail(name, s, want)
	}
	return list
}

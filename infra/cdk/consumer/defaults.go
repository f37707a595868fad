package consumer

import (
	"cmp"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// The defaults of the construct. The defaults of the IDEMSK_* variables are those of the function.
const (
	DefaultBatchSize        = 100
	DefaultRecordTime       = 20 * time.Millisecond
	DefaultMinPollers       = 1
	DefaultMaxPollers       = 10
	DefaultTimeout          = time.Minute
	DefaultMemoryMB         = 512
	DefaultLogRetentionDays = 30
	DefaultMaxLag           = 100_000
	DefaultMaxAge           = 15 * time.Minute
	DefaultMaxInProgress    = 15 * time.Minute
	DefaultStoreTable       = "idemsk"
	// PostgresConcurrency is the default of Concurrency with StorePostgres.
	PostgresConcurrency = 8

	DefaultKafkaTimeout  = 10 * time.Second
	DefaultRelayAttempts = 5
	DefaultRelayTimeout  = 2 * time.Minute
	DefaultOutboxMaxAge  = 5 * time.Minute

	DefaultReconcileEvery = 24 * time.Hour
	DefaultPruneEvery     = time.Hour
	DefaultExportCovers   = 25 * time.Hour
	DefaultExportLag      = time.Hour
)

// withDefaults returns the props with all defaults. Check and New use it.
func (given *Props) withDefaults() Props {
	p := *given
	p.Architecture = cmp.Or(p.Architecture, ARM64)
	p.Runtime = cmp.Or(p.Runtime, ProvidedAL2023)
	p.Auth = cmp.Or(p.Auth, p.defaultAuth())
	p.Namespace = cmp.Or(p.Namespace, p.ConsumerGroup)
	p.KeyScope = cmp.Or(p.KeyScope, KeyScopeTopic)
	topics := make([]Topic, len(p.Topics))
	for i, t := range p.Topics {
		topics[i] = Topic{Name: t.Name, Group: cmp.Or(t.Group, p.ConsumerGroup)}
	}
	p.Topics = topics
	p.BatchSize = cmp.Or(p.BatchSize, DefaultBatchSize)
	p.RecordTime = cmp.Or(p.RecordTime, DefaultRecordTime)
	p.StartingPosition = cmp.Or(p.StartingPosition, TrimHorizon)
	p.Failures = cmp.Or(p.Failures, p.defaultFailures())
	p.PollerLog = cmp.Or(p.PollerLog, PollerLogInfo)
	if !p.OnDemand {
		p.Pollers.Min = cmp.Or(p.Pollers.Min, DefaultMinPollers)
		p.Pollers.Max = cmp.Or(p.Pollers.Max, max(p.Pollers.Min, DefaultMaxPollers))
	}
	p.Key = cmp.Or(p.Key, "header:"+kafka.DefaultKeyHeader)
	p.Fingerprint = cmp.Or(p.Fingerprint, "value")
	p.MissingKey = cmp.Or(p.MissingKey, "reject")
	p.StoreDown = cmp.Or(p.StoreDown, "closed")
	p.Store = cmp.Or(p.Store, StoreDynamoDB)
	if p.Store != StoreDynamoDB {
		p.StoreTable = cmp.Or(p.StoreTable, DefaultStoreTable)
	}
	p.setOrder()
	p.setEngine()
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	p.MemoryMB = cmp.Or(p.MemoryMB, DefaultMemoryMB)
	p.LogLevel = cmp.Or(p.LogLevel, "INFO")
	p.LogRetentionDays = cmp.Or(p.LogRetentionDays, DefaultLogRetentionDays)
	p.Canary = cmp.Or(p.Canary, CanaryOff)
	p.RemovalPolicy = cmp.Or(p.RemovalPolicy, awscdk.RemovalPolicy_RETAIN)
	p.setAlarms()
	if p.Outbox != nil {
		p.Outbox = p.Outbox.withDefaults(&p)
	}
	if p.Maintenance != nil {
		p.Maintenance = p.Maintenance.withDefaults(&p)
	}
	return p
}

// setEngine sets the defaults of keys, leases and attempts.
func (p *Props) setEngine() {
	d := idem.Defaults()
	p.Claim, p.CommitWindow = cmp.Or(p.Claim, ClaimByKey), cmp.Or(p.CommitWindow, d.CommitWindow)
	p.Lease = cmp.Or(p.Lease, d.Lease)
	p.MaxClockSkew = cmp.Or(p.MaxClockSkew, store.DefaultMaxClockSkew)
	p.Retention = cmp.Or(p.Retention, d.Retention)
	p.MaxAttempts = cmp.Or(p.MaxAttempts, d.MaxAttempts)
	p.RetryDelay = cmp.Or(p.RetryDelay, d.RetryDelay)
	p.OutageFailures = cmp.Or(p.OutageFailures, d.OutageFailures)
	p.MaxResult = cmp.Or(p.MaxResult, d.MaxResult)
	p.DeadlineMargin = cmp.Or(p.DeadlineMargin, d.DeadlineMargin)
}

func (p *Props) setAlarms() {
	p.MaxLag = cmp.Or(p.MaxLag, DefaultMaxLag)
	p.MaxAge = cmp.Or(p.MaxAge, DefaultMaxAge)
	p.MaxInProgress = cmp.Or(p.MaxInProgress, DefaultMaxInProgress)
}

// withDefaults needs the consumer's props with their defaults.
func (given *OutboxProps) withDefaults(p *Props) *OutboxProps {
	o := *given
	if len(o.Brokers) == 0 {
		o.Brokers = p.BootstrapServers
	}
	o.Auth = cmp.Or(o.Auth, p.Auth)
	if o.Auth == p.Auth && o.SecretARN == "" {
		o.SecretARN, o.SecretKeyARN = p.SecretARN, cmp.Or(o.SecretKeyARN, p.SecretKeyARN)
	}
	o.KafkaTimeout = cmp.Or(o.KafkaTimeout, DefaultKafkaTimeout)
	o.Attempts = cmp.Or(o.Attempts, DefaultRelayAttempts)
	o.Timeout = cmp.Or(o.Timeout, DefaultRelayTimeout)
	o.MemoryMB = cmp.Or(o.MemoryMB, DefaultMemoryMB)
	o.MaxAge = cmp.Or(o.MaxAge, DefaultOutboxMaxAge)
	if o.VPC == nil && p.VPC != nil {
		o.VPC = p.VPC
		if o.Subnets == nil {
			o.Subnets = p.Subnets
		}
		if len(o.SecurityGroups) == 0 {
			o.SecurityGroups = p.SecurityGroups
		}
	}
	return &o
}

// encrypted reports whether the relay's connections are encrypted.
func (o *OutboxProps) encrypted() bool { return o.Auth != AuthNone || o.TLS }

// setOrder sets the defaults of a function that orders records itself. The layer does not.
func (p *Props) setOrder() {
	if !p.wrapped() {
		p.Order = cmp.Or(p.Order, "partition")
		p.Concurrency = cmp.Or(p.Concurrency, p.defaultConcurrency())
	}
}

// wrapped reports whether the function runs behind the layer.
func (p *Props) wrapped() bool { return p.Runtime != ProvidedAL2023 }

func (p *Props) selfManaged() bool { return len(p.BootstrapServers) > 0 }

func (p *Props) defaultAuth() Auth {
	if p.selfManaged() {
		return AuthSCRAM512
	}
	return AuthIAM
}

func (p *Props) defaultConcurrency() int {
	if p.Store == StorePostgres {
		return PostgresConcurrency
	}
	return schedule.DefaultConcurrency
}

func (p *Props) defaultFailures() Failures {
	if p.OnDemand {
		return FailBatch
	}
	return FailPartial
}

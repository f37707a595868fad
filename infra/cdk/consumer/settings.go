package consumer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// setting is a row of the table of settings: a property with its default, its valid values, and its variable.
// README.md has a row for each. What depends on more than one property is in the functions of checker.
type setting struct {
	property string // its path in Props
	value
	needs    []need
	variable string // in the environment of the readers; "" if there is none
	readers  host
}

// host is a set of functions.
type host int

const (
	handlers host = 1 << iota // the consumer's function, whose code checks its variables
	maintainer
	relay
)

// need is what a setting depends on. If it is not met, the setting has no default and no variable, and want
// says why it is refused.
type need struct {
	met  bool
	want string
}

func row(property string, v value, needs ...need) setting {
	return setting{property: property, value: v, needs: needs}
}

func (s setting) as(variable string, readers host) setting {
	s.variable, s.readers = variable, readers
	return s
}

// unmet returns the first need that is not met, or nil.
func (s setting) unmet() *need {
	if i := slices.IndexFunc(s.needs, func(n need) bool { return !n.met }); i >= 0 {
		return &s.needs[i]
	}
	return nil
}

const (
	maxTimeout   = 14 * time.Minute // AWS's for Kafka event sources
	maxAuxiliary = 15 * time.Minute // of other functions
	maxRetention = 10 * 365 * 24 * time.Hour
	week         = 7 * 24 * time.Hour
)

// settings returns the table. Its rows point into p.
func (p *Props) settings() []setting {
	a := &p.Alarms
	age := func(of *time.Duration) value {
		return lasting(of, 15*time.Minute, time.Second, maxRetention, 1)
	}
	rows := slices.Concat(p.functionSettings(), p.clusterSettings(), p.sourceSettings(),
		p.idempotencySettings(), p.storeSettings(), []setting{
			row("DeadLetters.BucketARN", form(&p.DeadLetters.BucketARN, "", prefixARN)),
			row("Alarms.Email", form(&a.Email, "", email)),
			row("Alarms.MaxLag", number(&a.MaxLag, 100_000, 1, 1_000_000_000)),
			row("Alarms.MaxAge", age(&a.MaxAge)),
			row("Alarms.MaxInProgress", age(&a.MaxInProgress)),
			row("RemovalPolicy", word(&p.RemovalPolicy, awscdk.RemovalPolicy_RETAIN, awscdk.RemovalPolicy_DESTROY)),
		})
	if p.Outbox != nil {
		rows = append(rows, p.outboxSettings(p.Outbox)...)
	}
	if p.Maintenance != nil {
		rows = append(rows, p.maintenanceSettings(p.Maintenance)...)
	}
	return rows
}

func (p *Props) functionSettings() []setting {
	f := &p.Function
	layer := need{p.wrapped(), "none with Function.Runtime " + ProvidedAL2023 +
		", or another Function.Runtime: it is of functions behind the layer"}
	return []setting{
		row("Function.Architecture", word(&f.Architecture, ARM64, X8664)),
		row("Function.Runtime", form(&f.Runtime, ProvidedAL2023, runtimeName)),
		row("Function.Handler", required(&f.Handler, handlerName), layer),
		row("Function.LayerZip", anything(&f.LayerZip, ""), layer),
		row("Function.Timeout", lasting(&f.Timeout, time.Minute, time.Second, maxTimeout, time.Second)),
		row("Function.MemoryMB", memory(&f.MemoryMB)),
		row("Function.ReservedConcurrency", number(&f.ReservedConcurrency, 0, 1, 1_000_000)),
		row("Function.LogLevel", word(&f.LogLevel, "INFO", "DEBUG", "WARN", "ERROR")).
			as("IDEMSK_LOG_LEVEL", handlers|maintainer|relay),
		row("Function.LogRetentionDays", checked(&f.LogRetentionDays, 30, retention)),
		row("Function.Canary",
			word(&f.Canary, CanaryOff, Canary10Percent5, Canary10Percent15, CanaryLinear10)),
	}
}

func memory(field *int) value { return number(field, 512, 128, 10_240) }

// logRetentionDays are the retention periods that CloudWatch Logs supports.
var logRetentionDays = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192,
	2557, 2922, 3288, 3653}

func retention(days int) string {
	if slices.Contains(logRetentionDays, days) {
		return ""
	}
	return "one of " + strings.Trim(strings.ReplaceAll(fmt.Sprint(logRetentionDays), " ", ", "), "[]")
}

func (p *Props) clusterSettings() []setting {
	k := &p.Cluster
	selfManaged := need{p.selfManaged(), "none with Cluster.ARN: AWS knows the network of an MSK cluster"}
	return []setting{
		row("Cluster.ARN", form(&k.ARN, "", clusterARN)),
		row("Cluster.BootstrapServers", list(&k.BootstrapServers, broker, 10)), //nolint:mnd // AWS's maximum
		row("Cluster.Auth", word(&k.Auth, p.auths()...)),
		row("Cluster.SecretARN", form(&k.SecretARN, "", secretARN)),
		row("Cluster.SecretKeyARN", form(&k.SecretKeyARN, "", keyARN)),
		row("Cluster.CASecretARN", form(&k.CASecretARN, "", secretARN),
			need{p.selfManaged(), "none with Cluster.ARN: Lambda trusts the certificates of MSK"}),
		row("Cluster.SubnetIDs", list(&k.SubnetIDs, anyText, maxIDs), selfManaged),
		row("Cluster.SecurityGroupIDs", list(&k.SecurityGroupIDs, anyText, maxIDs), selfManaged),
	}
}

const maxIDs = 16

// auths returns the ways to authenticate with the cluster. The first one is the default.
func (p *Props) auths() []Auth {
	if p.selfManaged() {
		return []Auth{AuthSCRAM512, AuthSCRAM256, AuthPlain, AuthMTLS, AuthNone}
	}
	return []Auth{AuthIAM, AuthSCRAM512, AuthMTLS, AuthNone}
}

func (p *Props) sourceSettings() []setting {
	s := &p.Source
	provisioned := need{!s.Pollers.OnDemand,
		"none with Source.Pollers.OnDemand: AWS offers it in provisioned mode only"}
	rows := []setting{
		row("Source.ConsumerGroup", required(&s.ConsumerGroup, groupName)),
		row("Source.StartingPosition", word(&s.StartingPosition, awslambda.StartingPosition_TRIM_HORIZON,
			awslambda.StartingPosition_LATEST, awslambda.StartingPosition_AT_TIMESTAMP)),
		row("Source.BatchSize", number(&s.BatchSize, 100, 1, 10_000)),
		row("Source.BatchWindow", lasting(&s.BatchWindow, 0, time.Second, 5*time.Minute, time.Second)),
		row("Source.RecordTime",
			lasting(&s.RecordTime, 20*time.Millisecond, time.Microsecond, maxTimeout, 1)),
		row("Source.Filters", list(&s.Filters, filter, 5)), //nolint:mnd // more on request to AWS
		row("Source.Failures", word(&s.Failures, FailPartial, FailBatch)).as("IDEMSK_FAILURES", handlers),
		row("Source.Retries", optional(&s.Retries, nil, "infinite", "0",
			func(n int) string { return within(n, 0, 10_000) }), provisioned),
		row("Source.KeepBatches", flag(&s.KeepBatches), provisioned),
		row("Source.MaxRecordAge", lasting(&s.MaxRecordAge, 0, time.Minute, week, time.Second), provisioned),
		row("Source.TopicRetention", lasting(&s.TopicRetention, 0, 1, 10*maxRetention, 1)),
		row("Source.OnFailure.Queue", flag(&s.OnFailure.Queue), provisioned),
		row("Source.OnFailure.BucketARN", form(&s.OnFailure.BucketARN, "", bucketARN), provisioned),
		row("Source.OnFailure.Topic", form(&s.OnFailure.Topic, "", topicName), provisioned),
		row("Source.Pollers.Min", number(&s.Pollers.Min, 1, 1, 200), provisioned),
		row("Source.Pollers.Max", number(&s.Pollers.Max, max(s.Pollers.Min, 10), 1, 2_000), provisioned),
		row("Source.Pollers.Group", anything(&s.Pollers.Group, ""), provisioned),
		row("Source.Pollers.Log", word(&s.Pollers.Log, "INFO", "DEBUG", "WARN"), provisioned),
	}
	if r := s.SchemaRegistry; r != nil {
		rows = append(rows,
			row("Source.SchemaRegistry.URI", required(&r.URI, registryURI), provisioned),
			row("Source.SchemaRegistry.SecretARN", form(&r.SecretARN, "", secretARN),
				need{!r.glue(), "none with a Glue registry, which the role may read"}),
			row("Source.SchemaRegistry.Format", word(&r.Format, "json", "source")),
			row("Source.SchemaRegistry.Validate", list(&r.Validate, keyOrValue, 2)))
	}
	return rows
}

func (p *Props) idempotencySettings() []setting {
	i, d := &p.Idempotency, idem.Defaults()
	library := need{!p.wrapped(), "none with Function.Runtime " + p.Function.Runtime +
		": the layer passes many records on in one call, in the order of their partitions"}
	concurrency, fingerprint := schedule.DefaultConcurrency, "value"
	if p.Store.Type == StorePostgres {
		concurrency = 8 // each handler with a transaction holds a connection
	}
	if strings.HasPrefix(i.Key, "hash:") {
		fingerprint = "none" // values of one key differ in what the key leaves out
	}
	rows := []setting{
		row("Idempotency.Namespace", anything(&i.Namespace, p.Source.ConsumerGroup)),
		row("Idempotency.KeyScope", anything(&i.KeyScope, KeyScopeTopic)),
		row("Idempotency.Key", anything(&i.Key, "header:"+kafka.DefaultKeyHeader)),
		row("Idempotency.Fingerprint", anything(&i.Fingerprint, fingerprint)),
		row("Idempotency.HashKeys", flag(&i.HashKeys)),
		row("Idempotency.MissingKey", anything(&i.MissingKey, "reject")),
		row("Idempotency.Order", anything(&i.Order, "partition"), library),
		row("Idempotency.Concurrency", anything(&i.Concurrency, concurrency), library),
		row("Idempotency.Claim", anything(&i.Claim, ClaimByKey)),
		row("Idempotency.Batching", onOff(&i.Batching)),
		row("Idempotency.CommitWindow", anything(&i.CommitWindow, d.CommitWindow)),
		row("Idempotency.Lease", anything(&i.Lease, d.Lease)),
		row("Idempotency.MaxClockSkew", anything(&i.MaxClockSkew, store.DefaultMaxClockSkew)),
		row("Idempotency.Wait", optional(&i.Wait, nil, "deadline", "0", nil)),
		row("Idempotency.DeadlineMargin", anything(&i.DeadlineMargin, d.DeadlineMargin)),
		row("Idempotency.StoreDown", anything(&i.StoreDown, "closed")),
		row("Idempotency.MaxAttempts", anything(&i.MaxAttempts, d.MaxAttempts)),
		row("Idempotency.RetryDelay", optional(&i.RetryDelay, &d.RetryDelay, "", "0s", nil)),
		row("Idempotency.OutageFailures", optional(&i.OutageFailures, &d.OutageFailures, "", "off", nil)),
		row("Idempotency.OutageLimit", anything(&i.OutageLimit, 0)),
		row("Idempotency.Retention", anything(&i.Retention, d.Retention)),
		row("Idempotency.MaxResult", optional(&i.MaxResult, &d.MaxResult, "", "0", nil)),
	}
	for n := range rows {
		_, name, _ := strings.Cut(rows[n].property, ".")
		rows[n] = rows[n].as(variableOf(name), handlers)
		if name == "Namespace" || name == "KeyScope" {
			rows[n].readers |= maintainer
		}
	}
	return rows
}

// variableOf returns the variable of the function that a property sets: MaxAttempts is IDEMSK_MAX_ATTEMPTS.
func variableOf(name string) string {
	return "IDEMSK" + strings.ToUpper(upper.ReplaceAllString(name, "_$0"))
}

var upper = regexp.MustCompile(`[A-Z]`)

func (p *Props) storeSettings() []setting {
	s := &p.Store
	dynamo := need{s.Type == StoreDynamoDB, fmt.Sprintf("none with Store.Type %s: it is of DynamoDB", s.Type)}
	server := need{s.Type != StoreDynamoDB,
		"none with Store.Type dynamodb: its table is made here, and named by Store.Table"}
	table := ""
	if server.met {
		table = "idemsk"
	}
	return []setting{
		row("Store.Type", word(&s.Type, StoreDynamoDB, StorePostgres, StoreRedis)).
			as("IDEMSK_STORE", handlers|maintainer),
		row("Store.Table", form(&s.Table, table, tableNames[s.Type])).as("IDEMSK_TABLE", handlers|maintainer),
		row("Store.ContributorInsights", flag(&s.ContributorInsights), dynamo),
		row("Store.DeletionProtection", optional(&s.DeletionProtection, new(true), "", "false", nil)),
		row("Store.URL", anything(&s.URL, ""), server).as("IDEMSK_STORE_URL", handlers|maintainer),
		row("Store.SecretARN", form(&s.SecretARN, "", secretARN), server).
			as("IDEMSK_STORE_SECRET_ARN", handlers|maintainer),
		row("Store.SecretKeyARN", form(&s.SecretKeyARN, "", keyARN),
			need{s.SecretARN != "", "Store.SecretARN with it"}),
	}
}

// withDefaults returns the props with all defaults. Check and New use it.
func (given *Props) withDefaults() Props {
	p := *given
	setDefault(&p.Function.Runtime, ProvidedAL2023) // the table depends on these
	setDefault(&p.Store.Type, StoreDynamoDB)
	setDefault(&p.Idempotency.KeyScope, KeyScopeTopic)
	setDefault(&p.Cluster.Auth, p.auths()[0])
	if p.Source.Pollers.OnDemand {
		setDefault(&p.Source.Failures, FailBatch)
	}
	p.Source.Topics = slices.Clone(p.Source.Topics)
	for i := range p.Source.Topics {
		setDefault(&p.Source.Topics[i].Group, p.Source.ConsumerGroup)
	}
	if r := clone(p.Source.SchemaRegistry); r != nil && len(r.Validate) == 0 {
		r.Validate = []string{"value"}
		p.Source.SchemaRegistry = r
	}
	p.Maintenance = clone(p.Maintenance)
	if p.Outbox = clone(p.Outbox); p.Outbox != nil {
		p.Outbox.inherit(&p)
	}
	for _, s := range p.settings() {
		if s.unmet() == nil {
			s.complete()
		}
	}
	return p
}

func setDefault[T comparable](field *T, def T) { *field = cmp.Or(*field, def) }

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// variables returns the environment of some functions, including the variables with default values. So the
// deployed values are visible in one place, and a changed default does not change a deployment.
func (p *Props) variables(of host) map[string]string {
	env := make(map[string]string)
	for _, s := range p.settings() {
		if text := s.text(); s.readers&of != 0 && s.unmet() == nil && text != "" {
			env[s.variable] = text
		}
	}
	return env
}

// wrapped reports whether the function runs behind the layer.
func (p *Props) wrapped() bool { return p.Function.Runtime != ProvidedAL2023 }

func (p *Props) selfManaged() bool { return len(p.Cluster.BootstrapServers) > 0 }

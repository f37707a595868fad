package consumer

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// The bounds of the function's settings; those of IDEMSK_* are what the function itself takes.
const (
	MaxTimeout     = 14 * time.Minute // AWS's for Kafka event sources
	minMemoryMB    = 128
	maxMemoryMB    = 10_240
	maxConcurrency = 10_000
	maxAttempts    = 1_000_000
	maxClockSkew   = time.Minute
	maxWait        = 15 * time.Minute
	maxRetention   = 10 * 365 * 24 * time.Hour
	minMargin      = time.Millisecond
	maxMargin      = time.Minute

	maxOutageFailures = 1000
	maxOutageLimit    = 168 * time.Hour
)

func (c *checker) keys(p *Props) {
	switch kind, arg, _ := strings.Cut(p.Key, ":"); {
	case kind == "header" && arg != "", p.Key == "key", p.Key == "hash", p.Key == "offset":
	case kind == "json":
		if _, err := kafka.JSONKey(strings.Split(arg, ",")...); err != nil {
			c.fail("Key", p.Key, "json:PATH,…: %v", err)
		}
	default:
		c.fail("Key", p.Key, "header:NAME, key, json:$.a,$.b, hash or offset")
	}
	if paths, isJSON := strings.CutPrefix(p.Fingerprint, "json:"); isJSON {
		if _, err := kafka.JSONFingerprint(strings.Split(paths, ",")...); err != nil {
			c.fail("Fingerprint", p.Fingerprint, "json:PATH,…: %v", err)
		}
	} else if p.Fingerprint != "value" && p.Fingerprint != "none" {
		c.fail("Fingerprint", p.Fingerprint, "value, json:$.a,$.b or none")
	}
	if p.DeadLetterBucketARN != "" {
		c.form("DeadLetterBucketARN", p.DeadLetterBucketARN, prefixARN,
			"arn:aws:s3:::NAME, or arn:aws:s3:::NAME/PREFIX")
	}
	if !p.wrapped() {
		oneOf(c, "Order", p.Order, "partition", "key", "none")
		c.within("Concurrency", p.Concurrency, 1, maxConcurrency)
	}
	oneOf(c, "MissingKey", p.MissingKey, "reject", "process")
	oneOf(c, "StoreDown", p.StoreDown, "closed", "open")
}

func (c *checker) engine(p *Props) {
	c.within("CommitWindow", p.CommitWindow, 1, idem.MaxCommitWindow)
	c.lasts("Lease", p.Lease, idem.MinLease, idem.MaxLease)
	c.lasts("MaxClockSkew", p.MaxClockSkew, 0, maxClockSkew)
	if p.Wait > maxWait {
		c.fail("Wait", short(p.Wait), "at most %s", short(maxWait))
	}
	c.lasts("Retention", p.Retention, max(time.Second, p.Lease), maxRetention)
	c.within("MaxAttempts", p.MaxAttempts, 1, maxAttempts)
	if p.RetryDelay > idem.MaxRetryDelay {
		c.fail("RetryDelay", short(p.RetryDelay), "at most %s", short(idem.MaxRetryDelay))
	}
	if p.OutageFailures > maxOutageFailures {
		c.fail("OutageFailures", p.OutageFailures, "at most %d", maxOutageFailures)
	}
	c.lasts("OutageLimit", p.OutageLimit, 0, maxOutageLimit)
	if p.MaxResult > idem.MaxResultLimit {
		c.fail("MaxResult", p.MaxResult, "at most %d bytes", idem.MaxResultLimit)
	}
	c.lasts("DeadlineMargin", p.DeadlineMargin, minMargin, maxMargin)
}

func (c *checker) function(p *Props) {
	switch {
	case p.Timeout > MaxTimeout:
		c.fail("Timeout", short(p.Timeout), "at most %s: AWS allows no more for a Kafka event source",
			short(MaxTimeout))
	case p.Timeout <= p.Lease:
		c.fail("Timeout", short(p.Timeout),
			"more than Lease, %s: an invocation could never wait for a dead one's lease", short(p.Lease))
	default:
		c.wholeSeconds("Timeout", p.Timeout, time.Second, MaxTimeout)
	}
	c.within("MemoryMB", p.MemoryMB, minMemoryMB, maxMemoryMB)
	if p.ReservedConcurrency < 0 {
		c.fail("ReservedConcurrency", p.ReservedConcurrency, "above 0, or 0 for not reserved")
	}
	oneOf(c, "LogLevel", p.LogLevel, "DEBUG", "INFO", "WARN", "ERROR")
	if _, ok := logRetention[p.LogRetentionDays]; !ok {
		c.fail("LogRetentionDays", p.LogRetentionDays, "one of %s", daysOffered())
	}
	oneOf(c, "Canary", p.Canary, CanaryOff, Canary10Percent5, Canary10Percent15, CanaryLinear10)
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		switch {
		case !variableName.MatchString(name):
			c.fail("Environment", name, "names of letters, digits and '_', a letter first")
		case reservedVariables[name], name == outboxVariable && p.Outbox != nil,
			name == wrapperVariable && p.wrapped():
			c.fail("Environment", name, "other names: the construct sets this one from its own prop")
		}
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]+$`)

// reservedVariables are those that props set.
var reservedVariables = map[string]bool{
	"IDEMSK_STORE": true, "IDEMSK_STORE_URL": true, "IDEMSK_STORE_SECRET_ARN": true, "IDEMSK_TABLE": true,
	"IDEMSK_NAMESPACE": true, "IDEMSK_KEY_SCOPE": true, "IDEMSK_KEY": true, "IDEMSK_FINGERPRINT": true,
	"IDEMSK_HASH_KEYS": true, "IDEMSK_MISSING_KEY": true, "IDEMSK_ORDER": true, "IDEMSK_CONCURRENCY": true,
	"IDEMSK_LEASE":          true,
	"IDEMSK_MAX_CLOCK_SKEW": true, "IDEMSK_WAIT": true, "IDEMSK_MAX_RESULT": true,
	"IDEMSK_DEADLINE_MARGIN": true,
	"IDEMSK_RETENTION":       true, "IDEMSK_MAX_ATTEMPTS": true, "IDEMSK_RETRY_DELAY": true,
	"IDEMSK_OUTAGE_FAILURES": true, "IDEMSK_OUTAGE_LIMIT": true,
	"IDEMSK_FAILURES": true, "IDEMSK_DEAD_LETTER_QUEUE_URL": true,
	"IDEMSK_DEAD_LETTER_BUCKET": true, "IDEMSK_STORE_DOWN": true, "IDEMSK_BATCHING": true,
	"IDEMSK_CLAIM": true, "IDEMSK_COMMIT_WINDOW": true, "IDEMSK_LOG_LEVEL": true,
}

func daysOffered() string {
	var b strings.Builder
	for i, days := range slices.Sorted(maps.Keys(logRetention)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(days))
	}
	return b.String()
}

var (
	tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
	email     = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
)

func (c *checker) others(p *Props) {
	if p.TableName != "" {
		c.form("TableName", p.TableName, tableName, "3 to 255 letters, digits, '_', '.' or '-'")
	}
	oneOf(c, "RemovalPolicy", p.RemovalPolicy, awscdk.RemovalPolicy_RETAIN, awscdk.RemovalPolicy_DESTROY)
	if p.AlarmEmail != "" {
		c.form("AlarmEmail", p.AlarmEmail, email, "an address like oncall@example.com")
	}
	if p.VPC == nil {
		for prop, given := range map[string]bool{"Subnets": p.Subnets != nil,
			"SecurityGroups": len(p.SecurityGroups) > 0, "Endpoints": p.Endpoints} {
			if given {
				c.fail(prop, "set", "a VPC with it")
			}
		}
	}
	if p.MaxLag < 1 {
		c.fail("MaxLag", p.MaxLag, "a number of records above 0")
	}
	c.lasts("MaxAge", p.MaxAge, time.Second, maxRetention)
	c.lasts("MaxInProgress", p.MaxInProgress, time.Second, maxRetention)
}

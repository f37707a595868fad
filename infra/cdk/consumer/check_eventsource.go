package consumer

import (
	"encoding/json"
	"strings"
	"time"
)

// The bounds of an event source mapping.
const (
	maxBatchSize    = 10_000
	maxBatchWindow  = 5 * time.Minute
	maxMinPollers   = 200
	maxMaxPollers   = 2_000
	maxRetries      = 10_000
	minMaxRecordAge = time.Minute
	maxMaxRecordAge = 168 * time.Hour
	maxFilters      = 5 // more on request to AWS
	maxFilter       = 4096
)

func (c *checker) eventSource(p *Props) {
	c.within("BatchSize", p.BatchSize, 1, maxBatchSize)
	c.wholeSeconds("BatchWindow", p.BatchWindow, 0, maxBatchWindow)
	c.lasts("RecordTime", p.RecordTime, time.Microsecond, MaxTimeout)
	oneOf(c, "StartingPosition", p.StartingPosition, TrimHorizon, Latest, AtTimestamp)
	if at := p.StartingPosition == AtTimestamp; at == p.StartingTimestamp.IsZero() {
		c.fail("StartingTimestamp", p.StartingTimestamp.Format(time.RFC3339),
			"a time with StartingPosition AT_TIMESTAMP, none with another")
	}
	oneOf(c, "Failures", p.Failures, FailPartial, FailBatch)
	if p.FiniteRetries {
		c.within("Retries", p.Retries, 0, maxRetries)
	} else if p.Retries != 0 {
		c.fail("Retries", p.Retries, "0 without FiniteRetries, where the event source tries for ever")
	}
	if p.MaxRecordAge != 0 {
		c.wholeSeconds("MaxRecordAge", p.MaxRecordAge, minMaxRecordAge, maxMaxRecordAge)
	}
	if p.TopicRetention < 0 {
		c.fail("TopicRetention", short(p.TopicRetention), "a duration above 0")
	}
	if n := len(p.Filters); n > maxFilters {
		c.fail("Filters", n, "at most %d patterns", maxFilters)
	}
	for _, filter := range p.Filters {
		var pattern map[string]any
		if json.Unmarshal([]byte(filter), &pattern) != nil || len(filter) > maxFilter {
			c.fail("Filters", filter, `a JSON object of at most %d bytes, like {"value":{"kind":["payment"]}}`, maxFilter)
		}
	}
}

func (c *checker) pollers(p *Props) {
	if !p.OnDemand {
		c.within("Pollers.Min", p.Pollers.Min, 1, maxMinPollers)
		c.within("Pollers.Max", p.Pollers.Max, 1, maxMaxPollers)
		if p.Pollers.Min > p.Pollers.Max {
			c.fail("Pollers.Min", p.Pollers.Min, "at most Pollers.Max, %d", p.Pollers.Max)
		}
		oneOf(c, "PollerLog", p.PollerLog, PollerLogDebug, PollerLogInfo, PollerLogWarn)
		return
	}
	for _, needs := range []struct {
		prop string
		set  bool
	}{
		{"Pollers", p.Pollers != Pollers{}}, {"Failures", p.Failures == FailPartial},
		{"FiniteRetries", p.FiniteRetries},
		{"MaxRecordAge", p.MaxRecordAge != 0}, {"KeepBatches", p.KeepBatches},
		{"OnFailure", p.OnFailure != OnFailure{}},
		{"SchemaRegistry", p.SchemaRegistry != nil},
	} {
		if needs.set {
			c.fail("OnDemand", true, "false with %s: AWS offers that in provisioned mode only", needs.prop)
		}
	}
}

func (c *checker) schemas(p *Props) {
	r := p.SchemaRegistry
	if r == nil {
		return
	}
	switch {
	case isToken(r.URI) || glueARN.MatchString(r.URI):
	case !strings.HasPrefix(r.URI, "https://"):
		c.fail("SchemaRegistry.URI", r.URI, "a Glue registry's ARN, or the https URL of a Confluent registry")
	}
	if r.SecretARN != "" {
		c.form("SchemaRegistry.SecretARN", r.SecretARN, secretARN,
			"arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
		if r.glue() {
			c.fail("SchemaRegistry.SecretARN", r.SecretARN,
				"none with a Glue registry, which the role may read")
		}
	}
}

func (c *checker) onFailure(p *Props) {
	to := p.OnFailure
	set := 0
	for _, given := range []bool{to.Queue, to.BucketARN != "", to.Topic != ""} {
		if given {
			set++
		}
	}
	if set > 1 {
		c.fail("OnFailure", to.words(), "one of them: an event source has one destination")
	}
	if to.BucketARN != "" {
		c.form("OnFailure.BucketARN", to.BucketARN, bucketARN, "arn:aws:s3:::NAME")
	}
	if to.Topic != "" {
		c.form("OnFailure.Topic", to.Topic, topicName,
			"a topic's name, 1 to 249 letters, digits or any of ._-")
		for _, topic := range p.Topics {
			if topic.Name == to.Topic {
				c.fail("OnFailure.Topic", to.Topic, "a topic that is not consumed: AWS refuses the loop")
			}
		}
	}
	if set > 0 && !p.FiniteRetries {
		c.fail("Retries", "infinite", "a number with OnFailure (%s): AWS turns endless retries into 10 where there is a destination", to.words())
	}
	if set == 0 && (p.FiniteRetries || p.MaxRecordAge > 0) {
		c.fail("OnFailure", "none", "a queue, a bucket or a topic with Retries or MaxRecordAge: what the event source gives up would be lost")
	}
}

// words names the destinations that are set.
func (to OnFailure) words() string {
	var words []string
	if to.Queue {
		words = append(words, "queue")
	}
	if to.BucketARN != "" {
		words = append(words, to.BucketARN)
	}
	if to.Topic != "" {
		words = append(words, "topic:"+to.Topic)
	}
	return strings.Join(words, ", ")
}

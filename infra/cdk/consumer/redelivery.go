package consumer

import (
	"time"

	"github.com/idemsk/idemsk/idem"
)

// redelivery checks that no record is redelivered after its key has expired, and that the event source does
// not give up records that the function would still settle.
func (c *checker) redelivery() {
	i, s := &c.Idempotency, &c.Source
	const again = "a record that is redelivered later would take effect again"
	if c.sound("Idempotency.Retention", "Source.MaxRecordAge") && i.Retention < s.MaxRecordAge {
		c.fail("Idempotency.Retention", i.Retention, "at least Source.MaxRecordAge, %s: "+again, s.MaxRecordAge)
	}
	if c.sound("Idempotency.Retention", "Source.TopicRetention") && i.Retention < s.TopicRetention &&
		s.MaxRecordAge == 0 {
		c.fail("Idempotency.Retention", i.Retention, "at least Source.TopicRetention, %s: "+again, s.TopicRetention)
	}
	if !c.sound("Source.MaxRecordAge", "Source.Retries", "Idempotency.MaxAttempts", "Idempotency.RetryDelay",
		"Idempotency.Lease", "Idempotency.MaxClockSkew", "Idempotency.Wait", "Function.Timeout",
		"Idempotency.DeadlineMargin") {
		return
	}
	_, delays := c.delays()
	switch {
	case s.MaxRecordAge == 0:
	case s.MaxRecordAge <= c.held():
		c.fail("Source.MaxRecordAge", s.MaxRecordAge,
			"more than Idempotency.Lease and Idempotency.MaxClockSkew, %s: the event source would give up what a dead process holds",
			c.held())
	case s.MaxRecordAge <= delays:
		c.fail("Source.MaxRecordAge", s.MaxRecordAge,
			"more than the delays of Idempotency.RetryDelay between Idempotency.MaxAttempts, %s: "+
				"the event source would give up a record before it becomes a dead letter", delays)
	}
	if s.Retries != nil {
		c.retries(*s.Retries)
	}
}

// retries checks finite retries. A process that dies leaves its keys claimed until the lease ends; each
// delivery meanwhile waits for up to Wait or until its deadline. A delivery that can't wait for the end of a
// failed key's delay is answered at once, and nobody knows how soon the next one comes: a delay that is
// longer could use up any number of retries.
func (c *checker) retries(n int) {
	i, wait := &c.Idempotency, c.longestWait()
	if n < i.MaxAttempts {
		c.fail("Source.Retries", n, "at least Idempotency.MaxAttempts, %v: "+
			"the event source would give up a record before it becomes a dead letter", i.MaxAttempts)
	}
	if span := time.Duration(n) * wait; span <= c.held() {
		c.fail("Source.Retries", n, "more: they span %s (each waits at most %s), and a dead process holds its keys for "+
			"Idempotency.Lease and Idempotency.MaxClockSkew, %s", span, wait, c.held())
	}
	if longest, _ := c.delays(); longest > 0 && longest >= wait {
		c.fail("Idempotency.RetryDelay", *i.RetryDelay, "a shorter delay or none with Source.Retries, a longer "+
			"Function.Timeout or Idempotency.Wait, or fewer Idempotency.MaxAttempts: before the last attempt "+
			"a key waits up to %s, a delivery waits at most %s, and one that comes too early uses up a retry",
			longest, wait)
	}
}

// delays returns the longest delay between two attempts of a key, and all delays together.
func (p *Props) delays() (longest, all time.Duration) {
	cfg := idem.Config{RetryDelay: *p.Idempotency.RetryDelay}
	for n := range p.Idempotency.MaxAttempts - 1 {
		longest = cfg.LongestRetryDelay(n + 1)
		all += longest
	}
	return longest, all
}

// held is how long the keys of a dead process stay claimed.
func (p *Props) held() time.Duration { return p.Idempotency.Lease + p.Idempotency.MaxClockSkew }

// longestWait is how long one delivery waits for a key that is in flight elsewhere.
func (p *Props) longestWait() time.Duration {
	if wait := p.Idempotency.Wait; wait != nil {
		return min(*wait, p.forHandling())
	}
	return p.forHandling()
}

// forHandling is the part of an invocation that is available for records.
func (p *Props) forHandling() time.Duration { return p.Function.Timeout - p.Idempotency.DeadlineMargin }

// time checks that an invocation can wait for the lease of a dead one, and that a batch fits an invocation in
// the worst case: with order by partition, all its records are of one partition.
func (c *checker) time() {
	f, i, s := &c.Function, &c.Idempotency, &c.Source
	if !c.sound("Function.Timeout", "Idempotency.DeadlineMargin") {
		return
	}
	has := c.forHandling()
	switch {
	case f.Timeout <= i.Lease && c.sound("Idempotency.Lease"):
		c.fail("Function.Timeout", f.Timeout,
			"more than Idempotency.Lease, %s: an invocation could never wait for a dead one's lease", i.Lease)
		return
	case has <= 0:
		c.fail("Idempotency.DeadlineMargin", i.DeadlineMargin, "less than Function.Timeout, %s", f.Timeout)
		return
	case !c.sound("Source.BatchSize", "Source.RecordTime", "Idempotency.Concurrency", "Idempotency.Order"):
		return
	}
	atOnce := 1
	if i.Order != "partition" && !c.wrapped() {
		atOnce = i.Concurrency
	}
	rounds := (s.BatchSize + atOnce - 1) / atOnce
	if needs := time.Duration(rounds) * s.RecordTime; needs > has {
		c.fail("Source.BatchSize", s.BatchSize, "at most %v: at Source.RecordTime %s the batch takes %s, and "+
			"Function.Timeout less Idempotency.DeadlineMargin is %s",
			int(has/s.RecordTime)*atOnce, s.RecordTime, needs, has)
	}
}

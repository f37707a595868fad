package consumer

import (
	"time"

	"github.com/idemsk/idemsk/idem"
)

// redelivery checks that no record is redelivered after its key has expired, and that the event source does
// not give up records that the function would still settle.
func (c *checker) redelivery(p *Props) {
	const again = "a record that is redelivered later would take effect again"
	if c.sound("Retention", "MaxRecordAge") && p.Retention < p.MaxRecordAge {
		c.fail("Retention", short(p.Retention), "at least MaxRecordAge, %s: "+again, short(p.MaxRecordAge))
	}
	if c.sound("Retention", "TopicRetention") && p.Retention < p.TopicRetention && p.MaxRecordAge == 0 {
		c.fail("Retention", short(p.Retention), "at least TopicRetention, %s: "+again,
			short(p.TopicRetention))
	}
	if held := p.held(); c.sound("MaxRecordAge", "Lease", "MaxClockSkew") && p.MaxRecordAge > 0 &&
		p.MaxRecordAge <= held {
		c.fail("MaxRecordAge", short(p.MaxRecordAge),
			"more than Lease and MaxClockSkew, %s: the event source would give up what a dead process holds",
			short(held))
	}
	if !c.sound("MaxAttempts", "RetryDelay", "Lease", "MaxClockSkew", "Wait", "Timeout", "DeadlineMargin") {
		return
	}
	if _, all := p.delays(); p.MaxRecordAge > 0 && p.MaxRecordAge <= all && c.sound("MaxRecordAge") {
		c.fail("MaxRecordAge", short(p.MaxRecordAge),
			"more than the delays of RetryDelay between MaxAttempts, %s: "+
				"the event source would give up a record before it becomes a dead letter", short(all))
	}
	if p.FiniteRetries && c.sound("Retries") {
		c.retries(p)
	}
}

// retries checks finite retries. A process that dies leaves its keys claimed until the lease ends; each
// delivery meanwhile waits for up to Wait or until its deadline. A delivery that can't wait for the end of a
// failed key's delay is answered at once, and nobody knows how soon the next one comes: a delay that is
// longer could use up any number of retries.
func (c *checker) retries(p *Props) {
	if p.Retries < p.MaxAttempts {
		c.fail("Retries", p.Retries, "at least MaxAttempts, %d: the event source would give up a record before it becomes a dead letter", p.MaxAttempts)
	}
	if span := time.Duration(p.Retries) * p.longestWait(); span <= p.held() {
		c.fail("Retries", p.Retries, "more: they span %s (each waits at most %s), and a dead process holds its keys for Lease and MaxClockSkew, %s",
			short(span), short(p.longestWait()), short(p.held()))
	}
	if longest, _ := p.delays(); longest > 0 && longest >= p.longestWait() {
		c.fail("RetryDelay", short(p.RetryDelay),
			"a shorter delay or none with Retries, a longer Timeout or Wait, or fewer MaxAttempts: before the last attempt "+
				"a key waits up to %s, a delivery waits at most %s, and one that comes too early uses up a retry",
			short(longest), short(p.longestWait()))
	}
}

// delays returns the longest delay between two attempts of a key, and all delays together.
func (p *Props) delays() (longest, all time.Duration) {
	next := max(0, p.RetryDelay)
	for range p.MaxAttempts - 1 {
		longest = min(next, idem.MaxRetryDelay)
		all += longest
		next = idem.NextRetryDelay(longest)
	}
	return longest, all
}

// held is how long the keys of a dead process stay claimed.
func (p *Props) held() time.Duration { return p.Lease + p.MaxClockSkew }

// longestWait is how long one delivery waits for a key that is in flight elsewhere.
func (p *Props) longestWait() time.Duration {
	switch {
	case p.Wait < 0:
		return 0
	case p.Wait == 0:
		return p.forHandling()
	}
	return min(p.Wait, p.forHandling())
}

// forHandling is the part of an invocation that is available for records.
func (p *Props) forHandling() time.Duration { return p.Timeout - p.DeadlineMargin }

// time checks that a batch fits an invocation in the worst case: with order by partition, all its records are
// of one partition.
func (c *checker) time(p *Props) {
	if !c.sound("Timeout", "DeadlineMargin") {
		return
	}
	has := p.forHandling()
	if has <= 0 {
		c.fail("DeadlineMargin", short(p.DeadlineMargin), "less than Timeout, %s", short(p.Timeout))
		return
	}
	if !c.sound("BatchSize", "RecordTime", "Concurrency", "Order") {
		return
	}
	atOnce := 1
	if p.Order != "partition" && !p.wrapped() {
		atOnce = p.Concurrency
	}
	rounds := (p.BatchSize + atOnce - 1) / atOnce
	if needs := time.Duration(rounds) * p.RecordTime; needs > has {
		c.fail("BatchSize", p.BatchSize,
			"at most %d: at RecordTime %s the batch takes %s, and Timeout less DeadlineMargin is %s",
			int(has/p.RecordTime)*atOnce, short(p.RecordTime), short(needs), short(has))
	}
}

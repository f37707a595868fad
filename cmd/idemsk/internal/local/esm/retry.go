package esm

import (
	"math"
	"time"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// delivery is the records of an invocation, and their history.
type delivery struct {
	records     []Record
	retries     int // counted against MaximumRetryAttempts
	invocations int // with these records
	last        Answer
}

// verdict is what happens after an invocation.
type verdict struct {
	again    []delivery // in this order
	lost     []Record   // given up, because no retry is left
	bisected bool
}

// judge decides what happens after an invocation in which all records failed, or those that the answer names,
// or none.
//
// If bisecting is on, an error of the function splits the batch. As for AWS's streams, this does not count as
// a retry. A batch of one record, and a batch whose answer named records or was unreadable, is retried while
// retries are left.
func (c *Config) judge(d *delivery, failed []Record, functionError bool) verdict {
	if len(failed) == 0 {
		return verdict{}
	}
	next := *d
	next.records = failed
	if functionError && c.BisectBatchOnFunctionError && len(failed) > 1 {
		low, high := next, next
		half := len(failed) / 2 //nolint:mnd // two halves
		low.records, high.records = failed[:half], failed[half:]
		return verdict{again: []delivery{low, high}, bisected: true}
	}
	if most, limited := c.maxRetries(); limited && d.retries >= most {
		return verdict{lost: failed}
	}
	next.retries++
	return verdict{again: []delivery{next}}
}

// retried returns the records that are delivered again if the function named some of them as failed.
func (c *Config) retried(records []Record, named map[mskevent.Place]bool) []Record {
	if c.Retry == RetryFromLowest {
		named = fromLowest(records, named)
	}
	return pick(records, named)
}

// pick returns the records at places.
func pick(records []Record, at map[mskevent.Place]bool) []Record {
	if len(at) == 0 {
		return nil
	}
	var picked []Record
	for i := range records {
		if at[records[i].Place()] {
			picked = append(picked, records[i])
		}
	}
	return picked
}

// fromLowest returns all records from the lowest failed offset of each partition on.
func fromLowest(records []Record, named map[mskevent.Place]bool) map[mskevent.Place]bool {
	lowest := make(map[string]int64)
	for place := range named {
		if before, ok := lowest[place.Partition]; !ok || place.Offset < before {
			lowest[place.Partition] = place.Offset
		}
	}
	all := make(map[mskevent.Place]bool)
	for i := range records {
		place := records[i].Place()
		if from, ok := lowest[place.Partition]; ok && place.Offset >= from {
			all[place] = true
		}
	}
	return all
}

// tooOld separates records by MaximumRecordAge. A record without a timestamp has no age.
func (c *Config) tooOld(records []Record, now time.Time) (young, old []Record) {
	if c.MaximumRecordAge == Infinite {
		return records, nil
	}
	oldest := now.Add(-c.MaximumRecordAge).UnixMilli()
	for i := range records {
		if records[i].Timestamp >= 0 && records[i].Timestamp < oldest {
			old = append(old, records[i])
		} else {
			young = append(young, records[i])
		}
	}
	return young, old
}

// maxRetryDelay is the maximum time between two deliveries of a batch.
const maxRetryDelay = 10 * time.Second

// delay returns the time before the n-th retry, counted from 1.
func (c *Config) delay(n int) time.Duration {
	d := float64(c.RetryDelay) * math.Pow(2, float64(n-1))
	return time.Duration(min(d, float64(max(maxRetryDelay, c.RetryDelay))))
}

// offsets are the next offsets by partition.
type offsets map[int32]int64

// unless lowers the offsets to the first remaining record.
func (o offsets) unless(rest []delivery) offsets {
	done := make(offsets, len(o))
	for partition, next := range o {
		done[partition] = next
	}
	for i := range rest {
		for _, r := range rest[i].records {
			if next, ok := done[r.Partition]; ok && r.Offset < next {
				done[r.Partition] = r.Offset
			}
		}
	}
	return done
}

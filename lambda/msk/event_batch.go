package msk

import "github.com/idemsk/idemsk/idem/batch"

// eventBatch is one event at work: its records as jobs, in the event's order.
type eventBatch struct {
	consumer *Consumer
	event    *Event
	jobs     []job
}

func (c *Consumer) newBatch(event *Event) *eventBatch {
	n := 0
	for i := range event.Partitions {
		n += len(event.Partitions[i].Records)
	}
	b := &eventBatch{consumer: c, event: event, jobs: make([]job, n)}
	i, cluster := 0, event.cluster()
	for p := range event.Partitions {
		records := event.Partitions[p].Records
		for r := range records {
			b.jobs[i].prepare(c, &records[r], cluster)
			i++
		}
	}
	return b
}

// lanes arranges the jobs in the order that Config wants.
func (b *eventBatch) lanes() [][]*batch.Item {
	all := make([]*batch.Item, len(b.jobs))
	for i := range b.jobs {
		all[i] = &b.jobs[i].Item
	}
	var lanes [][]*batch.Item
	next := 0
	for p := range b.event.Partitions {
		n := len(b.event.Partitions[p].Records)
		items := all[next : next+n : next+n]
		switch b.consumer.cfg.Order {
		case ByPartition:
			lanes = append(lanes, items)
		case ByKey:
			lanes = b.lanesByKey(lanes, b.jobs[next:next+n])
		case Unordered:
			for i := range items {
				lanes = append(lanes, items[i:i+1])
			}
		}
		next += n
	}
	return lanes
}

// lanesByKey adds a lane for each Kafka key of a partition, and for each record without one.
func (b *eventBatch) lanesByKey(lanes [][]*batch.Item, jobs []job) [][]*batch.Item {
	byKey := make(map[string]int, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		key := j.record.Key
		if lane, ok := byKey[string(key)]; ok && key != nil {
			lanes[lane] = append(lanes[lane], &j.Item)
			continue
		}
		if key != nil {
			byKey[string(key)] = len(lanes)
		}
		lanes = append(lanes, []*batch.Item{&j.Item})
	}
	return lanes
}

// answer collects what is to be delivered again: in every partition, the first record that is not settled and all behind it.
func (b *eventBatch) answer() (Response, *BatchError) {
	resp := Response{BatchItemFailures: []BatchItemFailure{}}
	batchErr := &BatchError{Records: len(b.jobs)}
	next := 0
	for p := range b.event.Partitions {
		part := &b.event.Partitions[p]
		blocked := false
		for range part.Records {
			j := &b.jobs[next]
			next++
			if !blocked && !j.Settled() {
				blocked = true
				batchErr.Causes = append(batchErr.Causes, &RecordError{Source: j.record.Source(), Err: j.Err()})
			}
			if j.reported = blocked; blocked {
				resp.BatchItemFailures = append(resp.BatchItemFailures, BatchItemFailure{ItemIdentifier{Partition: part.ID, Offset: j.record.Offset}})
			}
		}
	}
	batchErr.Reported = len(resp.BatchItemFailures)
	if batchErr.Reported == 0 {
		return resp, nil
	}
	return resp, batchErr
}

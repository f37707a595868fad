package msk

// plan makes the jobs of a batch, groups those that share a key, and puts them in units.
func (b *batch) plan(event *Event) {
	n := 0
	for i := range event.Partitions {
		n += len(event.Partitions[i].Records)
	}
	b.jobs = make([]job, n)
	i := 0
	for p := range event.Partitions {
		records := event.Partitions[p].Records
		for r := range records {
			j := &b.jobs[i]
			i++
			j.consumer, j.record, j.source, j.cluster = b.consumer, &records[r], records[r].Source(), event.cluster()
			j.prepare()
		}
	}
	b.group()
	b.order(event)
}

// group lets the jobs with one key share a group; a key that stands alone needs none.
func (b *batch) group() {
	first := make(map[string]*job, len(b.jobs))
	for i := range b.jobs {
		j := &b.jobs[i]
		if j.unprotected {
			continue
		}
		key := j.ticket.Task.Key
		leader, ok := first[key]
		if !ok {
			first[key] = j
			continue
		}
		if leader.group == nil {
			leader.group = new(group)
		}
		j.group = leader.group
	}
}

// order makes the units.
func (b *batch) order(event *Event) {
	all := make([]*job, len(b.jobs))
	for i := range b.jobs {
		all[i] = &b.jobs[i]
	}
	next := 0
	for p := range event.Partitions {
		n := len(event.Partitions[p].Records)
		jobs := all[next : next+n : next+n]
		next += n
		switch {
		case n == 0:
		case b.consumer.cfg.Order == ByPartition:
			b.units = append(b.units, unit{batch: b, jobs: jobs})
		case b.consumer.cfg.Order == ByKey:
			b.orderByKey(jobs)
		case b.consumer.cfg.Order == Unordered:
			for i := range jobs {
				b.units = append(b.units, unit{batch: b, jobs: jobs[i : i+1]})
			}
		}
	}
}

// orderByKey makes a unit of each Kafka key of a partition, and of each record without one.
func (b *batch) orderByKey(jobs []*job) {
	byKey := make(map[string]int, len(jobs))
	for _, j := range jobs {
		if i, ok := byKey[string(j.record.Key)]; ok && j.record.Key != nil {
			b.units[i].jobs = append(b.units[i].jobs, j)
			continue
		}
		if j.record.Key != nil {
			byKey[string(j.record.Key)] = len(b.units)
		}
		b.units = append(b.units, unit{batch: b, jobs: []*job{j}})
	}
}

package simulation_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/mskevent/redriven"
	"github.com/idemsk/idemsk/kafka"
)

// operated is a host as operators change it.
type operated interface {
	// change calls f with the committed offset of each partition, which f changes, and then also, if it is
	// not nil. Nothing is committed meanwhile. f holds w.mu.
	change(f func(committed []int), also func())
	// deleteOffsets deletes the committed offsets, after which the host begins where they are changed to by
	// change.
	deleteOffsets()
	// publish writes a record that the topic has got.
	publish(r *record)
	// addPartition adds a partition to the topic, which the caller adds to w.topic.
	addPartition()
	// recreateTopic deletes the topic and creates it.
	recreateTopic()
	// invoke invokes the function with an event.
	invoke(event []byte) ([]byte, error)
}

// letter is a dead letter in the queue.
type letter struct {
	kafka.DeadLetter
	done bool // it was redriven
}

func (l *letter) place() string { return placeOf(l.Partition, l.Offset, l.Timestamp) }

// keepLetter keeps a dead letter that the queue has taken. The caller holds w.mu.
func (w *world) keepLetter(body []byte) {
	var in struct{ MessageBody string }
	if err := json.Unmarshal(body, &in); err != nil {
		panic(err) // the SDK wrote it
	}
	one, err := kafka.ParseDeadLetter([]byte(in.MessageBody))
	if err != nil {
		w.violatedLockedf("", "the queue has a message that is no dead letter: %v", err)
		return
	}
	l := letter{DeadLetter: one}
	w.checkLetter(&l)
	w.letters = append(w.letters, l)
}

// startOperators starts what operators do in this run.
func (w *world) startOperators(h operated) {
	for _, one := range []struct {
		needs needs
		do    func(operated)
	}{
		{needs{"redrive": {"topic", "function"}}, w.redriveLetters},
		{needs{"delete entries": {"yes"}}, w.deleteEntries},
		{needs{"add partitions": {"yes"}}, w.addPartitions},
		{needs{"offsets": {"back", "forward", "deleted"}}, w.moveOffsets},
		{needs{"topic": {"recreated"}}, w.recreate},
		{needs{"IDEMSK_RETENTION": {"20s"}}, w.expire},
	} {
		if !w.meets(one.needs) {
			continue
		}
		w.operating++
		w.running.Go(func() {
			one.do(h)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.operating--
		})
	}
}

// at waits until a time between two of the run, in ms.
func (w *world) at(from, to int, name string) bool {
	return sleep(w.stopping, time.Until(
		w.begun.Add(time.Duration(w.dice.between(from, to, "time of "+name))*time.Millisecond))) == nil
}

// redriveLetters redrives the dead letters, once while there are faults and once after them. What made
// payments fail is repaired before.
func (w *world) redriveLetters(h operated) {
	for round, from := range []int{5000, int(faulty.Milliseconds()) + 1000} {
		if !w.at(from, from+40_000, "redrive "+strconv.Itoa(round)) {
			return
		}
		w.mu.Lock()
		w.fixed = true
		n := len(w.letters)
		w.mu.Unlock()
		for i := range n {
			name := "redrive of letter " + strconv.Itoa(i) + " round " + strconv.Itoa(round)
			if w.is("redrive of", "some") && !w.dice.chance(0.5, name) {
				continue
			}
			w.redrive(h, i, name)
		}
	}
}

// redrive redrives a letter. A function that fails is tried again in the next round, and after the faults at
// once.
func (w *world) redrive(h operated, i int, name string) {
	w.mu.Lock()
	l := w.letters[i]
	w.mu.Unlock()
	if l.done {
		return
	}
	times := 1
	if w.is("redrive times", "twice") {
		times = 2
	}
	for range times {
		if w.is("redrive", "topic") {
			if w.dice.chance(0.2, "unknown token of "+name) {
				w.redriveToTopic(h, &l, true)
			}
			w.redriveToTopic(h, &l, false)
			continue
		}
		for tries := 0; !w.redriveToFunction(h, &l, name); tries++ {
			if !w.calm() || sleep(w.stopping, 2*time.Second) != nil {
				return
			}
			if tries > 100 {
				w.violatedf(l.Source(), "is not redriven by the function after %d tries", tries)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.letters[i].done = true
}

// redriveToTopic writes the record of a letter again, with its token, or with a later one that its key never
// had, as after a restore of the table.
func (w *world) redriveToTopic(h operated, l *letter, unknown bool) {
	w.producing.lock()
	defer w.producing.unlock()
	original := w.recordAt(l.place())
	if original == nil {
		w.violatedf(l.Source(), "has a dead letter, and is no record")
		return
	}
	r := w.appended(draft{payment: original.payment, partition: int(l.Partition)}, func(r *record) {
		one := l.DeadLetter
		if unknown {
			one.Token += time.Hour.Milliseconds()
		}
		r.Key, r.Value, r.Headers, r.redrive, r.unknown = one.Key, one.Value, nil, one.Token, unknown
		for _, header := range redriven.Headers(&one) {
			r.Headers = append(r.Headers, mskevent.Header(header))
		}
	}, h.publish)
	w.log("operator", "redrives "+l.Source()+" as "+r.source())
	if r.key == l.IdempotencyKey && !unknown {
		w.mu.Lock()
		w.of(r.key).redriven[l.Token], w.of(r.key).delivered[l.Token] = true, true
		w.mu.Unlock()
	}
}

// redriveToFunction invokes the function with the record of a letter, and reports whether the record was
// settled.
func (w *world) redriveToFunction(h operated, l *letter, name string) bool {
	w.mu.Lock()
	w.of(l.IdempotencyKey).redriven[l.Token] = true
	w.mu.Unlock()
	out, err := h.invoke(redriven.Event(&l.DeadLetter))
	what := ""
	if err == nil {
		what, err = redriven.Verdict(&l.DeadLetter, out)
	}
	if err != nil {
		what = firstOf(err.Error())
	}
	w.log(name, what)
	if err == nil {
		w.mu.Lock()
		w.of(l.IdempotencyKey).delivered[l.Token] = true
		r := w.topic.byPlace[l.place()]
		if done := what == "executed" || what == "had been done already"; done && r != nil &&
			(r.key == "" || len(w.of(r.key).completions) == 0) {
			w.violatedLockedf(l.Source(), "%s by the function, says its answer, and was never COMPLETED",
				what)
		}
		w.mu.Unlock()
	}
	// A record without a usable key has none still, and a letter may not be the last one of its key.
	return err == nil || strings.Contains(what, "found the key FAILED still")
}

// deleteEntries deletes the entries of some keys that are final.
func (w *world) deleteEntries(operated) {
	for round := range 3 {
		name := "deletion " + strconv.Itoa(round)
		if !w.at(3000+round*20_000, 20_000+round*20_000, name) {
			return
		}
		w.mu.Lock()
		var final []string
		for key, h := range w.keys {
			if h.entry.final() {
				final = append(final, key)
			}
		}
		if len(final) > 0 {
			slices.Sort(final)
			key := pick(w.dice, name, final...)
			w.deleteLocked(key, "operator")
			w.of(key).token = 0 // a fresh token is a time, which can be smaller than the tokens of take-overs
		}
		w.mu.Unlock()
	}
}

// deleteLocked deletes the entry of a key. The caller holds w.mu.
func (w *world) deleteLocked(key, by string) {
	call(w.tables, "DynamoDB_20120810.DeleteItem",
		[]byte(`{"TableName":"`+keysTable+`","Key":{"idempotencyKey":{"S":"`+key+`"}}}`))
	h := w.of(key)
	h.entry = entry{}
	h.settled()
	w.trace = append(w.trace, event{time.Since(w.begun), by, "deletes " + key})
}

// addPartitions adds a partition to the topic.
func (w *world) addPartitions(h operated) {
	if !w.at(500, 5000, "added partition") {
		return
	}
	w.producing.lock()
	defer w.producing.unlock()
	h.addPartition()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.topic.partitions = append(w.topic.partitions, nil)
	w.topic.added = true
	w.trace = append(w.trace, event{time.Since(w.begun), "operator", "adds a partition"})
}

// moveOffsets moves or deletes the committed offsets.
func (w *world) moveOffsets(h operated) {
	if !w.at(3000, 40_000, "moving offsets") {
		return
	}
	w.producing.lock()
	defer w.producing.unlock()
	var also func()
	if w.is("offsets", "deleted") {
		also = h.deleteOffsets
	}
	h.change(func(committed []int) {
		for i := range committed {
			name := "offset of partition " + strconv.Itoa(i)
			records := w.topic.partitions[i]
			from := committed[i]
			switch w.config["offsets"] {
			case "back":
				committed[i] = w.dice.between(0, from, name)
			case "forward":
				committed[i] = w.dice.between(from, len(records), name)
			case "deleted":
				committed[i] = 0
			}
			for j := from; j < committed[i]; j++ {
				w.lose(records[j], "an operator moved the offsets forward")
			}
			w.trace = append(w.trace, event{time.Since(w.begun), "operator",
				name + " from " + strconv.Itoa(from) + " to " + strconv.Itoa(committed[i])})
		}
	}, also)
}

// recreate deletes the topic and creates it again.
func (w *world) recreate(h operated) {
	if !w.at(1000, 8000, "topic") {
		return
	}
	w.producing.lock()
	defer w.producing.unlock()
	h.change(func(committed []int) {
		for i, records := range w.topic.partitions {
			for _, r := range records[min(committed[i], len(records)):] {
				w.lose(r, "the topic was deleted")
			}
			w.topic.partitions[i] = nil
		}
		clear(committed)
		w.trace = append(w.trace, event{time.Since(w.begun), "operator", "creates the topic again"})
	}, h.recreateTopic)
}

// expire deletes entries as time to live does, until everything is settled.
func (w *world) expire(operated) {
	for round := 0; !w.calm(); round++ {
		if sleep(w.stopping, time.Duration(
			w.dice.between(1000, 15_000, "time to live "+strconv.Itoa(round)))*time.Millisecond) != nil {
			return
		}
		w.mu.Lock()
		for key, h := range w.keys {
			if h.entry.status != "" && h.entry.expiry < time.Now().Unix() {
				if h.entry.status == started && h.entry.lease > time.Now().Add(maxOffset).UnixMilli() &&
					w.is("clocks", "within the skew") {
					w.violatedLockedf(key, "is deleted by time to live while its lease lasts: %+v", h.entry)
				}
				w.deleteLocked(key, "time to live")
			}
		}
		w.mu.Unlock()
	}
}

// checkExpiry checks that time to live deletes all entries after the retention, and none before.
func (w *world) checkExpiry() {
	early := 0
	if w.retention > faulty {
		early = w.tables.ExpireNow(time.Now().Add(w.retention - time.Since(w.begun) - time.Minute))
	}
	_ = sleep(w.stopping, w.retention+patience)
	w.tables.ExpireNow(time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	left := 0
	for key := range w.keys {
		if w.item(keysTable, "idempotencyKey", key) != nil {
			left++
		}
	}
	if early > 0 || left > 0 {
		w.violatedLockedf("", "%d entries were deleted before their retention was over, and %d are left after it", early, left)
	}
}

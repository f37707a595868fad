package simulation_test

import (
	"strconv"
	"time"
)

// theTopic is the topic as its producers and operators see it.
type theTopic struct {
	partitions [][]*record // of the topic that exists
	all        []*record   // also of one that was deleted
	byPlace    map[string]*record
	known      map[string]bool // the stored keys and places of all records
	added      bool            // a partition was added
	produced   bool            // the producers have ended
}

// newTopic returns an empty topic.
func newTopic(partitions int) theTopic {
	return theTopic{partitions: make([][]*record, partitions), byPlace: make(map[string]*record),
		known: make(map[string]bool)}
}

// appended adds a record of a draft to the topic. publish, if it is not nil, writes it there. The caller
// holds w.producing.
func (w *world) appended(dr draft, change func(*record), publish func(*record)) *record {
	w.mu.Lock()
	if dr.partition >= len(w.topic.partitions) {
		dr.partition = 0 // a topic that was created again has fewer
	}
	r := w.record(&dr, len(w.topic.partitions[dr.partition]), time.Since(w.begun), time.Now())
	if change != nil {
		change(r)
		w.identify(r)
	}
	w.topic.partitions[dr.partition] = append(w.topic.partitions[dr.partition], r)
	w.topic.all = append(w.topic.all, r)
	w.topic.byPlace[r.place()] = r
	w.topic.known[r.key], w.topic.known[r.stored] = true, true
	w.mu.Unlock()
	if publish != nil {
		publish(r)
	}
	return r
}

// produce writes the records of the seed's producers at their times, through publish if it is not nil.
func (w *world) produce(publish func(*record)) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.topic.produced = true
	}()
	pause := time.Duration(w.dice.between(0, pick(w.dice, "pace", 5, 50, 400),
		"production")) * time.Millisecond
	for i, dr := range w.drafts(w.dice) {
		if w.Records > 0 && i >= w.Records {
			return
		}
		if sleep(w.stopping, pause) != nil {
			return
		}
		w.producing.lock()
		name := "record " + strconv.Itoa(i)
		if w.partitionsAdded() && w.dice.chance(0.5, name+" is of an added partition") {
			dr.partition = w.partitionCount() - 1
		}
		w.appended(dr, nil, publish)
		w.producing.unlock()
	}
}

func (w *world) partitionsAdded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.topic.added
}

func (w *world) partitionCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.topic.partitions)
}

// lose records why nothing needs to become of a record. The caller holds w.mu.
func (w *world) lose(r *record, why string) {
	r.lost = why
	if r.key != "" {
		delete(w.of(r.key).delivered, r.redrive)
	}
}

// recordAt returns the record of a place; nil if there is none.
func (w *world) recordAt(place string) *record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.topic.byPlace[place]
}

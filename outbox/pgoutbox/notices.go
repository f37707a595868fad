package pgoutbox

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// notices logs what happens to events: the first event of a topic at once, and the others together. A topic
// that is missing would otherwise give a line for each attempt of each of its events.
type notices struct {
	logger *slog.Logger
	every  time.Duration

	mu sync.Mutex
	of map[notice]*noted
}

// notice is what happened, and the topic.
type notice struct {
	level       slog.Level
	what, topic string
}

// noted are the events of a notice that were not logged yet.
type noted struct {
	logged time.Time // when the notice was logged last
	events int
	first  rejection
}

// rejection is an event whose attempt was counted.
type rejection struct {
	ID, Topic string
	Attempts  int
	Parked    bool
	Failure   string
}

func newNotices(logger *slog.Logger, every time.Duration) *notices {
	return &notices{logger: logger, every: every, of: make(map[notice]*noted)}
}

// note adds an event to a notice. flush logs it.
func (n *notices) note(level slog.Level, what string, event rejection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := notice{level, what, event.Topic}
	if n.of[of] == nil {
		n.of[of] = new(noted)
	}
	if n.of[of].events++; n.of[of].events == 1 {
		n.of[of].first = event
	}
}

// flush logs the notices that were not logged within the last interval. all logs the others too.
func (n *notices) flush(ctx context.Context, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for of, are := range n.of {
		due := time.Since(are.logged) >= n.every
		switch {
		case are.events > 0 && (due || all):
			n.logger.Log(ctx, of.level, of.what, "topic", of.topic, "events", are.events, "event",
				are.first.ID, "attempts", are.first.Attempts, "error", are.first.Failure)
			are.logged, are.events = time.Now(), 0
		case due:
			delete(n.of, of)
		}
	}
}

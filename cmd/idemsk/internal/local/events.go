package local

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// ReadEvents reads the event in a file, or those in the *.json files of a folder, ordered by name. It also
// reads events that are not from a Kafka event source mapping; the function gets them once and unchanged.
func ReadEvents(path string) ([]*mskevent.Event, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the events: %w", err)
	}
	paths := []string{path}
	if info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
			return nil, fmt.Errorf("the events in %s: %w", path, err)
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("there is no *.json in %s", path)
		}
	}
	var events []*mskevent.Event
	for _, path := range paths {
		payload, err := os.ReadFile(path) //nolint:gosec // named by the user
		if err != nil {
			return nil, fmt.Errorf("the events: %w", err)
		}
		name := filepath.Base(path)
		e, err := mskevent.Parse(name, payload)
		if err != nil {
			e = &mskevent.Event{Name: name, Payload: payload, Broken: err}
		}
		events = append(events, e)
	}
	return events, nil
}

// sayBroken names the events that an event source mapping would not send.
func (r *run) sayBroken() {
	for _, e := range r.o.ESM.Events {
		if e.Broken != nil {
			r.o.Say(term.Escape(e.Broken.Error()) + ": it is delivered once, unchanged.")
		}
	}
}

// checkEvents refuses options that do not apply to recorded events.
func (o *Options) checkEvents(check checkFunc) {
	if len(o.ESM.Events) == 0 {
		return
	}
	topic, toTopic := esm.KafkaTopic(o.ESM.OnFailure)
	check(!toTopic, "--on-failure kafka://%s needs a cluster: --events has none", topic)
	check(len(o.Brokers) == 0 && o.Produce == 0,
		"--events excludes --brokers and --produce: the function gets recorded events in the place of a topic's records")
	check(o.ESM.FilterCriteria == "", "--events excludes --filter-criteria: recorded events have been filtered")
}

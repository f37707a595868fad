package local

import (
	"fmt"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
)

// alarms says which faults and outages last at present, the worst ones first.
func (p *page) alarms(c *Counts, enabled bool, flight int) []console.Alarm {
	all := []console.Alarm{}
	add := func(holds bool, level, text string, since, until time.Time) {
		if holds {
			all = append(all, console.Alarm{Level: level, Text: text, Since: micro(since), Until: micro(until)})
		}
	}
	var unknown time.Time
	armed, now := p.armed, time.Now()
	broken, slow := time.Unix(0, armed.broken.Load()), time.Unix(0, armed.slow.Load())
	add(now.Before(broken), console.AlarmBad, "The store answers each request with an error.", unknown, broken)
	add(!c.DownSince.IsZero(), console.AlarmBad, "An outage: the handler has failed for all records.", c.DownSince,
		unknown)
	add(now.Before(slow), console.AlarmWarn,
		fmt.Sprintf("Each request to the store takes %s more.", storeDelay), unknown, slow)
	add(!enabled, console.AlarmWarn,
		"The event source mapping is disabled: nothing is read or retried until it is enabled.", unknown, unknown)
	add(armed.kill.Load(), console.AlarmWarn, "The process that claims a key next will be killed.", unknown,
		unknown)
	add(armed.effect.Load(), console.AlarmWarn,
		"The process that writes to another table than that of the keys next will be killed.", unknown, unknown)
	pending := armed.pause.Load()
	add(pending, console.AlarmWarn, "The process that claims a key next will be paused at its completion.",
		unknown, unknown)
	add(!pending && p.buttons.pausing.Load(), console.AlarmWarn,
		"A process is paused until another one has taken its key over.", unknown, unknown)
	lease := p.owner.o.lease()
	if waiting(c, flight, lease, now) != "" {
		killed := c.Kills[len(c.Kills)-1].At
		add(true, console.AlarmWarn, "A process was killed: the keys it held are free when its lease is over.",
			killed, killed.Add(lease))
	}
	return all
}

// micro returns microseconds since 1970; 0 for an unknown time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

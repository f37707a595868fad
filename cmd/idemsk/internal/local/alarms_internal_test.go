package local

import (
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
)

// The page warns of a fault or an outage while it lasts, and no longer.
func TestAlarmsWhileAFaultLasts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	soon, past := now.Add(time.Minute).UnixNano(), now.Add(-time.Second).UnixNano()
	for what, test := range map[string]struct {
		set      func(p *page, c *Counts)
		disabled bool
		level    string // "" for no alarm
	}{
		"nothing":           {func(*page, *Counts) {}, false, ""},
		"the store fails":   {func(p *page, _ *Counts) { p.armed.broken.Store(soon) }, false, console.AlarmBad},
		"it has failed":     {func(p *page, _ *Counts) { p.armed.broken.Store(past) }, false, ""},
		"the store is slow": {func(p *page, _ *Counts) { p.armed.slow.Store(soon) }, false, console.AlarmWarn},
		"it was slow":       {func(p *page, _ *Counts) { p.armed.slow.Store(past) }, false, ""},
		"an outage":         {func(_ *page, c *Counts) { c.DownSince = now }, false, console.AlarmBad},
		"disabled":          {func(*page, *Counts) {}, true, console.AlarmWarn},
		"a kill":            {func(p *page, _ *Counts) { p.armed.kill.Store(true) }, false, console.AlarmWarn},
		"after an effect":   {func(p *page, _ *Counts) { p.armed.effect.Store(true) }, false, console.AlarmWarn},
		"a pause that is to come": {func(p *page, _ *Counts) {
			p.armed.pause.Store(true)
			p.buttons.pausing.Store(true)
		}, false, console.AlarmWarn},
		"a pause": {func(p *page, _ *Counts) { p.buttons.pausing.Store(true) }, false, console.AlarmWarn},
		"a lease of a killed process": {func(_ *page, c *Counts) { c.Kills = []verify.Kill{{At: now}} }, false,
			console.AlarmWarn},
		"its lease is over": {func(_ *page, c *Counts) { c.Kills = []verify.Kill{{At: now.Add(-time.Hour)}} },
			false, ""},
	} {
		p := &page{recorder: newRecorder(), buttons: new(buttons),
			owner: &run{o: &Options{Function: "f", Store: StoreFake}}}
		var c Counts
		test.set(p, &c)
		alarms := p.alarms(&c, !test.disabled, 1)
		if (len(alarms) > 0) != (test.level != "") || len(alarms) > 1 ||
			len(alarms) == 1 && alarms[0].Level != test.level {
			t.Errorf("%s: %+v; want level %q", what, alarms, test.level)
		}
	}
}

// The worst alarm is the first one, because the page has its colour. It names when the fault ends.
func TestWorstAlarmIsFirst(t *testing.T) {
	t.Parallel()
	p := &page{recorder: newRecorder(), buttons: new(buttons),
		owner: &run{o: &Options{Function: "f", Store: StoreFake}}}
	until := time.Now().Add(time.Minute)
	p.armed.slow.Store(until.UnixNano())
	p.armed.broken.Store(until.UnixNano())
	alarms := p.alarms(new(Counts), true, 0)
	if len(alarms) != 2 || alarms[0].Level != console.AlarmBad || alarms[0].Until != until.UnixMicro() {
		t.Errorf("%+v", alarms)
	}
}

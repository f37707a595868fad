package verb

import (
	"sync"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// screen writes lines to the error stream, above a live view.
type screen struct {
	s    command.Streams
	mu   sync.Mutex
	live *term.Live
}

func (c *screen) say(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.Say(line)
		return
	}
	c.s.Sayf("%s\n", line)
}

func (c *screen) show(v *local.View) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = term.StartLive(c.s.Err, v.Lines, v.Line)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.live.Stop()
		c.live = nil
	}
}

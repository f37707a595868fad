package local

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
)

// pages is the console.Source of one run after another. The page stays open between them.
type pages struct {
	server  *console.Server // nil if no page is served
	current atomic.Pointer[page]
	before  []console.Side // of the runs that have ended
}

// show makes p the page that is served.
func (s *pages) show(p *page) error {
	s.current.Store(p)
	if s.server != nil {
		return nil
	}
	ui := p.owner.o.UI
	server, err := console.Start(console.Config{Addr: ui.Addr, Fallback: ui.Fallback, Password: ui.Password,
		Source: s})
	if err != nil {
		return fmt.Errorf("--ui: %w", err)
	}
	s.server = server
	p.owner.o.Say("Page: " + server.URL())
	return nil
}

// close shows the last state to the open pages, and ends the server.
func (s *pages) close() error {
	if s.server == nil {
		return nil
	}
	s.current.Load().over.Store(true)
	return s.server.Close()
}

// Run implements console.Source.
func (s *pages) Run() console.Run { return s.current.Load().Run() }

// Keys implements console.Source.
func (s *pages) Keys(q console.Query) console.Keys { return s.current.Load().Keys(q) }

// History implements console.Source.
func (s *pages) History(key string) (console.History, bool) { return s.current.Load().History(key) }

// Invocations implements console.Source.
func (s *pages) Invocations() console.Invocations { return s.current.Load().Invocations() }

// Invocation implements console.Source.
func (s *pages) Invocation(number int) (console.Detail, bool) {
	return s.current.Load().Invocation(number)
}

// Letters implements console.Source.
func (s *pages) Letters(ctx context.Context) ([]console.Letter, error) {
	return s.current.Load().Letters(ctx)
}

// Verdict implements console.Source.
func (s *pages) Verdict(ctx context.Context) (console.Verdict, error) {
	return s.current.Load().Verdict(ctx)
}

// Do implements console.Source.
func (s *pages) Do(ctx context.Context, a console.Action) (string, error) {
	return s.current.Load().Do(ctx, a)
}

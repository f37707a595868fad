package local

import (
	"fmt"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
)

// pages serves the page of one run after another. It stays open between them.
type pages struct {
	server  *console.Server // nil if no page is served
	current *page
	before  []console.Side // of the runs that have ended
}

// show makes p the page that is served.
func (s *pages) show(p *page) error {
	s.current = p
	if s.server != nil {
		s.server.Show(p)
		return nil
	}
	ui := p.owner.o.UI
	server, err := console.Start(console.Config{Addr: ui.Addr, Fallback: ui.Fallback, Password: ui.Password,
		Source: p})
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
	s.current.over.Store(true)
	return s.server.Close()
}

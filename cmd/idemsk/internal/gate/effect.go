package gate

import (
	"context"
	"time"
)

// admit waits until an effect may be performed; nil if it may not, because its process is being killed. What it returns is
// the process that the effect belongs to.
func (g *Gate) admit(ctx context.Context) *process {
	for {
		p, held := g.tryAdmit()
		if held == nil {
			return p
		}
		select {
		case <-held:
		case <-ctx.Done(): // the process is gone
		}
		if !g.unhold(p, ctx) {
			return nil
		}
	}
}

// tryAdmit lets an effect pass, or holds it: then it returns what it waits for. It returns nothing if the process is dead.
func (g *Gate) tryAdmit() (p *process, held <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p = g.process
	if p.gone {
		return nil, nil
	}
	if p.armed == nil && len(g.kills) > 0 && g.begun+1 >= g.kills[0] {
		g.arm(p)
	}
	if p.armed == nil {
		g.begun++
		p.open++
		return p, nil
	}
	p.held++
	held = p.armed
	g.killIfDue(p)
	return p, held // also when the kill is under way: an answer could still make the process release its key
}

// unhold reports whether a held effect may try again.
func (g *Gate) unhold(p *process, ctx context.Context) bool { //nolint:revive // the process is what it is about
	g.mu.Lock()
	defer g.mu.Unlock()
	p.held--
	return ctx.Err() == nil && !p.killed && !p.gone
}

func (g *Gate) arm(p *process) {
	p.armed = make(chan struct{})
	p.timer = time.AfterFunc(g.cfg.Patience, func() { g.giveUp(p) })
}

// giveUp lets the held effects pass, when those before them don't get their completions.
func (g *Gate) giveUp(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.armed == nil || p.killed {
		return
	}
	g.kills = g.kills[1:]
	g.done.Unplaced++
	p.disarm()
}

func (p *process) disarm() {
	if p.armed == nil {
		return
	}
	p.timer.Stop()
	close(p.armed)
	p.armed = nil
}

// killIfDue kills when effects are held and all that passed have their completions.
func (g *Gate) killIfDue(p *process) {
	if p.armed == nil || p.killed || p.gone || p.held == 0 || p.open > 0 {
		return
	}
	p.killed = true
	g.kills = g.kills[1:]
	g.done.Done++
	g.cfg.Kill()
}

// effectDone notes how an effect ended. One that is protected stays open until its completion.
func (g *Gate) effectDone(p *process, ok bool) {
	if ok && g.cfg.Protected {
		return
	}
	g.closed(p)
}

// closed notes that an effect needs nothing any more.
func (g *Gate) closed(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.open--
	g.killIfDue(p)
}

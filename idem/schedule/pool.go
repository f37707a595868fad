package schedule

import "context"

// pool runs functions in goroutines. It keeps the goroutines, because their stacks have grown to the size that
// the functions need.
type pool struct {
	work chan func() // unbuffered: a send succeeds while a goroutine has nothing to do
	done <-chan struct{}
	// close ends the goroutines that have nothing to do, and each other one after its function. So does the end
	// of the context.
	close context.CancelFunc
}

func newPool(ctx context.Context) *pool {
	ctx, cancel := context.WithCancel(ctx)
	return &pool{work: make(chan func()), done: ctx.Done(), close: cancel}
}

// run runs f in a goroutine that has nothing to do, or in a new one.
func (p *pool) run(f func()) {
	select {
	case p.work <- f:
	default:
		go p.serve(f)
	}
}

func (p *pool) serve(f func()) {
	for {
		f()
		select {
		case f = <-p.work:
		case <-p.done:
			return
		}
	}
}

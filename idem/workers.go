package idem

import (
	"sync"

	"github.com/idemsk/idemsk/idem/internal/machine"
)

// workers does jobs in goroutines, which are started when they are needed. A worker does one job after
// another, because its stack has already grown to the size that a handler needs. There are as many as jobs
// have been in progress at once.
type workers struct {
	do func(machine.Action)

	mu       sync.Mutex
	calls    machine.Queue[machine.Action] // of handlers
	jobs     machine.Queue[machine.Action] // all others, which are done first: handlers can use all of the CPU
	busy     int                           // workers that do a job
	idle     int                           // workers that wait for one
	wake     *sync.Cond                    // wakes an idle worker
	starting bool                          // a worker was started or woken, and has not looked for a job
	closed   bool
}

func newWorkers(do func(machine.Action)) *workers {
	w := &workers{do: do}
	w.wake = sync.NewCond(&w.mu)
	return w
}

// add lets workers do jobs.
func (w *workers) add(jobs ...machine.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, job := range jobs {
		if job.Kind == machine.DoCall {
			w.calls.Push(job)
		} else {
			w.jobs.Push(job)
		}
	}
	w.start()
}

// withdraw removes and returns the items of the calls that match and that no worker has taken.
func (w *workers) withdraw(match func(*machine.Item) bool) (items []*machine.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range w.calls.Len() {
		if call := w.calls.Pop(); match(call.Item) {
			items = append(items, call.Item)
		} else {
			w.calls.Push(call)
		}
	}
	return items
}

// left returns how many jobs no worker has taken. w.mu is held.
func (w *workers) left() int { return w.calls.Len() + w.jobs.Len() }

// close ends the workers when no jobs are left.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wake.Broadcast()
}

// start wakes or starts a worker if there is a job. Only one is being started at a time; it starts the next
// one. w.mu is held.
func (w *workers) start() {
	if w.starting || w.left() == 0 {
		return
	}
	w.starting = true
	if w.idle > 0 {
		w.wake.Signal()
		return
	}
	go w.work()
}

func (w *workers) work() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starting = false
	for {
		for w.left() > 0 {
			w.doNext()
		}
		if w.closed {
			return
		}
		w.idle++
		w.wake.Wait()
		w.idle--
		w.starting = false
	}
}

// doNext does the next job. w.mu is held, but not while it is done.
func (w *workers) doNext() {
	next := &w.jobs
	if next.Len() == 0 {
		next = &w.calls
	}
	job := next.Pop()
	w.start()
	w.busy++
	w.mu.Unlock()
	defer func() { // deferred, because a handler may end its goroutine
		w.mu.Lock()
		w.busy--
	}()
	w.do(job)
}

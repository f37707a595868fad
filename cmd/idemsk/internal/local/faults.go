package local

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/verify"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// chances decides by seed what goes wrong: the same with the same batch, whatever else happens meanwhile.
type chances struct {
	Faults
	seed uint64
}

// What a chance is for, so that one does not depend on another.
const (
	forDuplicate  = "duplicate"
	forKill       = "kill"
	forMoment     = "moment"
	forConcurrent = "concurrent"
	forSlow       = "slow"
	forMember     = "member"
)

// roll is a number from 0 to 1.
func (c *chances) roll(purpose string, first mskevent.Place, number int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose + " " + first.String() + " " + strconv.Itoa(number))) // never fails
	return rand.New(rand.NewPCG(c.seed, h.Sum64())).Float64()                           //nolint:gosec // it has to give the same numbers again
}

// Again implements esm.Faults.
func (c *chances) Again(first mskevent.Place) bool {
	return c.roll(forDuplicate, first, 0) < c.Duplicate
}

// killable is an invoker whose process can be killed.
type killable interface {
	esm.Invoker
	kill()
	// arm has the next effect of the process kill it, until disarm is called; false if its effects are not seen.
	arm() (disarm func(), ok bool)
	// killed reports whether the last invocation ended by kill.
	killed() bool
}

// faulty invokes with faults. Concurrent duplicates go to its second invoker, which is created on first use.
type faulty struct {
	chances   *chances
	tally     *tally
	main      esm.Invoker
	newSecond func(ctx context.Context) (esm.Invoker, error)

	mu     sync.Mutex
	second esm.Invoker
	usual  time.Duration // of an invocation, so that a kill hits the middle of one
}

// firstGuess is how long an invocation takes as long as none has been seen.
const firstGuess = 10 * time.Millisecond

// Invoke implements esm.Invoker.
func (f *faulty) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	if slow := f.chances.Slow; slow > 0 {
		sleep(ctx, time.Duration(f.chances.roll(forSlow, inv.First, inv.Number)*float64(slow)))
	}
	other := make(chan error, 1)
	if f.chances.roll(forConcurrent, inv.First, inv.Number) < f.chances.Concurrent {
		second, err := f.other(ctx)
		if err != nil {
			return esm.Answer{}, err
		}
		f.tally.concurrent()
		go func() { _, err := second.Invoke(ctx, inv); other <- err }()
	} else {
		other <- nil
	}
	answer, err := f.mayKill(ctx, inv)
	// The other's answer counts for nothing, as that of a poller that has lost its partitions; its end has to be seen.
	if otherErr := <-other; err == nil && ctx.Err() == nil {
		var away *esm.UnavailableError
		if otherErr != nil && !errors.As(otherErr, &away) {
			return answer, otherErr
		}
	}
	return answer, err
}

// mayKill invokes, and kills the process in the middle if it is due.
func (f *faulty) mayKill(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	begun := time.Now()
	main, ok := f.main.(killable)
	if !ok || f.chances.roll(forKill, inv.First, inv.Number) >= f.chances.Kill {
		answer, err := f.main.Invoke(ctx, inv)
		f.learn(time.Since(begun))
		return answer, err
	}
	disarm, ok := main.arm()
	if !ok {
		disarm = f.killLater(main, inv)
	}
	answer, err := main.Invoke(ctx, inv)
	disarm()
	if err == nil && main.killed() {
		f.tally.killed(verify.Kill{Executor: answer.RequestID, During: inv.Batch, At: time.Now()})
	}
	return answer, err
}

// killLater kills the process somewhere in the middle of an invocation that begins now, and not after disarm.
func (f *faulty) killLater(main killable, inv *esm.Invocation) (disarm func()) {
	moment := time.Duration(f.chances.roll(forMoment, inv.First, inv.Number) * float64(f.guess()))
	fired := make(chan struct{})
	timer := time.AfterFunc(moment, func() { defer close(fired); main.kill() })
	return func() {
		if !timer.Stop() {
			<-fired
		}
	}
}

func (f *faulty) guess() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.usual == 0 {
		return firstGuess
	}
	return f.usual
}

func (f *faulty) learn(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.usual == 0 || took < f.usual {
		f.usual = took
		return
	}
	f.usual += (took - f.usual) / 8 //nolint:mnd // a longer one counts little: the first has the start of a process in it
}

func (f *faulty) other(ctx context.Context) (esm.Invoker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.second == nil {
		f.second, err = f.newSecond(ctx)
	}
	return f.second, err
}

// Close implements esm.Invoker.
func (f *faulty) Close(ctx context.Context) {
	f.main.Close(ctx)
	f.mu.Lock()
	second := f.second
	f.mu.Unlock()
	if second != nil {
		second.Close(ctx)
	}
}

// sleep lets time pass, or the context end.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package local

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// chances draws faults by the seed. The faults of a batch depend only on the seed and its first record.
type chances struct {
	Faults
	seed uint64
}

// The purposes of draws, so that they are independent.
const (
	forDuplicate  = "duplicate"
	forKill       = "kill"
	forMoment     = "moment"
	forConcurrent = "concurrent"
	forSlow       = "slow"
	forMember     = "member"
)

// roll returns a random number from 0 to 1 for a purpose, a batch and the number of its invocation.
func (c *chances) roll(purpose string, first mskevent.Place, number int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose + " " + first.String() + " " + strconv.Itoa(number))) // never fails
	return rand.New(rand.NewPCG(c.seed, h.Sum64())).Float64()                           //nolint:gosec // the same seed must give the same numbers
}

// Again implements esm.Faults.
func (c *chances) Again(first mskevent.Place) bool {
	return c.roll(forDuplicate, first, 0) < c.Duplicate
}

// killable is an invoker whose process can be killed.
type killable interface {
	esm.Invoker
	kill()
	// arm makes the next effect kill the process, until disarm is called. It returns false if effects are not
	// observed.
	arm() (disarm func(), ok bool)
	// killed reports whether kill ended the last invocation.
	killed() bool
	// number is that of the current process of the function, from 1.
	number() int
}

// faulty is an invoker that injects faults. Concurrent duplicates go to a second invoker, which is created on
// first use.
type faulty struct {
	chances   *chances
	tally     *tally
	main      esm.Invoker
	newSecond func(ctx context.Context) (esm.Invoker, error)

	mu     sync.Mutex
	second esm.Invoker
	usual  time.Duration // estimated duration of an invocation, for kills in the middle of one
}

// firstGuess is the estimate before the first invocation.
const firstGuess = 10 * time.Millisecond

// Invoke implements esm.Invoker.
func (f *faulty) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	if slow := f.chances.Slow; slow > 0 {
		esm.Wait(ctx, time.Duration(f.chances.roll(forSlow, inv.First, inv.Number)*float64(slow)))
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
	// The second answer is ignored, as that of a poller that has lost its partitions. Its errors are not.
	if otherErr := <-other; err == nil && ctx.Err() == nil {
		var away *esm.UnavailableError
		if otherErr != nil && !errors.As(otherErr, &away) {
			return answer, otherErr
		}
	}
	return answer, err
}

// mayKill invokes the function. If a kill is drawn, it kills the process during the invocation.
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
		f.tally.killed(verify.Kill{Executor: answer.RequestID, Process: main.number(), During: inv.Batch,
			At: time.Now()})
	}
	return answer, err
}

// killLater kills the process at a random moment of an invocation that starts now, unless disarm was called
// before.
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
	f.usual += (took - f.usual) / 8 //nolint:mnd // a longer one has little weight, because the first one includes the start of a process
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

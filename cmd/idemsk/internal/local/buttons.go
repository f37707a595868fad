package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// storeFault is how long the page makes the store fail or slow, and storeDelay how slow.
const (
	storeFault = 10 * time.Second
	storeDelay = time.Second
	// until a signal has its effect: the process does not get the answer to its claim before.
	signalTime = 200 * time.Millisecond
)

// armed holds the faults that buttons have asked for.
type armed struct {
	kill   atomic.Bool            // the process that claims a key next
	effect atomic.Bool            // the process that writes to another table next
	pause  atomic.Bool            // the process that claims a key next, when it completes the key
	victim atomic.Pointer[victim] // the latest claim, while pause is set
	paused chan *victim           // has a victim whose process was paused
	broken atomic.Int64           // the store fails until then, in nanoseconds since 1970
	slow   atomic.Int64           // the store is slow until then
	ended  chan struct{}          // closed when the buttons are not served any more
}

// victim is an owner of a key whose process is paused. Its request waits for resume to be closed.
type victim struct {
	in     *invocation
	key    []byte // in JSON
	resume chan struct{}
}

func newArmed() *armed { return &armed{paused: make(chan *victim, 1), ended: make(chan struct{})} }

// claimed takes note of a claim. It does not wait: the caller holds the lock of the recorder.
func (a *armed) claimed(in *invocation, key string) {
	if in == nil || in.slot.process == nil || in.replay {
		return
	}
	if a.kill.CompareAndSwap(true, false) {
		in.kill = true
		in.slot.process.kill()
		return
	}
	if a.pause.Load() {
		encoded, _ := json.Marshal(key) // a string always marshals
		a.victim.Store(&victim{in: in, key: encoded, resume: make(chan struct{})})
	}
}

// written takes note of a write to another table than that of the keys, an effect. Like claimed, it does not
// wait.
func (a *armed) written(in *invocation) {
	if in == nil || in.slot.process == nil || in.replay || !a.effect.CompareAndSwap(true, false) {
		return
	}
	in.kill = true
	in.slot.process.kill()
}

// fault is the Fault of the DynamoDB in this process.
func (a *armed) fault(_ string, body []byte) dynamofake.Fault {
	now := time.Now().UnixNano()
	switch {
	case now < a.broken.Load():
		return dynamofake.Fault{Error: dynamofake.Internal()}
	case now < a.slow.Load():
		return dynamofake.Fault{Delay: storeDelay}
	case a.kill.Load(), a.effect.Load():
		return dynamofake.Fault{ReplyDelay: signalTime}
	case a.pause.Load():
		a.hold(body)
	}
	return dynamofake.Fault{}
}

// hold pauses the process of the victim if the request completes its key. The request is performed when the
// process continues, as one that was sent before the pause and arrived late.
func (a *armed) hold(body []byte) {
	v := a.victim.Load()
	if v == nil || !bytes.Contains(body, []byte(store.StatusCompleted)) || !bytes.Contains(body, v.key) ||
		!a.pause.CompareAndSwap(true, false) {
		return
	}
	a.victim.Store(nil)
	v.in.slot.process.function.Signal(syscall.SIGSTOP)
	a.paused <- v // does not wait: there is one pause at a time
	select {
	case <-v.resume:
	case <-a.ended:
	}
}

// buttons performs the actions of a page.
type buttons struct {
	run     *run
	pausing atomic.Bool // from the button until the paused process continues

	mu     sync.Mutex
	extras []esm.Invoker // processes that get batches a second time
	closed bool
}

// available returns the actions of the run.
func (b *buttons) available() []string {
	r := b.run
	if b.isClosed() {
		return []string{}
	}
	if r.o.processes() {
		return b.topicActions()
	}
	actions := append(b.topicActions(), console.ActionDisable, console.ActionEnable, console.ActionRedeliver,
		console.ActionTwice)
	if b.whyNoEffect() == "" {
		actions = append(actions, console.ActionKillEffect)
	}
	if r.store == nil || r.store.tables == nil || r.o.Unprotected || r.o.storeKind() != StoreFake {
		return actions
	}
	actions = append(actions, console.ActionKill, console.ActionStoreFail, console.ActionStoreSlow)
	if b.pauseTime() < r.o.ESM.Timeout {
		actions = append(actions, console.ActionPause)
	}
	return actions
}

// whyNoEffect says why no process can be killed after an effect; "" if that is possible.
func (b *buttons) whyNoEffect() string {
	o := b.run.o
	switch {
	case o.processes():
		return "consumer processes have no invocations to kill them in"
	case o.Invoke != "":
		return "a function behind an endpoint can't be killed from here"
	case o.storeKind() != StoreFake:
		return "effects are observed at the DynamoDB in the process of idemsk local: --store fake"
	case !o.Example && len(o.Tables) == 0:
		return "the effects of this function are not known here: a write to a table of the DynamoDB in this process would be, with --create-table"
	}
	return ""
}

func (b *buttons) topicActions() []string {
	if len(b.run.brokers) == 0 {
		return nil
	}
	actions := []string{console.ActionProduce, console.ActionProduceFile}
	if b.run.store != nil {
		actions = append(actions, console.ActionRedrive)
	}
	return actions
}

// pauseTime is the time after which another process can take the keys of a paused one.
func (b *buttons) pauseTime() time.Duration {
	const margin = 500 * time.Millisecond // of the clock skew that the function expects, and of slow machines
	return b.run.o.lease() + margin
}

// again delivers the event of an invocation to n processes at once. Their answers are ignored, as those of a
// poller that has lost its partitions.
func (b *buttons) again(ctx context.Context, number, n int) error {
	recorder := b.run.recorder
	recorder.mu.Lock()
	in := recorder.find(number)
	recorder.mu.Unlock()
	if in == nil {
		return fmt.Errorf("%w: invocation %d is not kept", console.ErrAction, number)
	}
	return b.deliver(ctx, in, n)
}

func (b *buttons) deliver(ctx context.Context, in *invocation, n int) error {
	errs := make(chan error, n)
	for i := range n {
		invoker, err := b.extra(ctx, i)
		if err != nil {
			return err
		}
		go func() {
			_, err := invoker.Invoke(ctx, &esm.Invocation{
				Poller: esm.NoPoller, Batch: in.Batch, Number: in.Try, Records: in.Records,
				Delivered: in.delivered, Payload: in.payload,
			})
			errs <- err
		}()
	}
	var first error
	for range n {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// extra returns the i-th process that gets batches a second time.
func (b *buttons) extra(ctx context.Context, i int) (esm.Invoker, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("%w: the run has ended", console.ErrAction)
	}
	for len(b.extras) <= i {
		invoker, err := b.run.plainInvoker(ctx)
		if err != nil {
			return nil, err
		}
		b.extras = append(b.extras, invoker)
	}
	return b.extras[i], nil
}

func (b *buttons) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// close ends the extra processes, and allows no more actions.
func (b *buttons) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, invoker := range b.extras {
		invoker.Close(context.Background())
	}
}

// serve delivers the batch of each paused process to another one when the lease is over, and then continues
// it, until the context ends.
func (b *buttons) serve(ctx context.Context) {
	defer close(b.run.recorder.armed.ended)
	for {
		select {
		case v := <-b.run.recorder.armed.paused:
			b.run.recorder.mark(v.in, console.KindPaused)
			esm.Wait(ctx, b.pauseTime())
			err := b.deliver(ctx, v.in, 1)
			b.run.recorder.mark(v.in, console.KindResumed)
			close(v.resume)
			v.in.slot.process.function.Signal(syscall.SIGCONT)
			b.pausing.Store(false)
			if err != nil && ctx.Err() == nil {
				b.run.o.Say("The batch of the paused process could not be delivered to another one: " +
					err.Error())
			}
		case <-ctx.Done():
			return
		}
	}
}

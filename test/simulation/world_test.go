package simulation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// The tables, the topic, and the function.
const (
	keysTable     = "idemsk"
	accountsTable = "accounts" // balances
	bookingsTable = "bookings" // how often the payment of each key was booked, and with which token
	outboxTable   = "outbox"
	topic         = "payments"
	function      = "ledger"
)

const (
	skew    = time.Second      // IDEMSK_MAX_CLOCK_SKEW
	timeout = 20 * time.Second // of an invocation
	// faulty is how long faults are injected. Afterwards all records must be settled within patience, without
	// anything that an operator does.
	faulty   = 2 * time.Minute
	patience = 30 * time.Minute
)

// world is one run: the services, the topic, the processes, and what was observed.
type world struct {
	scenario
	settings
	dice    dice
	faults  *faults
	tables  *dynamofake.Server
	queue   *sqsfake.Server
	url     string // of the queue
	begun   time.Time
	deploys time.Duration // when the second deployment replaces the first one, 0 for never
	times   map[string]span

	stopping context.Context // done after the first violation, and at the end
	stop     context.CancelFunc
	running  sync.WaitGroup // invocations, and requests that are late

	producing gate // held while a record is written

	mu         sync.Mutex
	topic      theTopic
	steps      int
	items      map[string]decoded // by table and key
	keys       map[string]*history
	owners     map[string]*process // who claimed under the name of an owner
	letters    []letter
	fixed      bool          // operators have repaired what made payments fail
	operating  int           // operators that have not ended
	describe   func() string // what the host waits for
	trace      []event
	opened     int           // calls of handlers without a claim
	lastCallOf int           // the number of the last call of a bulk handler
	processes  int           // that have started
	pausedTo   time.Duration // until when a process pauses, at most
	err        error         // the first violation
}

// gate is a mutex behind which virtual time passes.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) lock()   { g <- struct{}{} }
func (g gate) unlock() { <-g }

// span is from when and until when something lasts.
type span struct{ from, to time.Duration }

// event is a line of the trace.
type event struct {
	At         time.Duration
	Name, What string
}

// result is what a run found.
type result struct {
	Steps     int
	Violation string // the first, empty for none
	Injected  []fault
	Trace     []event
	Config    config
	Drained   time.Duration // when everything was settled
}

// runHere runs a scenario in virtual time, whatever its order.
func runHere(t *testing.T, s scenario) (res result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		watchdog := time.AfterFunc(faulty+patience, func() {
			w.violatedf("", "not everything is settled %v after the last fault: %s\n%s", patience, w.open(),
				w.describe())
		})
		w.running.Go(w.watchStoreDown)
		if w.inGroup() {
			w.deliverToGroup(t)
		} else {
			w.deliver()
		}
		drained := time.Since(w.begun)
		watchdog.Stop()
		w.running.Wait()
		if w.err == nil {
			w.checkEnd()
			w.checkExpiry()
		}
		w.stop()
		res = result{Steps: w.steps, Injected: w.faults.injected, Trace: w.trace, Config: w.config,
			Drained: drained}
		if w.err != nil {
			res.Violation = w.err.Error()
		}
	})
	return res
}

func newWorld(t *testing.T, s scenario) *world {
	t.Helper()
	d := dice(s.Seed)
	w := &world{
		scenario: s, dice: d, settings: settingsOf(d, s.Config), faults: &faults{dice: d, only: s.allowed()},
		begun: time.Now(), times: make(map[string]span),
		items: make(map[string]decoded), keys: make(map[string]*history), owners: make(map[string]*process),
	}
	w.topic, w.producing = newTopic(w.partitions), newGate()
	w.stopping, w.stop = context.WithCancel(context.Background())
	if !w.is("deployment", "none") {
		w.deploys = time.Duration(d.between(500, 20_000, "deployment")) * time.Millisecond
		w.faults.note(deployment, "the function")
	}
	for _, p := range periods {
		if (p.when == nil || w.meets(p.when)) && w.faults.strikes(p.kind, p.chance, "the run") {
			from := time.Duration(d.between(p.from, p.from+p.within, p.kind)) * time.Millisecond
			w.times[p.kind] = span{from,
				from + time.Duration(d.between(p.least, p.most, "length of "+p.kind))*time.Millisecond}
		}
	}
	w.createTables(t)
	w.createQueue(t)
	return w
}

func (w *world) createTables(t *testing.T) {
	t.Helper()
	var err error
	var tables dynamofake.Config
	if w.traced() {
		tables.Observe = awstest.TraceWrites(t, keysTable, skew, maxOffset)
	}
	if w.tables, err = dynamofake.New(tables); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{keysTable: dynamostore.AttrKey, accountsTable: "account",
		bookingsTable: "payment"} {
		if err := w.tables.CreateTable(dynamofake.Table{Name: name, HashKey: key,
			TTLAttribute: dynamostore.AttrExpiry}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.tables.CreateTable(dynamofake.Table{Name: outboxTable, HashKey: dynamooutbox.AttrID,
		TTLAttribute: dynamooutbox.AttrExpiry}); err != nil {
		t.Fatal(err)
	}
}

// traced reports whether what the store does is compared with the model, which knows neither clocks beyond
// the skew nor deletions.
func (w *world) traced() bool {
	return w.is("clocks", "within the skew") && w.is("delete entries", "no") && w.retention > faulty
}

func (w *world) createQueue(t *testing.T) {
	t.Helper()
	var err error
	if w.queue, err = sqsfake.New(sqsfake.Config{}); err != nil {
		t.Fatal(err)
	}
	status, out := call(w.queue, "AmazonSQS.CreateQueue", []byte(`{"QueueName":"letters"}`))
	var created struct{ QueueUrl string } //nolint:revive // SQS's name
	if err := json.Unmarshal(out, &created); err != nil || status != http.StatusOK {
		t.Fatalf("creating the queue: %d %s", status, out)
	}
	w.url = created.QueueUrl
}

// deployed returns the number of the deployment that new processes are of.
func (w *world) deployed() int {
	if w.deploys > 0 && time.Since(w.begun) > w.deploys {
		return 1
	}
	return 0
}

// during reports whether a period lasts now.
func (w *world) during(kind string) bool {
	at := time.Since(w.begun)
	return at >= w.times[kind].from && at < w.times[kind].to
}

// calm reports that no more faults are injected.
func (w *world) calm() bool { return time.Since(w.begun) > faulty || w.stopping.Err() != nil }

// rate scales the probability of a fault by the seed, from 0 to 1.
func (w *world) rate(kind string) float64 { return w.dice.rand("rate " + kind).Float64() }

// log adds a line to the trace.
func (w *world) log(name, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, event{time.Since(w.begun), name, what})
}

// violatedf records a violation of an invariant, and ends the run.
func (w *world) violatedf(key, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violatedLockedf(key, format, args...)
}

func (w *world) violatedLockedf(key, format string, args ...any) {
	if w.err != nil {
		return
	}
	w.err = fmt.Errorf("step %d, %v: %s", w.steps, time.Since(w.begun),
		strings.TrimSpace(key+" "+fmt.Sprintf(format, args...)))
	w.stop()
}

// perform performs a request of a process, which is a step, and checks the invariants.
func (w *world) perform(p *process, rq *request, note string) reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	var service http.Handler = w.tables
	if rq.service == "AmazonSQS" {
		service = w.queue
	}
	status, body := call(service, rq.service+"."+rq.operation, rq.body)
	w.trace = append(w.trace, event{time.Since(w.begun), rq.name,
		strings.TrimSpace(note + " " + http.StatusText(status))})
	if rq.service == "AmazonSQS" && status == http.StatusOK {
		w.keepLetter(rq.body)
	}
	for _, key := range rq.keys {
		w.check(p, key)
		w.of(key).unanswered = note != "" && note != slow
	}
	return reply{status, body}
}

// item reads an item of a table; nil if there is none. An item that has not changed is not decoded again.
func (w *world) item(table, attribute, key string) map[string]attributeValue {
	body := []byte(`{"TableName":"` + table + `","ConsistentRead":true,"Key":{"` + attribute + `":{"S":"` +
		key + `"}}}`)
	status, out := call(w.tables, "DynamoDB_20120810.GetItem", body)
	last := w.items[table+key]
	if last.item != nil && bytes.Equal(last.answer, out) {
		return last.item
	}
	var got struct{ Item map[string]attributeValue }
	if err := json.Unmarshal(out, &got); err != nil || status != http.StatusOK {
		panic(fmt.Sprintf("reading %s: %d %s", key, status, out))
	}
	w.items[table+key] = decoded{out, got.Item}
	return got.Item
}

// decoded is an item as it was answered and decoded.
type decoded struct {
	answer []byte
	item   map[string]attributeValue
}

// attributeValue is a value of the types that the tables have.
type attributeValue struct {
	S, N string
	B    []byte
}

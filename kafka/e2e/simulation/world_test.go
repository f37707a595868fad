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
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/sqsfake"
	"github.com/idemsk/idemsk/internal/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
)

// The tables, the topic, and the function.
const (
	keysTable     = "idemsk"
	accountsTable = "accounts" // balances
	bookingsTable = "bookings" // how often each payment was booked, and with which token
	topic         = "payments"
	function      = "ledger"
)

const (
	skew    = time.Second      // IDEMSK_MAX_CLOCK_SKEW
	timeout = 20 * time.Second // of an invocation
	// faulty is how long faults are injected. Afterwards all records must be settled before the end of patience.
	faulty   = 2 * time.Minute
	patience = 3 * time.Hour
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
	records [][]record       // by partition
	deploys time.Duration    // when the second deployment replaces the first one, 0 for never
	full    time.Duration    // how long the queue accepts no letter
	down    [2]time.Duration // from when and until when what the handler needs is down

	stopping context.Context // done after the first violation, and at the end
	stop     context.CancelFunc
	running  sync.WaitGroup // invocations, and requests that are late

	mu       sync.Mutex
	steps    int
	items    map[string]decoded  // by table and key
	entries  map[string]entry    // the entry of each payment after the last step
	owners   map[string]*process // who claimed under the name of an owner
	letters  []kafka.DeadLetter
	handling map[string][]*execution
	trace    []event
	err      error // the first violation
}

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
	About     string // the settings
}

// runHere runs a scenario in virtual time, whatever its order.
func runHere(t *testing.T, s scenario) (res result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		watchdog := time.AfterFunc(patience, func() { w.violatedf("", "records were not settled within %v: %s", patience, w.open()) })
		if w.group {
			w.deliverToGroup(t)
		} else {
			w.deliver()
		}
		watchdog.Stop()
		w.running.Wait()
		if w.err == nil {
			w.checkEnd()
			w.checkExpiry()
		}
		w.stop()
		res = result{Steps: w.steps, Injected: w.faults.injected, Trace: w.trace, About: w.String()}
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
		scenario: s, dice: d, settings: settingsOf(d), faults: &faults{dice: d, only: s.allowed()}, begun: time.Now(),
		items: make(map[string]decoded), entries: make(map[string]entry), owners: make(map[string]*process), handling: make(map[string][]*execution),
	}
	w.stopping, w.stop = context.WithCancel(context.Background())
	if w.faults.strikes(deployment, 1, "the function") {
		w.deploys = time.Duration(d.between(500, 20_000, "deployment")) * time.Millisecond
	}
	if w.faults.strikes(fullQueue, 0.3, "the queue") {
		w.full = time.Duration(d.between(1, 30, "full queue")) * time.Second
	}
	if w.faults.strikes(outage, 0.6, "what the handler needs") {
		w.down[0] = time.Duration(d.between(0, 10_000, "outage")) * time.Millisecond
		w.down[1] = w.down[0] + time.Duration(d.between(1, 60, "length of the outage"))*time.Second
	}
	w.records = produce(d, &w.settings, s.Records)
	var err error
	var tables dynamofake.Config
	if !w.beyondSkew {
		tables.Observe = awstest.TraceWrites(t, keysTable, skew, maxOffset)
	}
	if w.tables, err = dynamofake.New(tables); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{keysTable: dynamostore.AttrKey, accountsTable: "account", bookingsTable: "payment"} {
		if err := w.tables.CreateTable(dynamofake.Table{Name: name, HashKey: key, TTLAttribute: dynamostore.AttrExpiry}); err != nil {
			t.Fatal(err)
		}
	}
	if w.queue, err = sqsfake.New(sqsfake.Config{}); err != nil {
		t.Fatal(err)
	}
	status, out := call(w.queue, "AmazonSQS.CreateQueue", []byte(`{"QueueName":"letters"}`))
	var created struct{ QueueUrl string } //nolint:revive // SQS's name
	if err := json.Unmarshal(out, &created); err != nil || status != http.StatusOK {
		t.Fatalf("creating the queue: %d %s", status, out)
	}
	w.url = created.QueueUrl
	return w
}

// deployed returns the number of the deployment that new processes are of.
func (w *world) deployed() int {
	if w.deploys > 0 && time.Since(w.begun) > w.deploys {
		return 1
	}
	return 0
}

// queueIsFull reports whether the queue accepts no letter now.
func (w *world) queueIsFull() bool { return time.Since(w.begun) < w.full }

// isDown reports whether what the handler needs is down now.
func (w *world) isDown() bool {
	at := time.Since(w.begun)
	return at >= w.down[0] && at < w.down[1]
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
	w.err = fmt.Errorf("step %d, %v: %s", w.steps, time.Since(w.begun), strings.TrimSpace(key+" "+fmt.Sprintf(format, args...)))
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
	w.trace = append(w.trace, event{time.Since(w.begun), rq.name, strings.TrimSpace(note + " " + http.StatusText(status))})
	if rq.service == "AmazonSQS" && status == http.StatusOK {
		w.keepLetter(rq.body)
	}
	for _, key := range rq.keys {
		w.check(p, key)
	}
	return reply{status, body}
}

func (w *world) keepLetter(body []byte) {
	var in struct{ MessageBody string }
	if err := json.Unmarshal(body, &in); err != nil {
		panic(err) // the SDK wrote it
	}
	letter, err := kafka.ParseDeadLetter([]byte(in.MessageBody))
	if err != nil {
		w.violatedLockedf("", "the queue has a message that is no dead letter: %v", err)
		return
	}
	w.letters = append(w.letters, letter)
}

// item reads an item of a table; nil if there is none. An item that has not changed is not decoded again.
func (w *world) item(table, attribute, key string) map[string]attributeValue {
	body := []byte(`{"TableName":"` + table + `","ConsistentRead":true,"Key":{"` + attribute + `":{"S":"` + key + `"}}}`)
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
	M    map[string]attributeValue
}

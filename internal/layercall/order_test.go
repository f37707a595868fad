package layercall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// What a function does at the first record that fails.
const (
	raises    = "raises"
	stops     = "stops and names the rest"          // as AWS asks of functions of FIFO queues
	stopsLane = "stops the lane and names its rest" // as Powertools' processor with skip_group_on_error
	goesOn    = "goes on"
)

// orderRun is a function behind the layer, with an event source that delivers records again until they are settled, and
// new ones beside them.
type orderRun struct {
	*testing.T
	dice    *rand.Rand
	queue   bool // FIFO groups; otherwise partitions or keys of Kafka
	byKey   bool
	then    string
	fn      *lambda.Function
	fails   map[string]int // how often a record fails before it succeeds
	effects map[string]int
	calls   [][]string
	largest int // call
}

// The lanes of each source keep their order behind the layer, whatever the function does with a record that fails, and
// however many records are in a call. With one record in a call no effect is repeated.
func TestOrderBehindTheLayer(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"partitions", "keys", "groups"} {
		for _, records := range []string{"1", "2", "10", "100"} {
			for _, then := range []string{raises, stops, stopsLane, goesOn} {
				t.Run(source+", "+records+", "+then, func(t *testing.T) {
					t.Parallel()
					for range 10 {
						seed := rand.Uint64()
						synctest.Test(t, func(t *testing.T) {
							r := newOrderRun(t, source, records, then, seed)
							defer r.fn.Close()
							r.run()
							r.check(records)
							if t.Failed() {
								t.Logf("seed %d; the calls: %v", seed, r.calls)
							}
						})
						if t.Failed() {
							return
						}
					}
				})
			}
		}
	}
}

func newOrderRun(t *testing.T, source, records, then string, seed uint64) *orderRun {
	t.Helper()
	r := &orderRun{T: t, dice: rand.New(rand.NewPCG(seed, 0)), queue: source == "groups", byKey: source == "keys",
		then: then, fails: map[string]int{}, effects: map[string]int{}}
	env := map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "payments", "IDEMSK_STORE": "memory", "IDEMSK_FAILURES": "partial",
		"IDEMSK_CALL_RECORDS": records, "IDEMSK_OUTAGE_FAILURES": "off", "IDEMSK_MAX_ATTEMPTS": "100",
		"IDEMSK_RETRY_DELAY": []string{"0s", "1s"}[r.dice.IntN(2)],
	}
	if r.byKey {
		env["IDEMSK_ORDER"] = "key"
	}
	vars := app.NewVars(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
	var err error
	if r.fn, err = lambda.New(t.Context(), layercall.Build, vars, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	return r
}

// A record is LANE-NUMBER.
func laneOf(id string) (lane string, n int) {
	lane, number, _ := strings.Cut(id, "-")
	_, _ = fmt.Sscan(number, &n)
	return lane, n
}

// run delivers 8 lanes of 12 records: each time what is left of some lanes, up to some record of each.
func (r *orderRun) run() {
	const lanes, length = 8, 12
	left := map[string][]string{}
	for l := range lanes {
		for n := range length {
			id := fmt.Sprintf("%d-%d", l, n)
			left[fmt.Sprint(l)] = append(left[fmt.Sprint(l)], id)
			if r.dice.IntN(8) == 0 {
				r.fails[id] = 1 + r.dice.IntN(3)
			}
		}
	}
	for delivery := 0; len(left) > 0; delivery++ {
		if delivery == 500 {
			r.Fatalf("%v is left", left)
		}
		var batch []string
		for _, name := range slices.Sorted(maps.Keys(left)) {
			batch = append(batch, left[name][:1+r.dice.IntN(len(left[name]))]...)
		}
		failed := r.deliver(batch)
		for _, id := range batch {
			lane, _ := laneOf(id)
			if !failed[id] {
				left[lane] = slices.DeleteFunc(left[lane], func(other string) bool { return other == id })
			}
			if len(left[lane]) == 0 {
				delete(left, lane)
			}
		}
		<-time.After(time.Second)
	}
}

// deliver invokes the function, and returns what is to be delivered again.
func (r *orderRun) deliver(batch []string) (failed map[string]bool) {
	r.Helper()
	event := r.event(batch)
	limit, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	ctx, err := layercall.NewContext(limit, event, r.function)
	if err != nil {
		r.Fatal(err)
	}
	answer, err := r.fn.Invoke(ctx, event)
	if err != nil {
		r.Fatal(err)
	}
	return r.failedIn(answer, batch)
}

func (r *orderRun) event(batch []string) []byte {
	if !r.queue {
		var messages []mskevent.Message
		for _, id := range batch {
			lane, n := laneOf(id)
			m := message(int64(n), id)
			m.Headers = []mskevent.Header{{Key: "idempotency-key", Value: []byte(id)}}
			if m.Key = []byte(lane); r.byKey {
				m.Offset = int64(n*100) + int64(lane[0])
			} else {
				m.Partition = int32(lane[0] - '0')
			}
			messages = append(messages, m)
		}
		slices.SortStableFunc(messages, func(a, b mskevent.Message) int { return int(a.Offset - b.Offset) })
		return mskevent.Cluster("").Messages(messages...)
	}
	var all []map[string]any
	for _, id := range batch {
		lane, _ := laneOf(id)
		all = append(all, map[string]any{
			"messageId": id, "receiptHandle": "h", "body": id, "eventSource": "aws:sqs",
			"eventSourceARN":    "arn:aws:sqs:us-east-1:123456789012:payments.fifo",
			"attributes":        map[string]string{"MessageGroupId": lane, "SentTimestamp": "1700000000000"},
			"messageAttributes": map[string]any{"idempotency-key": map[string]any{"stringValue": id, "dataType": "String"}},
		})
	}
	text, _ := json.Marshal(map[string]any{"Records": all}) // strings always marshal
	return text
}

// identifiers returns those of the records of an event in an answer, as JSON, and their names.
func (r *orderRun) identifiers(event []byte) (ids []string, names []string) {
	r.Helper()
	add := func(record *kafka.Record, id string) {
		ids = append(ids, id)
		i := slices.IndexFunc(record.Headers, func(h kafka.Header) bool { return h.Key == "idempotency-key" })
		names = append(names, string(record.Headers[i].Value))
	}
	if r.queue {
		e, err := sqs.Decode(event)
		if err != nil {
			r.Fatal(err)
		}
		for i := range e.Records {
			add(&e.Records[i], fmt.Sprintf("%q", sqs.MessageID(&e.Records[i])))
		}
		return ids, names
	}
	e, err := msk.Decode(event)
	if err != nil {
		r.Fatal(err)
	}
	for _, records := range e.Partitions {
		for i := range records {
			add(&records[i], fmt.Sprintf(`{"partition":%q,"offset":%d}`, records[i].PartitionID(), records[i].Offset))
		}
	}
	return ids, names
}

// failedIn returns the records of a batch that an answer names.
func (r *orderRun) failedIn(answer []byte, batch []string) map[string]bool {
	r.Helper()
	ids, names := r.identifiers(r.event(batch))
	failed := map[string]bool{}
	for i, id := range ids {
		failed[names[i]] = strings.Contains(string(answer), `{"itemIdentifier":`+id+`}`)
	}
	return failed
}

// function is the layercall.Runtime.
func (r *orderRun) function(_ context.Context, event []byte) ([]byte, error) {
	ids, names := r.identifiers(event)
	r.calls = append(r.calls, names)
	r.largest = max(r.largest, len(names))
	r.checkOrder(names)
	var failed []string
	stopped, all := map[string]bool{}, false
	for i, name := range names {
		lane, _ := laneOf(name)
		switch {
		case all && r.then == stops, stopped[lane] && r.then == stopsLane:
			failed = append(failed, ids[i])
		case r.fails[name] > 0:
			r.fails[name]--
			if r.then == raises {
				return nil, layercall.FunctionError("", []byte(`{"errorType":"ValueError","errorMessage":"no such account"}`))
			}
			stopped[lane], all, failed = true, true, append(failed, ids[i])
		default:
			r.effects[name]++
		}
	}
	if len(failed) == 0 {
		return nil, nil
	}
	r.dice.Shuffle(len(failed), func(a, b int) { failed[a], failed[b] = failed[b], failed[a] })
	return []byte(`{"batchItemFailures":[{"itemIdentifier":` + strings.Join(failed, `},{"itemIdentifier":`) + `}]}`), nil
}

// checkOrder checks that the earlier records of each lane have succeeded, or are in the call.
func (r *orderRun) checkOrder(names []string) {
	for i, name := range names {
		lane, n := laneOf(name)
		for earlier := range n {
			id := fmt.Sprintf("%s-%d", lane, earlier)
			if r.effects[id] == 0 && !slices.Contains(names[:i], id) {
				r.Errorf("%s is called before %s", name, id)
			}
		}
	}
}

func (r *orderRun) check(records string) {
	for id, n := range r.effects {
		// a call that raises repeats those before the record that failed
		if n > 1 && (records == "1" || r.then != raises) {
			r.Errorf("%s took effect %d times", id, n)
		}
	}
	if r.largest == 1 != (records == "1") {
		r.Errorf("the largest call has %d records", r.largest)
	}
	for id, left := range r.fails {
		if left > 0 || r.effects[id] == 0 {
			r.Errorf("%s did not succeed", id)
		}
	}
}

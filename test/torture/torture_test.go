//go:build rest

package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// The size of a run: a short one by default. make torture sets the variables for the whole one.
const (
	recordsVariable, eventsVariable, seedVariable = "TORTURE_RECORDS", "TORTURE_EVENTS", "TORTURE_SEED"
	shortRecords, shortEvents                     = 2000, 15
)

const (
	topic      = "payments"
	group      = "ledger"
	partitions = 12
	processes  = 3 // at the beginning
	session    = 6 * time.Second
	skew       = 100 * time.Millisecond
)

// Processes on a real Kafka are killed, paused for longer than their session, ended and started at random,
// while the broker is restarted. No record is lost, each payment is booked once, those of each Kafka key are
// booked in the order of their offsets, and no committed offset moves back.
func TestTorture(t *testing.T) {
	seed := uint64(testkit.Number(t, seedVariable, int(rand.Uint32())+1, 1))
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%s=%d", seedVariable, seed)
			records, events := testkit.Number(t, recordsVariable, shortRecords, 1), testkit.Number(t,
				eventsVariable, shortEvents, 1)
			ctx, cancel := context.WithTimeoutCause(t.Context(),
				10*time.Minute+time.Duration(events)*8*time.Second+time.Duration(records)*20*time.Millisecond,
				errors.New("the run took too long"))
			defer cancel()
			kafka := testkit.Run(t, serverproc.StartScript, serverproc.Kafka)
			variables, read := open(t)
			r := &run{T: t, ctx: ctx, kafka: kafka, rand: rand.New(rand.NewPCG(seed, 0)), log: newLog(t)}
			r.connect()
			r.environment = slices.Concat(variables,
				[]string{processVariable + "=1", "PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + t.TempDir(),
					"IDEMSK_KAFKA_BROKERS=" + kafka.Addr(), "IDEMSK_KAFKA_TOPICS=" + topic,
					"IDEMSK_KAFKA_GROUP=" + group, "IDEMSK_KAFKA_SESSION_TIMEOUT=" + session.String(),
					"IDEMSK_COMMIT_INTERVAL=500ms", "IDEMSK_DRAIN_TIMEOUT=6s", "IDEMSK_LEASE=5s",
					"IDEMSK_MAX_CLOCK_SKEW=" + skew.String()})
			r.watch()
			r.torture(records, events)
			r.drain()
			found, err := read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			r.verify(found)
		})
	}
}

// run is one run of the test.
type run struct {
	*testing.T
	ctx         context.Context //nolint:containedctx // the test's
	kafka       *serverproc.Script
	client      *kgo.Client
	admin       *kadm.Client
	environment []string
	rand        *rand.Rand
	log         *logFile
	members     []*member
	produced    int      // records
	deck        []string // what is to happen next
	happened    map[string]int
}

func (r *run) connect() {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Addr()), kgo.DefaultProduceTopic(topic))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(client.Close)
	r.client, r.admin, r.happened = client, kadm.NewClient(client), make(map[string]int)
	if _, err := r.admin.CreateTopic(r.ctx, partitions, 1, nil, topic); err != nil {
		r.Fatal(err)
	}
}

// torture has the events happen, and produces the records meanwhile.
func (r *run) torture(records, events int) {
	r.Cleanup(r.killAll)
	for range processes {
		r.join()
	}
	for i := range events {
		r.produce(records*(i+1)/events - r.produced)
		for happened := false; !happened; {
			r.pauseFor(time.Duration(r.rand.Int64N(int64(400 * time.Millisecond))))
			r.keep()
			happened = r.event()
		}
	}
	r.Logf("%d events: %v", events, r.happened)
}

// pauseFor lets time pass.
func (r *run) pauseFor(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
		r.Fatalf("%v; the processes' log is %s", context.Cause(r.ctx), r.log.path)
	}
}

// produce produces records. A fifth of them are sent again later.
func (r *run) produce(n int) {
	const accounts, copies = 1000, 5
	for range n {
		id := r.produced
		if id > 0 && r.rand.IntN(copies) == 0 {
			id = r.rand.IntN(id)
		}
		account := fmt.Sprintf("account-%d", id%accounts)
		r.client.Produce(r.ctx, &kgo.Record{
			Key: []byte(account), Value: fmt.Appendf(nil, `{"account":%q,"amount":%d}`, account, id+1),
			Headers: []kgo.RecordHeader{{Key: "idempotency-key", Value: fmt.Appendf(nil, "payment-%d", id)}},
		}, func(_ *kgo.Record, err error) {
			if err != nil && r.ctx.Err() == nil {
				r.Errorf("producing: %v", err)
			}
		})
		r.produced++
	}
}

// deck has what happens to the group in shortEvents events. It is shuffled for each round of them.
var deck = []string{
	"killed", "killed", "killed", "killed", "killed", "ended and started again", "ended and started again",
	"ended and started again",
	"ended and started again", "joined", "joined", "left", "left", "paused", "broker restarted",
}

// event has one thing happen to the group. It returns false if that is not possible now. While a process is
// paused nothing else happens, so that others take its records over before it continues.
func (r *run) event() bool {
	const least = 2 // processes
	working := slices.DeleteFunc(slices.Clone(r.members), func(m *member) bool { return !m.works() })
	if len(working) == 0 || slices.ContainsFunc(r.members, (*member).paused) {
		return false
	}
	m, steady := working[r.rand.IntN(len(working))], len(working) > 1
	if len(r.deck) == 0 {
		r.deck = slices.Clone(deck)
		r.rand.Shuffle(len(deck), func(i, j int) { r.deck[i], r.deck[j] = r.deck[j], r.deck[i] })
	}
	next := slices.IndexFunc(r.deck, func(what string) bool {
		return (what != "left" || len(r.members) > least) && (steady || what != "left" && what != "paused")
	})
	if next < 0 {
		return false
	}
	what := r.deck[next]
	r.deck = slices.Delete(r.deck, next, next+1)
	r.log.line(m.number, []byte(what))
	switch what {
	case "killed":
		m.end(killed)
	case "ended and started again":
		m.end(restarts)
	case "left":
		m.end(leaves)
	case "joined":
		r.join()
	case "paused":
		m.pause(session + 3*time.Second + time.Duration(r.rand.Int64N(int64(3*time.Second))))
	case "broker restarted":
		if err := r.kafka.Restart(); err != nil {
			r.Fatal(err)
		}
	}
	r.happened[what]++
	return true
}

// drain waits until everything is committed, and ends the processes.
func (r *run) drain() {
	if err := r.client.Flush(r.ctx); err != nil {
		r.Fatal(err)
	}
	for r.lag() > 0 {
		r.pauseFor(200 * time.Millisecond)
		r.keep()
	}
	for _, m := range r.members {
		m.resume()
		m.end(leaves)
	}
	for len(r.members) > 0 {
		r.pauseFor(50 * time.Millisecond)
		r.keep()
	}
}

// watch checks, until the test ends, that committed offsets do not move back.
func (r *run) watch() {
	const interval = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	r.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		last := make(map[int32]int64)
		for ctx.Err() == nil {
			commits, _ := r.admin.FetchOffsets(ctx, group) // fails while the broker is away
			commits.Each(func(commit kadm.OffsetResponse) {
				if commit.Err == nil && commit.At < last[commit.Partition] {
					r.Errorf("the committed offset of partition %d moved back from %d to %d; see %s",
						commit.Partition, last[commit.Partition], commit.At, r.log.path)
				}
				last[commit.Partition] = commit.At
			})
			select {
			case <-time.After(interval):
			case <-ctx.Done():
			}
		}
	}()
}

// lag returns the number of offsets that are not committed. While the broker does not answer it is 1.
func (r *run) lag() (lag int64) {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	ends, err := r.admin.ListEndOffsets(ctx, topic)
	if err != nil || ends.Error() != nil {
		return 1
	}
	commits, err := r.admin.FetchOffsets(ctx, group)
	if err != nil {
		return 1
	}
	ends.Each(func(end kadm.ListedOffset) {
		commit, _ := commits.Lookup(topic, end.Partition)
		lag += end.Offset - max(0, commit.At)
	})
	return lag
}

// logFile has what the processes print. It stays if the test fails.
type logFile struct {
	t    *testing.T
	path string
	file *os.File
}

func newLog(t *testing.T) *logFile {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("torture-%d-%d.log", os.Getpid(), time.Now().UnixNano()))
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &logFile{t: t, path: path, file: file}
	t.Cleanup(func() {
		_ = file.Close()
		if !t.Failed() {
			_ = os.Remove(path)
		}
	})
	return l
}

func (l *logFile) line(number int, line []byte) {
	if bytes.Contains(line, []byte(`"level":"INFO","msg":"record"`)) {
		return
	}
	_, _ = fmt.Fprintf(l.file, "%d %s\n", number, line)
}

package local_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/trace/keytrace"
)

// consumer builds the example as a consumer process, once, beside the function.
var consumer = sync.OnceValues(func() (program string, err error) { //nolint:gochecknoglobals // one for all tests
	program = filepath.Join(filepath.Dir(handler), "ledger-consumer")
	return program, handlertest.Build(program, handlertest.Package+"/process")
})

// processes are options that run the example ledger as so many consumer processes.
func processes(t *testing.T, n int) (local.Options, *transcript) {
	t.Helper()
	program, err := consumer()
	if err != nil {
		t.Fatal(err)
	}
	o, s := options(t, "")
	o.Host, o.Processes, o.Function, o.Example = local.HostProcess, n, "'"+program+"'", true
	o.Partitions, o.Env = 6, []string{"GOCOVERDIR=" + t.TempDir()}
	return o, s
}

// Processes of a group are killed, and paused until others have their partitions. The ledger is exact, and
// without idemsk it is not.
func TestConsumerProcessesBookOnce(t *testing.T) {
	t.Parallel()
	o, s := processes(t, 3)
	o.Produce, o.Copies, o.Prove, o.Traces = 5000, 0.3, true, cmp.Or(os.Getenv(keytrace.DirVariable),
		t.TempDir())
	o.Faults = local.Faults{Kill: 0.2, Concurrent: 0.2}
	o.Show = func(v *local.View) func() {
		return func() {
			s.say(v.Line())
			s.say(
				strings.Join(v.Lines(term.Room{Columns: 79, Rows: 23}), "\n"))
		}
	}
	report := mustRun(t, o)
	if !report.Verified.OK() || report.Done != 5000 || report.Lag() != 0 || len(report.Kills) == 0 ||
		report.Concurrent == 0 ||
		report.Started <= 3 || report.Failed != 0 {
		t.Errorf("%+v\n%s", report, report.Text())
	}
	if report.Outcomes.Executed == 0 || report.Outcomes.DeadLettered == 0 ||
		report.Delivered <= report.Outcomes.Executed {
		t.Errorf("the metrics of the processes are not counted: %+v", report.Outcomes)
	}
	o.Unprotected = true
	report.Without = mustRun(t, o)
	if len(report.Without.Verified.Off) == 0 {
		t.Error("the ledger is exact without idemsk: the run delivers nothing twice")
	}
	for _, want := range []string{"processes killed in the middle", "paused until others had its partitions",
		"and nothing is lost; without idemsk"} {
		if text := report.Text(); !strings.Contains(squeezed(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, want := range []string{"group group, 3 processes, 127.0.0.1:", "Faults by seed 7.",
		`"msg":"partitions assigned"`, " processes started, ",
		"150 traces of keys in " + o.Traces} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("not said: %q\n%s", want, s)
		}
	}
}

// A run that is interrupted drains the processes and commits what is done. The next one goes on there.
func TestConsumerProcessesAreDrained(t *testing.T) {
	t.Parallel()
	o, s := processes(t, 1)
	o.Brokers, o.Store, o.UntilDrained = newCluster(t).ListenAddrs(), local.StoreNone, false
	o.Produce, o.Env = 2000, append(o.Env, "IDEMSK_STORE=memory", "IDEMSK_SIMULATE=on",
		"IDEMSK_MAX_ATTEMPTS=3", "IDEMSK_CONCURRENCY=2")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	o.Show = func(v *local.View) func() {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for ctx.Err() == nil && (strings.Contains(v.Line(), "lag 0") ||
				strings.HasPrefix(v.Line(), "0 records done")) {
				<-time.After(time.Millisecond)
			}
			stop()
		}()
		return func() { <-watched }
	}
	first, err := local.Run(ctx, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, s)
	}
	if text := first.Text(); !strings.HasSuffix(text, " records done\n") {
		t.Errorf("without a store the dead letters are not known:\n%s", text)
	}
	if first.Done == 0 || first.Failed != 0 || first.Started != 1 {
		t.Errorf("%+v", first)
	}
	committed(t, o.Brokers, int64(first.Done))
}

// committed compares the committed offsets of the group.
func committed(t *testing.T, brokers []string, want int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("group"),
		kgo.ConsumeTopics("payments"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fetches := client.PollRecords(t.Context(), 1)
	if r := fetches.Records(); len(r) != 1 || r[0].Offset != want {
		t.Errorf("the group goes on at %v, want offset %d", r, want)
	}
}

func TestConsumerProcessesThatCannotRun(t *testing.T) {
	t.Parallel()
	dies := func(o *local.Options) { o.Env, o.Produce = append(o.Env, modeVariable+"=dies"), 10 }
	for says, spoil := range map[string]func(o *local.Options){
		"the consumer ended 3 times by itself before it committed anything, the last time with exit status 3: no configuration": dies,
		"can't be started (--function): fork/exec ./nowhere":                                                                    func(o *local.Options) { o.Function = "./nowhere" },
		"no Kafka broker answers at 127.0.0.1:1":                                                                                func(o *local.Options) { o.Brokers = []string{"127.0.0.1:1"} },
		"UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition.: create it (idemsk topic create)": func(o *local.Options) {
			o.Brokers, o.ESM.Topics = newCluster(t).ListenAddrs(), []string{"refunds"}
		},
	} {
		o, _ := options(t, "")
		o.Host, o.Processes, o.Env = local.HostProcess, 1, []string{"GOCOVERDIR=" + t.TempDir()}
		spoil(&o)
		if report, err := run(t, o); report != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an error that says %q", err, says)
		}
	}
}

// Processes beside the members of another program would get a share of the partitions only.
func TestGroupInUse(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "")
	o.Host, o.Processes, o.Brokers = local.HostProcess, 1, newCluster(t, "a").ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...), kgo.ConsumerGroup("group"),
		kgo.ConsumeTopics("payments"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.PollRecords(t.Context(), 1)
	if _, err := run(t, o); err == nil ||
		!strings.Contains(err.Error(), "the consumer group group has 1 active members, the first from ") {
		t.Errorf("%v", err)
	}
}

// A cluster without any group has no coordinator at first.
func TestConsumerProcessesWaitForTheCoordinator(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o, _ := processes(t, 1)
	o.Brokers, o.Produce = c.ListenAddrs(), 10
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 5})
	report := mustRun(t, o)
	if report.Done != 10 {
		t.Errorf("%d records are done", report.Done)
	}
}

// squeezed is a text with all blanks and line ends alike.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

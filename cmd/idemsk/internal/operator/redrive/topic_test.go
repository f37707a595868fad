package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/kafka"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

const (
	deadLetters = "dead-letters"
	redriven    = "idemsk-redrive-dead-letters" // the group
)

// newLetterCluster is a cluster with a topic of dead letters that has one partition.
func newLetterCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	return newCluster(t, append(opts, kfake.SeedTopics(1, deadLetters))...)
}

// sendLetters sends letters as a consumer does.
func sendLetters(t *testing.T, c *kfake.Cluster, letters ...kafka.DeadLetter) {
	t.Helper()
	topic, err := topicletters.New(topicletters.Config{Topic: deadLetters,
		Options: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}})
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	for _, l := range letters {
		if err := topic.Send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

// lettersFrom returns n letters of records at the offsets from 0 on.
func lettersFrom(n int) (all []kafka.DeadLetter) {
	for offset := range n {
		all = append(all, letter(int64(offset)))
	}
	return all
}

func openTopic(t *testing.T, k *redrive.Kafka) redrive.Source {
	t.Helper()
	source, removed, err := k.Letters(t.Context(), deadLetters)
	if err != nil || removed != 0 {
		t.Fatalf("%v, %d letters are removed", err, removed)
	}
	return source
}

// redriveTopic redrives the letters in the topic and returns the outcomes and the offsets of the records that
// were sent.
func redriveTopic(t *testing.T, c *kfake.Cluster, o redrive.Options, refuse ...int64) (found string,
	sent []int64) {
	t.Helper()
	o.Source = openTopic(t, dial(t, c))
	results, sent := redriveFrom(t, o, refuse...)
	return strings.ReplaceAll(outcomes(results), deadLetters+"-0@", ""), sent
}

// redriveFrom redrives the letters of a source that is open, to a list.
func redriveFrom(t *testing.T, o redrive.Options, refuse ...int64) (results []redrive.Result, sent []int64) {
	t.Helper()
	dst := &listDestination{refuse: make(map[int64]bool)}
	for _, offset := range refuse {
		dst.refuse[offset] = true
	}
	o.Destination = dst
	results, _ = runAll(t, o)
	return results, dst.sent
}

// committed returns the offset that the group has committed, -1 if none.
func committed(t *testing.T, c *kfake.Cluster) (offset int64, metadata string) {
	t.Helper()
	found, err := kadm.NewClient(newClient(t, c)).FetchOffsets(t.Context(), redriven)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := found.Lookup(deadLetters, 0)
	if !ok {
		return -1, ""
	}
	return o.At, o.Metadata
}

// wantCommitted wants the group to have committed that all before the offset is done, and nothing else.
func wantCommitted(t *testing.T, c *kfake.Cluster, want int64) {
	t.Helper()
	if offset, metadata := committed(t, c); offset != want || metadata != "" {
		t.Errorf("the group has committed %d %q; want %d", offset, metadata, want)
	}
}

// What is not redriven stays, between letters that are.
func TestTopicKeepsWhatIsNotRedriven(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	sendLetters(t, c, lettersFrom(7)...)
	for _, run := range []struct {
		options redrive.Options
		refuse  []int64
		want    string
		sent    []int64
	}{
		{redrive.Options{DryRun: true}, nil,
			"0 would redrive, 1 would redrive, 2 would redrive, 3 would redrive, 4 would redrive, 5 would redrive, 6 would redrive", nil},
		{redrive.Options{Limit: 5}, []int64{1, 3},
			"0 redriven, 1 not redriven, 2 redriven, 3 not redriven, 4 redriven", []int64{0, 2, 4}},
		{redrive.Options{}, []int64{3}, "1 redriven, 3 not redriven, 5 redriven, 6 redriven",
			[]int64{1, 5, 6}},
		{redrive.Options{}, nil, "3 redriven", []int64{3}},
		{redrive.Options{}, nil, "", nil},
	} {
		if found, sent := redriveTopic(t, c, run.options, run.refuse...); found != run.want ||
			!slices.Equal(sent, run.sent) {
			t.Errorf("%s, sent %v; want %s", found, sent, run.want)
		}
	}
	wantCommitted(t, c, 7)
}

// Functions and clusters share a topic. Records that are no letters are listed and stay.
func TestTopicIsShared(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	for n := range int64(4) {
		l := letter(n)
		l.Function = []string{"pay", "audit"}[n%2]
		sendLetters(t, c, l)
	}
	produce(t, c, &kgo.Record{Topic: deadLetters, Value: []byte("hello")})
	for function, want := range map[string]string{
		"pay":   "0 redriven, 2 redriven, 4 not a dead letter",
		"audit": "1 redriven, 3 redriven, 4 not a dead letter",
	} {
		if found, _ := redriveTopic(t, c, redrive.Options{Function: function}); found != want {
			t.Errorf("%s: %s; want %s", function, found, want)
		}
	}
	wantCommitted(t, c, 4)
}

// A run ends where the topic ended when it began: a record that fails again is not redriven in the same run.
func TestRunEndsWhereTheTopicEnded(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	sendLetters(t, c, lettersFrom(2)...)
	source := openTopic(t, dial(t, c))
	sendLetters(t, c, letter(9))
	if _, sent := redriveFrom(t, redrive.Options{Source: source}); !slices.Equal(sent, []int64{0, 1}) {
		t.Errorf("sent %v", sent)
	}
	wantCommitted(t, c, 2)
}

// Markers of transactions have offsets, and are no letters.
func TestTopicWithTransactions(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	for n := range 3 {
		sendLetters(t, c, letter(int64(n)))
		transaction(t, c)
	}
	want := "0 redriven, 1 not a dead letter, 3 redriven, 4 not a dead letter, 6 redriven, 7 not a dead letter"
	if found, _ := redriveTopic(t, c, redrive.Options{}); found != want {
		t.Errorf("%s; want %s", found, want)
	}
	if offset, _ := committed(t, c); offset != 1 {
		t.Errorf("the group has committed %d; want 1", offset)
	}
}

// transaction produces a record and a marker.
func transaction(t *testing.T, c *kfake.Cluster) {
	t.Helper()
	client := newClient(t, c, kgo.TransactionalID("t"))
	err := errors.Join(client.BeginTransaction(),
		client.ProduceSync(t.Context(), &kgo.Record{Topic: deadLetters, Value: []byte("v")}).FirstErr(),
		client.EndTransaction(t.Context(), kgo.TryCommit))
	if err != nil {
		t.Fatal(err)
	}
}

// Letters that retention removes before they are redriven are counted, if the group knows that they were not.
func TestRetentionRemovesLetters(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	sendLetters(t, c, lettersFrom(6)...)
	k := dial(t, c)
	redriveTopic(t, c, redrive.Options{Limit: 3}, 0) // 1 and 2 are done
	if err := c.DeleteRecords(deadLetters, 0, 4); err != nil {
		t.Fatal(err)
	}
	source, removed, err := k.Letters(t.Context(), deadLetters)
	if err != nil || removed != 2 {
		t.Fatalf("%v, %d letters are removed; want 0 and 3", err, removed)
	}
	if _, sent := redriveFrom(t, redrive.Options{Source: source}); !slices.Equal(sent, []int64{4, 5}) {
		t.Errorf("sent %v", sent)
	}
	wantCommitted(t, c, 6)
}

// Two runs at once: the later one stops before it sends what the other one has sent, and takes no mark away.
func TestTwoRunsOfATopic(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	sendLetters(t, c, lettersFrom(3)...)
	later := openTopic(t, dial(t, c))
	if found, _ := redriveTopic(t, c, redrive.Options{Limit: 1}); found != "0 redriven" {
		t.Fatal(found)
	}
	results, sent := redriveFrom(t, redrive.Options{Source: later})
	if len(sent) > 0 || len(results) != 3 || !strings.Contains(results[0].Error, "another run") {
		t.Errorf("sent %v: %+v", sent, results)
	}
	wantCommitted(t, c, 1)
}

// More letters than the metadata of a commit can tell apart are not redriven, instead of being redriven
// twice.
func TestTooManySeparateLetters(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	const letters = 3200
	var all []*kgo.Record
	for n := range letters {
		header := func(name, value string) kgo.RecordHeader {
			return kgo.RecordHeader{Key: name, Value: []byte(value)}
		}
		all = append(all, &kgo.Record{Topic: deadLetters, Headers: []kgo.RecordHeader{
			header("idemsk-dead-letter", "1"), header("idemsk-source-topic", "payments"),
			header("idemsk-source-offset", fmt.Sprint(n)),
			header("idemsk-error-code", "permanent"),
			header("idemsk-function", []string{"pay", "audit"}[n%2]),
		}})
	}
	produce(t, c, all...)
	results, sent := redriveFrom(t, redrive.Options{Source: openTopic(t, dial(t, c)), Function: "audit"})
	last := results[len(results)-1]
	if last.Outcome != redrive.NotRedriven ||
		!strings.Contains(last.Error, "from dead-letters-0@0 on, without --of-function") || len(sent) < 1400 {
		t.Fatalf("%d are sent, the last: %+v", len(sent), last)
	}
	_, rest := redriveTopic(t, c, redrive.Options{})
	if len(rest)+len(sent) != letters {
		t.Errorf("the next run sends %d, after %d; want %d together", len(rest), len(sent), letters)
	}
	wantCommitted(t, c, letters)
}

func TestTopicErrorsNameTheRemedy(t *testing.T) {
	t.Parallel()
	commit := func(t *testing.T, c *kfake.Cluster, offset int64, metadata string) {
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: deadLetters, At: offset, LeaderEpoch: -1, Metadata: metadata})
		if err := kadm.NewClient(newClient(t, c)).CommitAllOffsets(t.Context(), redriven,
			offsets); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, c *kfake.Cluster)
		says    string
	}{
		"no such topic": {func(t *testing.T, c *kfake.Cluster) {
			if err := c.DeleteTopic(deadLetters); err != nil {
				t.Fatal(err)
			}
		}, "--dead-letter-topic"},
		"a topic that can't be read": {func(_ *testing.T, c *kfake.Cluster) {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.TopicAuthorizationFailed,
				Count: -1})
		}, "may not read the topic"},
		"a group that can't be read": {func(_ *testing.T, c *kfake.Cluster) {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed,
				Count: -1})
		}, "Describe and Read"},
		"a topic that was recreated": {func(t *testing.T, c *kfake.Cluster) { commit(t, c, 9, "") },
			"delete the group"},
		"a group of another tool": {func(t *testing.T, c *kfake.Cluster) { commit(t, c, 0, "mine") },
			"another tool"},
	} {
		c := newLetterCluster(t)
		sendLetters(t, c, letter(1))
		tc.prepare(t, c)
		_, _, err := dial(t, c).Letters(t.Context(), deadLetters)
		if err == nil || !strings.Contains(err.Error(), tc.says) ||
			!strings.Contains(err.Error(), deadLetters) {
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
}

// A cluster without any group has no coordinator at first.
func TestTopicWaitsForTheCoordinator(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	sendLetters(t, c, letter(0))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 5})
	if found, _ := redriveTopic(t, c, redrive.Options{}); found != "0 redriven" {
		t.Error(found)
	}
	wantCommitted(t, c, 1)
}

// A letter whose commit fails is redriven, and stays: the next run redrives it again.
func TestCommitThatFails(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	sendLetters(t, c, letter(0))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed})
	k := dial(t, c)
	results, _ := redriveFrom(t, redrive.Options{Source: openTopic(t, k)})
	if r := results[0]; r.Outcome != redrive.Redriven ||
		!strings.Contains(r.Error, "redriving it again is safe") ||
		!strings.Contains(r.Error, "Describe and Read") {
		t.Errorf("%+v", r)
	}
	if found, _ := redriveTopic(t, c, redrive.Options{}); found != "0 redriven" {
		t.Errorf("the next run: %s", found)
	}
}

// A commit whose reply is lost is not taken for that of another run.
func TestCommitWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	k, c, proxy := dialBehindProxy(t)
	if err := c.CreateTopic(deadLetters, 1, nil); err != nil {
		t.Fatal(err)
	}
	sendLetters(t, c, lettersFrom(2)...)
	source := openTopic(t, k)
	first, err := source.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := source.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Begin(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	proxy.New(faultproxy.Silent)
	proxy.NextReply(faultproxy.Silent)
	if err := within(t, "to commit", func(
		ctx context.Context) error {
		return source.Done(ctx, first)
	}); err == nil {
		t.Error("nothing answered, and there is no error")
	}
	proxy.New(faultproxy.None)
	wantCommitted(t, c, 1)
	_, err = source.Begin(t.Context(), second)
	if err == nil {
		err = source.Done(t.Context(), second)
	}
	if err != nil {
		t.Errorf("the next letter: %v", err)
	}
	wantCommitted(t, c, 2)
	if err := source.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

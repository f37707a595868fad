//go:build rest

package dynamotrace_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/trace/dynamotrace"
	"github.com/idemsk/idemsk/internal/trace/keytrace"
)

const (
	table = "keys"
	day   = int64(24 * time.Hour / time.Millisecond)
	lease = int64(10_000)
	skew  = 500 * time.Millisecond
)

// item is a state of a key. Times are in milliseconds since the trace began.
type item struct {
	at            int64 // of the write
	status, owner string
	token         int64
	attempts      int
	lease, retry  int64
	print         string // the fingerprint
	deleted       bool
}

// claimed is a key that was claimed at 1 s.
func claimed() item {
	return item{at: 1000, status: "STARTED", owner: "a", token: 1000, attempts: 1, lease: 1000 + lease,
		print: "x"}
}

// then returns what a key is after a change.
func then(it item, change func(it *item)) item {
	change(&it)
	return it
}

// The traces of changes that the rules have agree with the model, and those of changes that they do not have
// contradict it.
func TestTracesOfWrites(t *testing.T) {
	first := claimed()
	over := first.lease + skew.Milliseconds()
	stolen := then(first, func(it *item) {
		it.at, it.owner, it.token, it.attempts, it.lease = over+20, "b", 1001, 2, over+20+lease
	})
	completed := then(first, func(it *item) { it.at, it.status = 2000, "COMPLETED" })
	failed := then(first, func(it *item) { it.at, it.status = 2000, "FAILED" })
	released := then(first, func(it *item) { it.at, it.retry = 2000, 3000 })
	again := then(released, func(it *item) {
		it.at, it.owner, it.token, it.attempts, it.retry, it.lease = 3500, "b", 1001, 2, 0, 3500+lease
	})
	cases := []struct {
		name   string
		wrong  bool
		writes []item
	}{
		{"complete", false, []item{first, completed}},
		{"extend and fail", false, []item{first,
			then(first, func(it *item) { it.at, it.lease = 1500, 20_000 }), failed}},
		{"steal and complete", false, []item{first, stolen,
			then(stolen, func(it *item) { it.at, it.status = over+30, "COMPLETED" })}},
		{"release and claim", false, []item{first, released, again}},
		{"an attempt is given back", false,
			[]item{first, then(released, func(it *item) { it.attempts = 0 })}},
		{"completion without a claim", true, []item{completed}},
		{"failure without a claim", true, []item{failed}},
		{"redrive", false, []item{first, failed,
			then(first, func(it *item) {
				it.at, it.owner, it.token, it.lease = 5000, "b", 1001,
					5000+lease
			})}},
		{"delete and claim", false, []item{first, completed, {at: 3000, deleted: true},
			then(first, func(it *item) { it.at, it.token, it.lease = 4000, 4000, 4000+lease })}},
		{"a live lease is taken", true, []item{first, then(stolen, func(it *item) { it.at = over - 100 })}},
		{"a live lease is completed by another owner", true,
			[]item{first, then(completed, func(it *item) { it.owner, it.token = "b", 2000 })}},
		{"a delay is not waited for", true,
			[]item{first, released, then(again, func(it *item) { it.at = 2900 })}},
		{"a steal does not count", true, []item{first, then(stolen, func(it *item) { it.attempts = 1 })}},
		{"a steal keeps the token", true, []item{first, then(stolen, func(it *item) { it.token = 1000 })}},
		{"a steal has a smaller token", true, []item{first, then(stolen, func(it *item) { it.token = 900 })}},
		{"a steal has another fingerprint", true,
			[]item{first, then(stolen, func(it *item) { it.print = "y" })}},
		{"COMPLETED is claimed", true, []item{first, completed, stolen}},
		{"COMPLETED becomes FAILED", true,
			[]item{first, completed, then(failed, func(it *item) { it.at = 3000 })}},
		{"FAILED is completed", true, []item{first, failed,
			then(completed, func(it *item) { it.at = 3000 })}},
		{"a redrive keeps the attempts", true,
			[]item{first, failed, {at: 5000, status: "STARTED", owner: "b", token: 1001, attempts: 2,
				lease: 5000 + lease, print: "x"}}},
		{"a redrive keeps the token", true,
			[]item{first, failed, then(first,
				func(it *item) { it.at, it.owner, it.lease = 5000, "b", 5000+lease })}},
		{"a former owner completes", true,
			[]item{first, stolen, then(completed, func(it *item) { it.at = over + 30 })}},
		{"a former owner extends", true,
			[]item{first, stolen, then(first, func(it *item) { it.at, it.lease = over+30, 2*over })}},
		{"a completion after a release", true,
			[]item{first, released, then(completed, func(it *item) { it.at = 2500 })}},
		{"an extension undoes a release", true,
			[]item{first, released, then(first, func(it *item) { it.at = 2500 })}},
		{"an extension makes the lease shorter", true,
			[]item{first, then(first, func(it *item) { it.at, it.lease = 1500, 2000 })}},
		{"an extension counts", true, []item{first,
			then(first, func(it *item) { it.at, it.lease, it.attempts = 1500, 20_000, 2 })}},
		{"a first claim has two attempts", true, []item{then(first, func(it *item) { it.attempts = 2 })}},
	}
	dir := t.TempDir()
	for i, tc := range cases {
		write(t, filepath.Join(dir, strconv.Itoa(i)), tc.writes)
	}
	out, err := exec.CommandContext(t.Context(), "../../../scripts/trace.sh", dir).Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.HasSuffix(strings.TrimSpace(string(exit.Stderr)), "0 not decided") {
		t.Fatalf("%v\n%s%s", err, out, stderr(exit))
	}
	for i, tc := range cases {
		if wrong := strings.Contains(string(out),
			filepath.Join(dir, strconv.Itoa(i))+"/"); wrong != tc.wrong {
			t.Errorf("%s: the trace contradicts the model: %t; want %t", tc.name, wrong, tc.wrong)
		}
	}
}

// write makes the writes in a table, and a trace of them in a new folder.
func write(t *testing.T, dir string, writes []item) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	began := time.UnixMilli(1_700_000_000_000)
	now := began
	traced := dynamotrace.NewWrites(table, func() time.Time { return now })
	db := dynamodb.NewFromConfig(awstest.Config(t,
		testkit.Serve(t, dynamofake.New, dynamofake.Config{Observe: traced.Observe}).URL()))
	awstest.CreateTable(t, db, table, "key")
	key := map[string]types.AttributeValue{"key": text("k")}
	for _, it := range writes {
		now = began.Add(time.Duration(it.at) * time.Millisecond)
		var err error
		if it.deleted {
			_, err = db.DeleteItem(t.Context(),
				&dynamodb.DeleteItemInput{TableName: aws.String(table), Key: key})
		} else {
			_, err = db.PutItem(t.Context(),
				&dynamodb.PutItemInput{TableName: aws.String(table), Item: it.attributes(began.UnixMilli())})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n, err := traced.Save(keytrace.Config{Dir: dir, Name: t.Name(), Skew: skew, Tolerance: dynamotrace.OneMachine})
	if n != 1 || err != nil {
		t.Fatalf("%s: %d traces: %v", filepath.Base(dir), n, err)
	}
}

func (it *item) attributes(began int64) map[string]types.AttributeValue {
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	all := map[string]types.AttributeValue{
		"key": text("k"), "status": text(it.status), "owner": text(it.owner),
		"version": number(began + it.token), "attempts": number(int64(it.attempts)),
		"leaseUntil":         number(began + it.lease),
		"requestFingerprint": &types.AttributeValueMemberB{Value: []byte(it.print)},
		"expiryTimestamp":    number((began + max(it.at, it.lease) + day) / 1000),
	}
	if it.retry != 0 {
		all["retryAt"] = number(began + it.retry)
	}
	return all
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func stderr(exit *exec.ExitError) []byte {
	if exit == nil {
		return nil
	}
	return exit.Stderr
}

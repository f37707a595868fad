package local_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(o *local.Options){
		"give a function":                func(o *local.Options) { o.Function = "" },
		"not both":                       func(o *local.Options) { o.Invoke = "http://x" },
		`--store is "x"`:                 func(o *local.Options) { o.Store = "x" },
		"--partitions is 0":              func(o *local.Options) { o.Partitions = 0 },
		"--produce is -1":                func(o *local.Options) { o.Produce = -1 },
		"--duplicate is 2":               func(o *local.Options) { o.Faults.Duplicate = 2 },
		"--kill is -1":                   func(o *local.Options) { o.Faults.Kill = -1 },
		"--concurrent-duplicates is 1.5": func(o *local.Options) { o.Faults.Concurrent = 1.5 },
		"--init-timeout is -1s":          func(o *local.Options) { o.InitTimeout = -time.Second },
		"--init-timeout needs": func(o *local.Options) {
			o.Function, o.Env, o.Invoke, o.InitTimeout = "", nil, "http://x", time.Second
		},
		"--broker-port is 65536": func(o *local.Options) { o.Ports.Broker = 65536 },
		"--broker-port and --brokers": func(o *local.Options) {
			o.Ports.Broker, o.Brokers = 1, []string{"127.0.0.1:1"}
		},
		"--dynamodb-port needs": func(o *local.Options) {
			o.Ports.DynamoDB, o.Store = 1, "http://127.0.0.1:1"
		},
		"--sqs needs --function": func(o *local.Options) {
			o.Queue, o.Visibility, o.Store = "q", time.Second, local.StoreNone
		},
		"--visibility-timeout is 1.5s": func(o *local.Options) {
			o.Queue, o.Visibility = "q", 1500*time.Millisecond
		},
		"which is the queue of the dead letters": func(o *local.Options) {
			o.Queue, o.Visibility = "idemsk-dead-letters", time.Second
		},
		"--visibility-timeout is 0s": func(o *local.Options) { o.Queue = "q" },
		"--sqs excludes": func(o *local.Options) {
			o.Queue, o.Visibility, o.UI.Addr = "q", time.Second, "127.0.0.1:0"
		},
		"--sqs-port needs": func(o *local.Options) {
			o.Ports.SQS, o.Store = 1, local.StoreNone
		},
		"--traces needs --store fake": func(o *local.Options) {
			o.Traces, o.Store = ".", "http://127.0.0.1:1"
		},
		"--traces: nowhere is not a": func(o *local.Options) { o.Traces = "nowhere" },
		"IDEMSK_OUTBOX=on needs": func(
			o *local.Options) {
			o.Env = append(o.Env, "IDEMSK_OUTBOX=on")
		},
		"--slow is -1s": func(o *local.Options) { o.Faults.Slow = -time.Second },
		"--kill needs --function": func(o *local.Options) {
			o.Function, o.Invoke, o.Faults.Kill = "", "http://x", 0.1
		},
		"--env needs --function":          func(o *local.Options) { o.Function, o.Invoke = "", "http://x" },
		`--env "x" is neither NAME=VALUE`: func(o *local.Options) { o.Env = []string{"x"} },
		"can't be split into words":       func(o *local.Options) { o.Function = "'x" },
		"--batch-size is 0":               func(o *local.Options) { o.ESM.BatchSize = 0 },
		"--producer-duplicates is 2":      func(o *local.Options) { o.Copies = 2 },
		"--prove needs --until-drained":   func(o *local.Options) { o.Prove, o.UntilDrained = true, false },
		"--prove needs a --store": func(o *local.Options) {
			o.Prove, o.Store = true, local.StoreNone
		},
		"--prove allows no option": func(o *local.Options) {
			o.Prove, o.ESM.OnFailure = true, "s3://letters"
		},
		`--kill-at is "noon"`: func(o *local.Options) { o.Faults.KillAt = "noon" },
		"--kill-at before-effect needs": func(
			o *local.Options) {
			o.Faults.KillAt = local.KillBeforeEffect
		},
		"--kill-at after-effect needs": func(o *local.Options) {
			o.Faults, o.Store = local.Faults{Kill: 1, KillAt: local.KillAfterEffect}, "http://127.0.0.1:1"
		},
		"--events excludes --brokers": func(o *local.Options) {
			o.ESM.Events, o.Produce = []*mskevent.Event{{}}, 1
		},
		"--events excludes --filter-crit": func(o *local.Options) {
			o.ESM.Events, o.ESM.FilterCriteria = []*mskevent.Event{{}}, "{}"
		},
		"--events has none": func(o *local.Options) {
			o.ESM.Events, o.ESM.OnFailure = []*mskevent.Event{{}}, "kafka://letters"
		},
		"--prove and --concurrent-duplicates don't go": func(o *local.Options) {
			o.Host, o.Processes, o.Prove, o.Store, o.Faults.Concurrent = local.HostProcess, 2, true,
				"redis://127.0.0.1:1", 0.1
		},
		"--prove and --kill don't go": func(o *local.Options) {
			o.Prove, o.Store, o.Faults.Kill = true, "redis://127.0.0.1:1", 0.1
		},
		"--prove needs --function": func(o *local.Options) {
			o.Prove, o.Function, o.Env, o.Invoke = true, "", nil, "http://x"
		},
		"IDEMSK_MAX_ATTEMPTS is": func(
			o *local.Options) {
			o.Prove = true
			o.Env = append(o.Env, "IDEMSK_MAX_ATTEMPTS=0")
		},
		`--on-failure is "arn:aws:sns:x"`: func(o *local.Options) { o.ESM.OnFailure = "arn:aws:sns:x" },
		`--host is "x"`:                   func(o *local.Options) { o.Host = "x" },
		"--processes is 0":                func(o *local.Options) { o.Host = local.HostProcess },
		"no --invoke, no --events": func(o *local.Options) {
			o.Host, o.Function, o.Invoke = local.HostProcess, "", "http://x"
		},
		"--kill-at need --host lambda": func(o *local.Options) {
			o.Host, o.Processes, o.Faults.Duplicate = local.HostProcess, 1, 0.1
		},
		"--concurrent-duplicates needs": func(o *local.Options) {
			o.Host, o.Processes, o.Faults.Concurrent = local.HostProcess, 1, 0.1
		},
		"--prove and --kill need IDEMSK": func(o *local.Options) {
			o.Host, o.Processes, o.Prove, o.Faults.Kill, o.Env = local.HostProcess, 1, true, 0.1,
				append(o.Env, "IDEMSK_LEDGER=plain")
		},
		`--invoke is "x"`: func(o *local.Options) { o.Function, o.Env, o.Invoke = "", nil, "x" },
		"--invoke has the path /x": func(o *local.Options) {
			o.Function, o.Env, o.Invoke = "", nil, "http://x/x"
		},
	} {
		o, _ := options(t, "noop")
		spoil(&o)
		if _, err := run(t, o); err == nil || !errors.Is(err, local.ErrOptions) &&
			!errors.Is(err, esm.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an ErrOptions that says %q", err, says)
		}
	}
}

package consumer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

const alarm = "AWS::CloudWatch::Alarm"

// All alarms. Each has its paragraph in docs/operations.md.
func TestAlarms(t *testing.T) {
	tpl := synthesise(t, plain(t, withOutbox(t, withMaintenance(t), func(p *props) {
		p.Source.OnFailure.Queue = true
		finitely(p)
		p.Idempotency.StoreDown = "open"
		p.Alarms.MaxLag = 5000
		p.Alarms.MaxAge = time.Hour
		p.Alarms.MaxInProgress = 30 * time.Minute
		p.Outbox.MaxAge = 10 * time.Minute
		p.Function.Timeout = 2 * time.Minute
	})))
	manual, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	type one struct {
		namespace, metric, statistic, subject string
		threshold                             float64
		of, in                                int
		missing                               any
	}
	got := make(map[string]one)
	for id, a := range tpl.of(alarm) {
		name := strings.TrimPrefix(hash.ReplaceAllString(id, ""), "ConsumerAlarm")
		got[name] = one{
			a["Namespace"].(string), a["MetricName"].(string), a["Statistic"].(string),
			resource.FindStringSubmatch(text(at(t, a, "Dimensions", 0, "Value")))[1],
			a["Threshold"].(float64), int(a["DatapointsToAlarm"].(float64)),
			int(a["EvaluationPeriods"].(float64)), a["TreatMissingData"],
		}
		equal(t, name+": comparison", a["ComparisonOperator"], "GreaterThanOrEqualToThreshold")
		equal(t, name+": period", a["Period"], 60)
		equal(t, name+": has no action", a["AlarmActions"], nil)
		if !strings.Contains(a["AlarmDescription"].(string), "docs/operations.md, "+name+".") {
			t.Errorf("%s: the description %q does not say where to read on", name, a["AlarmDescription"])
		}
		if !strings.Contains(string(manual), "\n- **"+name+"** – ") {
			t.Errorf("docs/operations.md has no paragraph about %s", name)
		}
	}
	const (
		own, lambda, queue = "idemsk", "AWS/Lambda", "AWS/SQS"
		depth              = "ApproximateNumberOfMessagesVisible"
		none, keep         = "notBreaching", "ignore" // a run of the maintenance makes one datapoint
	)
	for name, want := range map[string]one{
		"DeadLetters":       {queue, depth, "Maximum", "DeadLetters", 1, 1, 1, none},
		"DeadLettered":      {own, "DeadLettered", "Sum", "Function", 1, 1, 1, none},
		"OnFailure":         {queue, depth, "Maximum", "OnFailure", 1, 1, 1, none},
		"Lag":               {lambda, "OffsetLag", "Maximum", "Function", 5000, 15, 15, none},
		"Errors":            {lambda, "Errors", "Sum", "Function", 1, 3, 9, none},
		"Throttles":         {lambda, "Throttles", "Sum", "Function", 1, 3, 5, none},
		"Duration":          {lambda, "Duration", "Maximum", "Function", 96_000, 2, 7, none},
		"StoreDown":         {own, "StoreDown", "Sum", "Function", 1, 3, 9, none},
		"FailedOpen":        {own, "FailedOpen", "Sum", "Function", 1, 1, 1, none},
		"StoreThrottles":    {"AWS/DynamoDB", "WriteThrottleEvents", "Sum", "Table", 1, 3, 5, none},
		"HandlerDown":       {own, "HandlerDown", "Sum", "Function", 1, 3, 9, none},
		"Blocked":           {own, "Blocked", "Sum", "Function", 1, 1, 1, none},
		"Fenced":            {own, "Fenced", "Sum", "Function", 1, 1, 1, none},
		"CompletionFailed":  {own, "CompletionFailed", "Sum", "Function", 1, 1, 1, none},
		"InProgress":        {own, "InProgressAge", "Maximum", "Function", 1_800_000, 3, 15, none},
		"RecordAge":         {own, "RecordAge", "Maximum", "Function", 3_600_000, 3, 15, none},
		"OutboxAge":         {lambda, "IteratorAge", "Maximum", "Relay", 600_000, 3, 9, none},
		"OutboxParked":      {own, "OutboxParked", "Sum", "Relay", 1, 1, 1, none},
		"Maintenance":       {lambda, "Errors", "Sum", "Maintenance", 1, 1, 1, keep},
		"KeysInProgress":    {own, "KeysInProgressAge", "Maximum", "Maintenance", 1_800_000, 1, 1, keep},
		"ExportDifferences": {own, "ExportDifferences", "Sum", "Maintenance", 1, 1, 1, keep},
	} {
		if got[name] != want {
			t.Errorf("alarm %s is %+v; want %+v", name, got[name], want)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("there is another alarm, %s: docs/operations.md must explain it, and this test name it",
			name)
	}
}

// resource matches the name of a resource in a reference.
var resource = regexp.MustCompile(`Consumer([A-Za-z]+?)[0-9A-F]{8}`)

// A partition that is stuck makes one datapoint in a timeout: the alarms of invocations look back on enough
// of them, and further, as Lambda dates Errors and Duration at the beginning of an invocation.
func TestAlarmsOfLongInvocations(t *testing.T) {
	type window struct{ of, in float64 }
	for timeout, want := range map[time.Duration]map[string]window{
		time.Minute: {"Errors": {3, 5}, "Duration": {2, 5}, "RecordAge": {3, 15}, "StoreDown": {3, 5},
			"OutboxAge": {3, 5}},
		14 * time.Minute: {"Errors": {3, 57}, "Duration": {2, 43}, "RecordAge": {3, 57}, "StoreDown": {3, 57},
			"OutboxAge": {3, 57}},
	} {
		tpl := synthesise(t, plain(t, withOutbox(t,
			func(p *props) { p.Function.Timeout = timeout; p.Outbox.Timeout = timeout })))
		for name, w := range want {
			a := tpl.of(alarm)[tpl.id(t, "ConsumerAlarm"+name)]
			equal(t, "timeout "+timeout.String()+", "+name,
				[]any{a["DatapointsToAlarm"], a["EvaluationPeriods"]}, []float64{w.of, w.in})
		}
		for id, a := range tpl.of(alarm) {
			of, in := a["DatapointsToAlarm"].(float64), a["EvaluationPeriods"].(float64)
			equal(t, id+": CloudWatch takes it", of <= in && in*a["Period"].(float64) <= 86_400, true)
			if invocation(a) && of > 1 && in <= of*timeout.Minutes() {
				t.Errorf("%s: %v of %v minutes can't come about at a timeout of %s", id, of, in, timeout)
			}
		}
	}
}

// invocation reports whether the datapoints of an alarm come from invocations, one each.
func invocation(a values) bool {
	switch a["MetricName"] {
	case "Errors", "Duration", "IteratorAge":
		return true
	}
	return a["Namespace"] == eventsource.MetricsNamespace
}

// The texts hold for both ways to complete: what was enlisted is committed with its completion or not at all.
func TestAlarmDescriptionsDependOnTheMode(t *testing.T) {
	tpl := synthesise(t, plain(t))
	for name, says := range map[string][2]string{
		"Fenced": {"(atomic mode) were not committed",
			"any other effect may have taken place twice"},
		"CompletionFailed": {"(atomic mode) take place once", "any other effect takes place again"},
	} {
		text := tpl.of(alarm)[tpl.id(t, "ConsumerAlarm"+name)]["AlarmDescription"].(string)
		for _, part := range says {
			equal(t, name+" says "+part, strings.Contains(text, part), true)
		}
	}
}

// The names of the metrics are the function's: a renamed one would leave its alarm silent for ever.
func TestFunctionWritesTheMetricsOfAlarms(t *testing.T) {
	var out bytes.Buffer
	eventsource.EMF(&out, "function")(t.Context(), kafka.Report{StoreLatency: []time.Duration{1}})
	var line struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	metrics := line.AWS.CloudWatchMetrics[0]
	equal(t, "the dimension", metrics.Dimensions, [][]string{{"FunctionName"}})
	written := make(map[string]bool)
	for _, m := range metrics.Metrics {
		written[m.Name] = true
	}

	tpl := synthesise(t, plain(t))
	used := make(map[string]bool)
	for _, a := range tpl.of(alarm) {
		if a["Namespace"] == metrics.Namespace {
			used[a["MetricName"].(string)] = true
		}
	}
	for _, w := range widgets(t, tpl) {
		for _, m := range w.Properties.Metrics {
			if m[0] == metrics.Namespace {
				used[m[1].(string)] = true
			}
		}
	}
	for name := range used {
		if !written[name] {
			t.Errorf("%s is in an alarm or on the dashboard, and the function does not write it", name)
		}
	}
	for name := range written {
		if !used[name] {
			t.Errorf("the function writes %s, and the dashboard does not show it", name)
		}
	}
}

// The relay and the maintenance write the metrics of their alarms and graphs.
func TestOtherFunctionsWriteTheirMetrics(t *testing.T) {
	tpl := synthesise(t, plain(t, withOutbox(t, withMaintenance(t))))
	for subject, c := range map[string]struct {
		titles, files string
		used          int
	}{
		"ConsumerRelay":       {`^(Outbox|Relay)`, "lambda/relay/metrics.go", 7},
		"ConsumerMaintenance": {`^Maintenance`, "internal/reconcile/metrics.go lambda/maintenance/function.go", 10},
	} {
		used := make(map[string]bool)
		for _, a := range tpl.of(alarm) {
			if strings.Contains(text(a["Dimensions"]), subject) && a["Namespace"] == "idemsk" {
				used[a["MetricName"].(string)] = true
			}
		}
		for _, w := range widgets(t, tpl) {
			for _, m := range w.Properties.Metrics {
				if regexp.MustCompile(c.titles).MatchString(w.Properties.Title) && m[0] == "idemsk" {
					used[m[1].(string)] = true
				}
			}
		}
		equal(t, subject+": metrics", len(used), c.used)
		var written []byte
		for file := range strings.FieldsSeq(c.files) {
			source, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			written = append(written, source...)
		}
		for name := range used {
			equal(t, subject+" writes "+name, bytes.Contains(written, []byte(strconv.Quote(name))), true)
		}
	}
}

// widget is one of the dashboard.
type widget struct {
	Type       string
	Properties struct {
		Title   string
		Metrics [][]any
		Alarms  []any
	}
}

// widgets reads the dashboard, whose body is JSON joined of text and references.
func widgets(t *testing.T, tpl template) []widget {
	t.Helper()
	var body strings.Builder
	for _, part := range at(t, tpl.one(t, "AWS::CloudWatch::Dashboard"), "DashboardBody", "Fn::Join",
		1).([]any) {
		if s, ok := part.(string); ok {
			body.WriteString(s)
		} else {
			body.WriteString("REFERENCE")
		}
	}
	var dashboard struct{ Widgets []widget }
	if err := json.Unmarshal([]byte(body.String()), &dashboard); err != nil {
		t.Fatalf("the dashboard: %v: %s", err, body.String())
	}
	return dashboard.Widgets
}

func TestDashboard(t *testing.T) {
	tpl := synthesise(t, plain(t, func(p *props) { p.Source.OnFailure.Queue = true; finitely(p) }))
	shown := make(map[string]bool)
	for _, w := range widgets(t, tpl) {
		if w.Type == "alarm" {
			equal(t, "alarms shown", len(w.Properties.Alarms), len(tpl.of(alarm)))
		}
		for _, m := range w.Properties.Metrics {
			shown[m[0].(string)+" "+m[1].(string)] = true
		}
	}
	for _, want := range []string{
		"AWS/Lambda OffsetLag", "AWS/Lambda Invocations", "AWS/Lambda Errors", "AWS/Lambda Throttles",
		"AWS/Lambda Duration",
		"AWS/SQS ApproximateNumberOfMessagesVisible", "AWS/DynamoDB WriteThrottleEvents",
		"AWS/DynamoDB ConsumedWriteCapacityUnits",
		"idemsk Executed", "idemsk Replayed", "idemsk DeadLettered", "idemsk Fenced",
		"idemsk CompletionFailed", "idemsk RecordAge",
	} {
		if !shown[want] {
			t.Errorf("the dashboard does not show %s", want)
		}
	}
}

func TestAlarmActions(t *testing.T) {
	const given = "arn:aws:sns:eu-central-1:111122223333:oncall"
	actions := func(tpl template) any {
		for _, a := range tpl.of(alarm) {
			equal(t, "when it is over", a["OKActions"], a["AlarmActions"])
			return a["AlarmActions"]
		}
		return nil
	}
	t.Run("a topic", func(t *testing.T) {
		tpl := synthesise(t, plain(t, func(p *props) { p.alarmTopic = given }))
		equal(t, "actions", actions(tpl), []string{given})
		equal(t, "topics", len(tpl.of("AWS::SNS::Topic")), 0)
	})
	t.Run("an address", func(t *testing.T) {
		tpl := synthesise(t, plain(t, func(p *props) { p.Alarms.Email = "oncall@example.com" }))
		equal(t, "actions", actions(tpl), []values{tpl.ref(t, "ConsumerAlarmTopic")})
		subscription := tpl.one(t, "AWS::SNS::Subscription")
		equal(t, "address", []any{subscription["Protocol"], subscription["Endpoint"]},
			[]string{"email", "oncall@example.com"})
		effects := make(map[string]string)
		for _, s := range at(t, tpl.one(t, "AWS::SNS::TopicPolicy"), "PolicyDocument", "Statement").([]any) {
			effects[at(t, s, "Sid").(string)] = at(t, s, "Effect").(string)
		}
		equal(t, "policy", effects, map[string]string{"AllowPublishThroughSSLOnly": "Deny",
			"Alarms": "Allow"})
	})
	t.Run("both", func(t *testing.T) {
		tpl := synthesise(t, plain(t, func(p *props) { p.Alarms.Email = "oncall@example.com"; p.alarmTopic = given }))
		equal(t, "the subscription's topic", tpl.one(t, "AWS::SNS::Subscription")["TopicArn"], given)
		equal(t, "topics", len(tpl.of("AWS::SNS::Topic")), 0)
	})
}

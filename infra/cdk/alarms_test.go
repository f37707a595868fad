package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

const alarm = "AWS::CloudWatch::Alarm"

func TestAlarms(t *testing.T) {
	tpl := synthesise(t, plain(t, values{
		"onFailure": "queue", "retries": 10, "retryDelay": "500ms", "maxLag": 5000, "maxAge": "1h",
		"maxInProgress": "30m", "timeout": "2m",
	}))
	type one struct {
		namespace, metric, statistic, dimension string
		threshold                               float64
		of, in                                  int
	}
	got := make(map[string]one)
	for id, a := range tpl.of(alarm) {
		name := strings.TrimPrefix(hash.ReplaceAllString(id, ""), "ConsumerAlarm")
		got[name] = one{
			a["Namespace"].(string), a["MetricName"].(string), a["Statistic"].(string),
			at(t, a, "Dimensions", 0, "Name").(string),
			a["Threshold"].(float64), int(a["DatapointsToAlarm"].(float64)),
			int(a["EvaluationPeriods"].(float64)),
		}
		equal(t, name+": comparison", a["ComparisonOperator"], "GreaterThanOrEqualToThreshold")
		equal(t, name+": nothing happened", a["TreatMissingData"], "notBreaching")
		equal(t, name+": period", a["Period"], 60)
		equal(t, name+": has no action", a["AlarmActions"], nil)
		if !strings.Contains(a["AlarmDescription"].(string), "docs/operations.md, "+name+".") {
			t.Errorf("%s: the description %q does not say where to read on", name, a["AlarmDescription"])
		}
	}
	const own, lambda = "idemsk", "AWS/Lambda"
	for name, want := range map[string]one{
		"DeadLetters": {"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName", 1, 1,
			1},
		"DeadLettered": {own, "DeadLettered", "Sum", "FunctionName", 1, 1, 1},
		"OnFailure": {"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName", 1, 1,
			1},
		"Lag":              {lambda, "OffsetLag", "Maximum", "FunctionName", 5000, 15, 15},
		"Errors":           {lambda, "Errors", "Sum", "FunctionName", 1, 3, 9},
		"Throttles":        {lambda, "Throttles", "Sum", "FunctionName", 1, 3, 5},
		"Duration":         {lambda, "Duration", "Maximum", "FunctionName", 96_000, 2, 7},
		"StoreDown":        {own, "StoreDown", "Sum", "FunctionName", 1, 3, 9},
		"StoreThrottles":   {"AWS/DynamoDB", "WriteThrottleEvents", "Sum", "TableName", 1, 3, 5},
		"HandlerDown":      {own, "HandlerDown", "Sum", "FunctionName", 1, 3, 9},
		"Blocked":          {own, "Blocked", "Sum", "FunctionName", 1, 1, 1},
		"Fenced":           {own, "Fenced", "Sum", "FunctionName", 1, 1, 1},
		"CompletionFailed": {own, "CompletionFailed", "Sum", "FunctionName", 1, 1, 1},
		"InProgress":       {own, "InProgressAge", "Maximum", "FunctionName", 1_800_000, 3, 15},
		"RecordAge":        {own, "RecordAge", "Maximum", "FunctionName", 3_600_000, 3, 15},
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
			values{"timeout": timeout.String(), "relayTimeout": timeout.String()})))
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
	return a["Namespace"] == msk.MetricsNamespace
}

// Who fails open is told that it happens.
func TestAlarmOfFailingOpen(t *testing.T) {
	tpl := synthesise(t, plain(t, values{"storeDown": "open"}))
	a := tpl.of(alarm)[tpl.id(t, "ConsumerAlarmFailedOpen")]
	equal(t, "it", []any{a["Namespace"], a["MetricName"], a["Statistic"], a["Threshold"],
		a["DatapointsToAlarm"], a["EvaluationPeriods"]},
		[]any{"idemsk", "FailedOpen", "Sum", 1, 1, 1})
	equal(t, "where to read on", strings.Contains(a["AlarmDescription"].(string),
		"docs/operations.md, FailedOpen."), true)
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

// Every alarm has its paragraph.
func TestAlarmsAreDocumented(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	tpl := synthesise(t, plain(t, withOutbox(t, withMaintenance(t), values{
		"onFailure": "queue", "retries": 10, "retryDelay": "500ms", "storeDown": "open", "claim": "partition",
	})))
	for id := range tpl.of(alarm) {
		name := strings.TrimPrefix(hash.ReplaceAllString(id, ""), "ConsumerAlarm")
		if !strings.Contains(string(manual), "\n- **"+name+"** – ") {
			t.Errorf("docs/operations.md has no paragraph about %s", name)
		}
	}
}

// The names of the metrics are the function's: a renamed one would leave its alarm silent for ever.
func TestFunctionWritesTheMetricsOfAlarms(t *testing.T) {
	var out bytes.Buffer
	msk.EMF(&out, "function")(t.Context(), kafka.Report{StoreLatency: []time.Duration{1}})
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
	tpl := synthesise(t, plain(t, values{"onFailure": "queue", "retries": 10, "retryDelay": "500ms"}))
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
		tpl := synthesise(t, plain(t, values{"alarmTopicArn": given}))
		equal(t, "actions", actions(tpl), []string{given})
		equal(t, "topics", len(tpl.of("AWS::SNS::Topic")), 0)
	})
	t.Run("an address", func(t *testing.T) {
		tpl := synthesise(t, plain(t, values{"alarmEmail": "oncall@example.com"}))
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
		tpl := synthesise(t, plain(t, values{"alarmEmail": "oncall@example.com", "alarmTopicArn": given}))
		equal(t, "the subscription's topic", tpl.one(t, "AWS::SNS::Subscription")["TopicArn"], given)
		equal(t, "topics", len(tpl.of("AWS::SNS::Topic")), 0)
	})
}

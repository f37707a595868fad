package kafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrapeInterval is the longest interval for which the rules are written. They are evaluated as often.
const scrapeInterval = 30 * time.Second

// alertCases have series, in the notation of promtool test rules, with which a rule fires, and series with
// which it does not.
var alertCases = map[string]struct{ fires, silent [][]string }{
	"Down": {
		fires: [][]string{{`up{job="idemsk"} 1 0x4`},
			{`up{job="idemsk",instance="a"} 1x20`, `up{job="idemsk",instance="b"} 1 0x4`},
			{`up{job="another"} 1x20`}},
		silent: [][]string{{`up{job="idemsk"} 1 0x2 1x60`},
			{`up{job="idemsk"} 1x60`, `up{job="another"} 0x60`}},
	},
	"NotReady": {
		fires: [][]string{{`idemsk_joined 1 0x10`},
			{`idemsk_joined{instance="a"} 1x20`, `idemsk_joined{instance="b"} 0x20`}},
		silent: [][]string{{`idemsk_joined 0x9 1x20`}},
	},
	"Lag": {
		fires: [][]string{
			{`idemsk_lag{topic="payments",partition="3"} 100001x30`},
			{ // the partition moves between two scrapes
				`idemsk_lag{topic="payments",partition="3",instance="a"} 100001x19 stale`,
				`idemsk_lag{topic="payments",partition="3",instance="b"} _x21 100001x10`,
			},
		},
		silent: [][]string{
			{`idemsk_lag{topic="payments",partition="3"} 100000x40`},
			{`idemsk_lag{topic="payments",partition="3"} 100001x24 0x20`},
			{`idemsk_lag{topic="payments",partition="3"} 100001x16 0x24`,
				`idemsk_lag{topic="payments",partition="4"} 0x24 100001x16`},
		},
	},
	"Waiting": {
		fires:  [][]string{{`idemsk_waiting_seconds{partition="3"} 840+30x3`}},
		silent: [][]string{{`idemsk_waiting_seconds{partition="3"} 840+30x2 0x10`}},
	},
	"Failing": {
		fires:  [][]string{{`idemsk_failing_seconds{partition="3"} 0 10 40 70`}},
		silent: [][]string{{`idemsk_failing_seconds{partition="3"} 0x10 30 60 0x20`}},
	},
	"RecordAge": {
		fires:  [][]string{{`idemsk_record_age_seconds 0x5 901 901 0x5 901 901 0x5 901 901`}},
		silent: [][]string{{`idemsk_record_age_seconds 0x5 901 0x20`}, {`idemsk_record_age_seconds 900x40`}},
	},
	"InProgress": {
		fires: [][]string{{`idemsk_in_progress_age_seconds 0x5 901 901 0x5 901 901 0x5 901 901`}},
		silent: [][]string{{`idemsk_in_progress_age_seconds 0x5 901 0x20`},
			{`idemsk_in_progress_age_seconds 900x40`}},
	},
	"Blocked": {
		fires:  [][]string{{`idemsk_blocked_lanes 0 0 1 0`}},
		silent: [][]string{{`idemsk_blocked_lanes 0x40`}},
	},
	"DeadLettered":     counterCases("idemsk_dead_lettered_total"),
	"FailedOpen":       counterCases("idemsk_failed_open_total"),
	"Fenced":           counterCases("idemsk_fenced_total"),
	"CompletionFailed": counterCases("idemsk_completion_failed_total"),
	"Maintenance": {
		fires: [][]string{
			{`idemsk_reconcile_last_run_failed 0 0 1 0`},
			{`up{job="idemsk-reconcile"} 1 0x5`},
		},
		silent: [][]string{{`idemsk_reconcile_last_run_failed 0x40`, `up{job="idemsk-reconcile"} 1 0x2 1x40`,
			`up{job="idemsk"} 0x40`}},
	},
	"KeysInProgress": {
		fires:  [][]string{{`idemsk_reconcile_keys_in_progress_age_seconds 0 901`}},
		silent: [][]string{{`idemsk_reconcile_keys_in_progress_age_seconds 900x40`}},
	},
	"ExportDifferences": {
		fires:  [][]string{{`idemsk_reconcile_export_differences 0 1`}},
		silent: [][]string{{`idemsk_reconcile_export_differences 0x40`}},
	},
	"HandlerDown": { // tries that are a minute apart
		fires:  [][]string{{`idemsk_handler_down_total 0x5 1 1 2 2 3 3 4x20`}},
		silent: [][]string{{`idemsk_handler_down_total 0x5 1x40`}, {`idemsk_handler_down_total 7x40`}},
	},
	"StoreDown": {
		fires:  [][]string{{`idemsk_store_down_total 0x5 0+1x8`}},
		silent: [][]string{{`idemsk_store_down_total 0x5 1x40`}, {`idemsk_store_down_total 7x40`}},
	},
}

// counterCases are those of a rule that fires when a counter has increased. A process that is started again
// counts from 0.
func counterCases(metric string) struct{ fires, silent [][]string } {
	return struct{ fires, silent [][]string }{
		fires: [][]string{{metric + ` 0 0 1x5`},
			{metric + `{instance="a"} 0x9`, metric + `{instance="b"} 3 3 4x5`}, {metric + ` 7x10 0 1x5`}},
		silent: [][]string{{metric + ` 0x40`}, {metric + ` 7x10 0x20`}, {metric + ` _x10 0x20`}},
	}
}

// Each rule fires for the series that it is for, and for no others.
func TestAlertRulesFire(t *testing.T) {
	all, _ := rules(t)
	if len(all) != len(alertCases) {
		t.Errorf("%d rules, and cases for %d", len(all), len(alertCases))
	}
	for i := range all {
		r := &all[i]
		cases := alertCases[r.Alert]
		if len(cases.fires) == 0 || len(cases.silent) == 0 {
			t.Errorf("%s has no series with which it fires, or none with which it does not", r.Alert)
		}
		for _, series := range cases.fires {
			if !fires(t, r, series) {
				t.Errorf("%s does not fire with %q", r.Alert, series)
			}
		}
		for _, series := range cases.silent {
			if fires(t, r, series) {
				t.Errorf("%s fires with %q", r.Alert, series)
			}
		}
	}
}

// fires evaluates a rule as Prometheus does, and reports whether it fires at any time in half an hour: when
// its expression has had an element with the same labels at all evaluations for the time of the rule.
func fires(t *testing.T, r *rule, series []string) bool {
	t.Helper()
	var pending time.Duration
	if r.For != "" {
		var err error
		if pending, err = time.ParseDuration(r.For); err != nil {
			t.Fatal(err)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute})
	defer func() { _ = engine.Close() }()
	data, begun, active := loaded(t, series), time.Unix(0, 0), make(map[string]time.Time)
	for now := begun; now.Sub(begun) <= 30*time.Minute; now = now.Add(scrapeInterval) {
		query, err := engine.NewInstantQuery(t.Context(), data, nil, r.Expr, now)
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		result, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		before := active
		active = make(map[string]time.Time)
		for _, element := range result {
			name := element.Metric.String()
			active[name] = now
			if since, ok := before[name]; ok {
				active[name] = since
			}
			if now.Sub(active[name]) >= pending {
				return true
			}
		}
		query.Close()
	}
	return false
}

// loaded returns the storage of series that were scraped from the time 0 on.
func loaded(t *testing.T, series []string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, description := range series {
		of, values, err := parser.ParseSeriesDesc(description)
		if err != nil {
			t.Fatalf("%s: %v", description, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * scrapeInterval.Milliseconds(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(of, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints,
			matchers ...*labels.Matcher) storage.SeriesSet {
			return &seriesSet{left: slices.DeleteFunc(slices.Clone(all), func(s storage.Series) bool {
				return slices.ContainsFunc(matchers,
					func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) })
			})}
		},
	}}
}

// seriesSet is a storage.SeriesSet.
type seriesSet struct {
	at   storage.Series
	left []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series              { return s.at }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a chunks.Sample.
type sample struct {
	at    int64 // ms
	value float64
}

func (s sample) T() int64                    { return s.at }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

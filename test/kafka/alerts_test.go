package kafka_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"

	"github.com/idemsk/idemsk/internal/reconcile/prom"
	"github.com/idemsk/idemsk/kafka/consumer/monitor"
)

const alertsFile = "../../deploy/alerts.yaml"

// rule is an alert rule. Its fields are those that deploy/alerts.yaml uses.
type rule struct {
	Alert, Expr string
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// rules reads the alert rules, and the text of their file.
func rules(t *testing.T) (all []rule, text string) {
	t.Helper()
	file, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var content struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.UnmarshalStrict(file, &content); err != nil || len(content.Groups) != 1 {
		t.Fatalf("%v; %d groups; want 1", err, len(content.Groups))
	}
	return content.Groups[0].Rules, string(file)
}

// checkForm checks what an alert has beside its expression.
func checkForm(t *testing.T, r *rule) {
	t.Helper()
	if len(r.Annotations) != 1 || !strings.HasSuffix(r.Annotations["summary"], ".") {
		t.Errorf("%s: annotations %q; want a summary alone, which is quoted if it has a comma", r.Alert, r.Annotations)
	}
	if r.For != "" {
		if _, err := time.ParseDuration(r.For); err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
	}
}

// metric is a metric of an expression, with the labels that it selects, groups by and shows.
type metric struct {
	name   string
	labels []string
}

// metricsOf returns the metrics of an expression, by the parser of Prometheus.
func metricsOf(t *testing.T, what, text string) (found []metric) {
	t.Helper()
	expr, err := parser.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return nil
	}
	parser.Inspect(expr, func(n parser.Node, above []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m := metric{name: s.Name}
		for _, matcher := range s.LabelMatchers {
			m.labels = append(m.labels, matcher.Name)
		}
		for _, node := range above {
			if aggregate, ok := node.(*parser.AggregateExpr); ok {
				m.labels = append(m.labels, aggregate.Grouping...)
			}
		}
		found = append(found, m)
		return nil
	})
	return found
}

// exported returns the labels of each metric of a consumer process and of idemsk reconcile.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"up": nil} // of Prometheus itself
	inBubble(t, 1, func(f *fixture) {
		f.produce(0, 1, 0)
		c := f.start()
		f.until("the partition is assigned", func() bool { return f.calledOnce(1) })
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(monitor.NewCollector(c.Consumer), monitor.NewOutcomes())
		prom.Register(registry)
		families, err := registry.Gather()
		if err != nil {
			f.Fatal(err)
		}
		for _, family := range families {
			name, labels := family.GetName(), []string{}
			for _, label := range family.GetMetric()[0].GetLabel() {
				labels = append(labels, label.GetName())
			}
			if family.GetMetric()[0].GetHistogram() != nil {
				name, labels = name+"_bucket", append(labels, "le")
			}
			all[name] = labels
		}
		c.mustEnd()
	})
	return all
}

// checkMetrics checks that an expression has metrics, which are exported with the labels that it uses.
func checkMetrics(t *testing.T, what, expr string, exported map[string][]string) (used []string) {
	t.Helper()
	metrics := metricsOf(t, what, expr)
	if len(metrics) == 0 {
		t.Errorf("%s: %q has no metric", what, expr)
	}
	for _, m := range metrics {
		labels, ok := exported[m.name]
		if !ok {
			t.Errorf("%s: %s is not exported", what, m.name)
		}
		for _, label := range m.labels {
			if !slices.Contains(append([]string{"__name__", "job"}, labels...), label) { // job is of Prometheus
				t.Errorf("%s: %s has no label %s", what, m.name, label)
			}
		}
		used = append(used, m.name)
	}
	return used
}

// An alert on a metric that does not exist never fires.
func TestAlertRulesUseExportedMetrics(t *testing.T) {
	names := exported(t)
	all, _ := rules(t)
	for i := range all {
		r := &all[i]
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or no summary", r.Alert)
		}
		checkForm(t, r)
		checkMetrics(t, r.Alert, r.Expr, names)
	}
}

// docs/operations.md has a paragraph for each alarm of the construct (TestAlarmsAreDocumented).
func TestEveryAlarmHasARuleOrAReason(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all, text := rules(t)
	var excluded []string
	for _, line := range regexp.MustCompile(`(?m)^# - ([A-Za-z, ]+): .`).FindAllStringSubmatch(text, -1) {
		excluded = append(excluded, strings.Split(line[1], ", ")...)
	}
	alarms := regexp.MustCompile(`(?m)^- \*\*([A-Za-z]+)\*\* – `).FindAllStringSubmatch(string(manual), -1)
	if len(alarms) == 0 {
		t.Fatal("docs/operations.md has no alarms")
	}
	for _, alarm := range alarms {
		has := slices.ContainsFunc(all, func(r rule) bool { return r.Alert == alarm[1] })
		if has == slices.Contains(excluded, alarm[1]) {
			t.Errorf("%s: it has a rule: %v; want a rule or a reason, and not both", alarm[1], has)
		}
	}
	for _, name := range excluded {
		if !slices.ContainsFunc(alarms, func(m []string) bool { return m[1] == name }) {
			t.Errorf("%s has a reason and is no alarm", name)
		}
	}
}

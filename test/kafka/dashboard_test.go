package kafka_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard are the parts of Grafana's model that deploy/grafana.json is checked by.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ H, W, X, Y int } `json:"gridPos"`
		Targets []struct {
			Expr, LegendFormat string
		}
	}
	Templating struct {
		List []struct{ Name, Query string }
	}
}

// A panel shows metrics that exist, and the dashboard shows each metric that an alert is about.
func TestDashboardShowsExportedMetrics(t *testing.T) {
	file, err := os.ReadFile("../../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		t.Fatal(err)
	}
	values := []string{"$__rate_interval", "1m"} // Grafana's own
	for _, variable := range d.Templating.List {
		values = append(values, "$"+variable.Name, variable.Query)
	}
	filledIn, names := strings.NewReplacer(values...), exported(t)
	var shown []string
	for i := range d.Panels {
		p := &d.Panels[i]
		if p.ID != i+1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: id %d, place %v; want id %d in 24 columns", p.Title, p.ID, p.GridPos, i+1)
		}
		for _, target := range p.Targets {
			used := checkMetrics(t, p.Title, filledIn.Replace(target.Expr), names)
			shown = append(shown, used...)
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(names[used[0]], label[1]) {
					t.Errorf("%s: %s has no label %s", p.Title, used[0], label[1])
				}
			}
		}
	}
	all, _ := rules(t)
	for i := range all {
		for _, m := range metricsOf(t, all[i].Alert, all[i].Expr) {
			// a failed run shows as the time since the last success
			if m.name != "up" && m.name != "idemsk_reconcile_last_run_failed" && !slices.Contains(shown, m.name) {
				t.Errorf("no panel has %s, which the alert %s is about", m.name, all[i].Alert)
			}
		}
	}
}

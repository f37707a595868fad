package consumer

import (
	"regexp"
	"slices"
	"time"
)

// The bounds of the maintenance's settings. EventBridge's rates are whole minutes.
const (
	minEvery              = 5 * time.Minute
	maxEvery              = 31 * 24 * time.Hour
	minMaintenanceTimeout = 30 * time.Second
	maxMaintenanceTimeout = 15 * time.Minute
)

var exportsARN = regexp.MustCompile(`^arn:aws[a-z-]*:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$`)

func (c *checker) maintenance(p *Props) {
	m := p.Maintenance
	if m == nil {
		return
	}
	c.program("Maintenance.Dir", m.Dir, "maintenance", "dist/maintenance-arm64")
	c.every("Maintenance.ReconcileEvery", m.ReconcileEvery)
	switch {
	case p.Store == StorePostgres:
		c.every("Maintenance.PruneEvery", m.PruneEvery)
	case m.PruneEvery != 0:
		c.fail("Maintenance.PruneEvery", short(m.PruneEvery),
			"none with Store %s, which deletes expired keys itself", p.Store)
	}
	c.export(p, m)
	c.wholeSeconds("Maintenance.Timeout", m.Timeout, minMaintenanceTimeout, maxMaintenanceTimeout)
	c.within("Maintenance.MemoryMB", m.MemoryMB, minMemoryMB, maxMemoryMB)
}

func (c *checker) every(prop string, d time.Duration) {
	if d < minEvery || d > maxEvery || d%time.Minute != 0 {
		c.fail(prop, short(d), "whole minutes from %s to %s", short(minEvery), short(maxEvery))
	}
}

func (c *checker) export(p *Props, m *MaintenanceProps) {
	if m.ExportBucketARN == "" {
		if m.ExportField+m.ExportTopic != "" || m.ExportCovers != 0 || m.ExportLag != 0 {
			c.fail("Maintenance.ExportBucketARN", "",
				"the bucket of the exports with the other settings of an export")
		}
		return
	}
	c.form("Maintenance.ExportBucketARN", m.ExportBucketARN, exportsARN, "arn:aws:s3:::NAME/PREFIX")
	inTopics := slices.ContainsFunc(p.Topics, func(t Topic) bool { return t.Name == m.ExportTopic })
	switch {
	case p.KeyScope == KeyScopeNamespace && m.ExportTopic != "":
		c.fail("Maintenance.ExportTopic", m.ExportTopic,
			"none with KeyScope namespace: its keys have no topic")
	case p.KeyScope == KeyScopeTopic && !inTopics:
		c.fail("Maintenance.ExportTopic", m.ExportTopic, "one of Topics")
	}
	if m.ExportCovers > p.Retention {
		c.fail("Maintenance.ExportCovers", short(m.ExportCovers),
			"at most Retention, %s: older keys are deleted", short(p.Retention))
	}
	if m.ExportLag < 0 || m.ExportLag >= m.ExportCovers {
		c.fail("Maintenance.ExportLag", short(m.ExportLag), "less than Maintenance.ExportCovers, %s",
			short(m.ExportCovers))
	}
}

package consumer

import (
	"cmp"
	"time"
)

// MaintenanceProps are the settings of a function that maintains the store of keys on a schedule
// (lambda/maintenance). It reports keys that hang or failed, compares keys with an export of business
// records, and prunes keys in PostgreSQL. It uses the network of the consumer's function. The zero value of a
// field means its default.
type MaintenanceProps struct {
	// Dir is the directory of the program, a file named bootstrap, built for Props.Architecture. Required.
	Dir string
	// ReconcileEvery is the time between two reconciliations, in whole minutes from 5 minutes to 31 days.
	// Each reads the whole store, which DynamoDB bills by the table's size. Default: 24 h.
	ReconcileEvery time.Duration
	// PruneEvery is the time between two deletions of expired keys, likewise. StorePostgres only, as DynamoDB
	// and Redis delete such keys themselves. Default: 1 h.
	PruneEvery time.Duration

	// ExportBucketARN is the S3 bucket of the exports with the beginning of their names:
	// arn:aws:s3:::NAME/PREFIX. The newest one is compared, see idemsk help reconcile. A customer key of the
	// bucket must admit Maintenance.Role to kms:Decrypt. Default: none.
	ExportBucketARN string
	// ExportField is the column or JSON member that has the key. Default: idempotencyKey.
	ExportField string
	// ExportTopic is the topic of the export's keys, one of Topics. None with KeyScopeNamespace. Default: the
	// first of Topics.
	ExportTopic string
	// ExportCovers is the time before an export was written whose records it has at least, except those of
	// the last ExportLag. It is also the maximum age of the newest export, and at most Retention. Defaults:
	// 25 h and 1 h.
	ExportCovers, ExportLag time.Duration

	// Timeout is the function's timeout in whole seconds, 30 s to 15 minutes. Default: 15 minutes.
	Timeout time.Duration
	// MemoryMB is the function's memory, 128 to 10,240. It holds the keys of an export, about 150 bytes a
	// row. Default: 512.
	MemoryMB int
}

// withDefaults needs the consumer's props with their defaults.
func (given *MaintenanceProps) withDefaults(p *Props) *MaintenanceProps {
	m := *given
	setDefault(&m.ReconcileEvery, DefaultReconcileEvery)
	if p.Store == StorePostgres {
		setDefault(&m.PruneEvery, DefaultPruneEvery)
	}
	if m.ExportBucketARN != "" {
		setDefault(&m.ExportField, "idempotencyKey")
		setDefault(&m.ExportCovers, DefaultExportCovers)
		setDefault(&m.ExportLag, DefaultExportLag)
		if p.KeyScope == KeyScopeTopic && len(p.Topics) > 0 {
			setDefault(&m.ExportTopic, p.Topics[0].Name)
		}
	}
	setDefault(&m.Timeout, maxMaintenanceTimeout)
	setDefault(&m.MemoryMB, DefaultMemoryMB)
	return &m
}

func setDefault[T comparable](field *T, def T) { *field = cmp.Or(*field, def) }

package main

import (
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/internal/reconcile"
	"github.com/idemsk/idemsk/kafka"
)

// config is the configuration of the comparison with an export.
type config struct {
	export string // IDEMSK_EXPORT: s3://BUCKET/NAME; "" for no comparison
	field  string // IDEMSK_EXPORT_FIELD: the column or member with the key
	// of the stored keys: IDEMSK_NAMESPACE, and IDEMSK_EXPORT_TOPIC unless the scope is the namespace
	prefix string
	covers time.Duration // IDEMSK_EXPORT_COVERS
}

// lag is the time before an export was written whose records it may lack.
const lag = time.Hour

// maxCovers is the longest retention of keys.
const maxCovers = 10 * 365 * 24 * time.Hour

func readConfig(v *app.Vars, keys *kafka.Config) config {
	c := config{
		export: v.String("IDEMSK_EXPORT", ""),
		field:  v.String("IDEMSK_EXPORT_FIELD", "idempotencyKey"),
		covers: v.Duration("IDEMSK_EXPORT_COVERS", 24*time.Hour+lag, lag+time.Minute, maxCovers), //nolint:mnd // a day
	}
	topic := v.String("IDEMSK_EXPORT_TOPIC", "")
	switch inTopic := keys.KeyScope != kafka.NamespaceScope; {
	case c.export == "":
	case !reconcile.InBucket(c.export):
		v.Fail("IDEMSK_EXPORT", c.export,
			"s3://BUCKET/NAME, where NAME is the beginning of the names of the exports")
	case inTopic && topic == "":
		v.Fail("IDEMSK_EXPORT_TOPIC", "", "the topic of the export's keys")
	case !inTopic && topic != "":
		v.Fail("IDEMSK_EXPORT_TOPIC", topic, "none with IDEMSK_KEY_SCOPE=namespace")
	default:
		c.prefix = kafka.StoredKey(keys.Namespace, topic, "")
	}
	return c
}

package simulation_test

import "testing"

// regressions are scenarios in which the simulation found a defect that was repaired since, with their shrunk
// configurations.
var regressions = []struct {
	what   string
	seed   uint64
	config string
}{
	{"a dead letter of a process had to be sent within a lease", 814,
		"host=process,letters=slow queue,IDEMSK_LEASE=1s"},
	{"a key that failed after its redrive was a sign of an outage twice", 797,
		"host=process,pollers=3,partitions=3,member=static,copies=other partitions,failures=permanent,redrive=topic,redrive of=some,delete entries=yes,offsets=back," +
			"IDEMSK_KEY=hash,IDEMSK_ORDER=key,IDEMSK_MAX_ATTEMPTS=3,IDEMSK_OUTAGE_FAILURES=2"},
	{"beside a rejected record, the failure of a call of one record was no evidence", 7,
		"handler=bulk that throws,registry=silent"},
	{"a lane that was stopped while it waited to be alone held up those that were added later", 1836,
		"host=process,pollers=3,partitions=3,handler=bulk,member=static,deployment=other,effects=enlisted," +
			"letters=slow queue,other values=yes,tombstones=yes,poison=yes,slow records=yes,refused effects=yes," +
			"redrive=topic,redrive of=some,offsets=back,IDEMSK_LEASE=5s,IDEMSK_KEY=key,IDEMSK_KEY_SCOPE=namespace," +
			"IDEMSK_HASH_KEYS=true,IDEMSK_MISSING_KEY=process,IDEMSK_FINGERPRINT=none,IDEMSK_ORDER=none," +
			"IDEMSK_BATCHING=off,IDEMSK_CONCURRENCY=2,IDEMSK_COMMIT_WINDOW=4,IDEMSK_OUTAGE_FAILURES=5," +
			"IDEMSK_COMMIT_INTERVAL=5s"},
	{"a bulk handler was not called for a record without a key that was identified late", 3956,
		"host=process,pollers=3,handler=bulk that throws,member=static,deployment=same,other values=yes,keyless=yes," +
			"tombstones=yes,failures=permanent,registry=silent,redrive=topic,IDEMSK_LEASE=1s,IDEMSK_KEY=json:$.id," +
			"IDEMSK_MISSING_KEY=process,IDEMSK_ORDER=key,IDEMSK_BATCHING=off,IDEMSK_CONCURRENCY=2," +
			"IDEMSK_COMMIT_WINDOW=1,IDEMSK_OUTAGE_FAILURES=5,IDEMSK_OUTAGE_LIMIT=5m,IDEMSK_KAFKA_LEAVE=true," +
			"IDEMSK_COMMIT_INTERVAL=5s,IDEMSK_MAX_BYTES=8192"},
	{"a record that could not be identified released the key of an attempt that had not ended", 379,
		"host=process,keyless=yes,registry=silent,IDEMSK_MISSING_KEY=process,IDEMSK_EFFECTS=at-most-once"},
}

func TestRegressions(t *testing.T) {
	for _, r := range regressions {
		t.Run(r.what, func(t *testing.T) {
			if res := runHere(t, scenario{Seed: r.seed, Config: configOf(t, r.config)}); res.Violation != "" {
				t.Error(res.Violation)
			}
		})
	}
}

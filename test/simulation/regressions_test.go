package simulation_test

import "testing"

// regressions are scenarios in which the simulation found a defect that was repaired since, with their shrunk
// configurations.
var regressions = []struct {
	what   string
	seed   uint64
	config string
}{
	{"with IDEMSK_KAFKA_RESET=latest the position in a partition that the topic gained was not committed", 43,
		"host=process,add partitions=yes,IDEMSK_KAFKA_RESET=latest"},
	{"a dead letter of a process had to be sent within a lease", 1,
		"host=process,letters=slow queue,tombstones=yes,IDEMSK_CLAIM=partition,IDEMSK_LEASE=1s,IDEMSK_KEY=hash"},
	{"a key that failed after its redrive was a sign of an outage twice", 797,
		"host=process,pollers=3,partitions=3,member=static,copies=other partitions,failures=permanent,redrive=topic,redrive of=some,delete entries=yes,offsets=back," +
			"IDEMSK_KEY=hash,IDEMSK_ORDER=key,IDEMSK_MAX_ATTEMPTS=3,IDEMSK_OUTAGE_FAILURES=2"},
	{"beside a rejected record, the failure of a call of one record was no evidence", 7,
		"handler=bulk that throws,registry=silent"},
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

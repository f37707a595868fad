package simulation_test

import (
	"strconv"
	"time"
)

// effects is the variable that says whether effects may repeat.
const effects = "IDEMSK_EFFECTS"

// settings are what a run has in all of its time: its configuration, and the values of it that the simulation
// needs itself.
type settings struct {
	config
	after       config // of the second deployment
	lease       time.Duration
	retention   time.Duration
	maxAttempts int64
	payments    int
	pollers     int
	partitions  int
}

func settingsOf(d dice, c config) settings {
	s := settings{config: c, after: c, payments: d.between(4, 20, "payments")}
	s.lease, s.retention = s.duration("IDEMSK_LEASE"), s.duration("IDEMSK_RETENTION")
	s.maxAttempts = int64(s.number("IDEMSK_MAX_ATTEMPTS"))
	s.pollers, s.partitions = s.number("pollers"), s.number("partitions")
	if c.is("deployment", "other") {
		s.after = c.redrawn(d)
	}
	return s
}

func (c config) is(name, text string) bool { return c[name] == text }

func (c config) number(name string) int {
	n, err := strconv.Atoi(c[name])
	if err != nil {
		panic(err) // the dimension has numbers
	}
	return n
}

func (c config) duration(name string) time.Duration {
	d, err := time.ParseDuration(c[name])
	if err != nil {
		panic(err) // the dimension has durations
	}
	return d
}

// inGroup reports whether members of a consumer group handle the records, instead of functions behind an
// event source.
func (s *settings) inGroup() bool { return s.is("host", "process") }

// failsOpen reports whether some deployment calls handlers without a claim while the store does not answer.
func (s *settings) failsOpen() bool {
	return s.is("IDEMSK_STORE_DOWN", "open") || s.after.is("IDEMSK_STORE_DOWN", "open")
}

// configOf returns the configuration of a deployment.
func (s *settings) configOf(deployment int) config {
	if deployment > 0 {
		return s.after
	}
	return s.config
}

// environ returns the environment of a deployment's processes.
func (s *settings) environ(deployment int) map[string]string {
	env := map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": function, "IDEMSK_STORE": "dynamodb", "IDEMSK_TABLE": keysTable,
		"IDEMSK_LOG_LEVEL":      "ERROR",
		"IDEMSK_MAX_CLOCK_SKEW": skew.String(), "IDEMSK_KAFKA_GROUP": function, "IDEMSK_KAFKA_TOPICS": topic,
		"IDEMSK_KAFKA_SESSION_TIMEOUT": "6s",
	}
	if !s.is("letters", "none") {
		env["IDEMSK_DEAD_LETTER_TOPIC"] = "letters"
	}
	for name, text := range s.configOf(deployment) {
		if isVariable(name) {
			env[name] = text
		}
	}
	return env
}

// maxOffset is the maximum offset of a process's clock: two clocks differ by less than the skew.
const maxOffset = 450 * time.Millisecond

// offset returns the offset of a process's clock.
func (s *settings) offset(d dice, process string) time.Duration {
	most := int(maxOffset.Milliseconds())
	if s.is("clocks", "beyond the skew") {
		most = 8000
	}
	return time.Duration(d.between(-most, most, "clock of "+process)) * time.Millisecond
}

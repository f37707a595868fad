package simulation_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// settings are what a seed decides once.
type settings struct {
	lease      time.Duration
	beyondSkew bool // the clocks differ by more than the configured skew
	claimRange bool // some deployments claim by partition
	elsewhere  bool // producers repeat payments in other partitions
	mixed      bool // the deployments claim in different ways
	group      bool // a consumer group in the place of the event source and the function
	partitions int
	payments   int
	pollers    int
	bulk       bool                 // the function has a bulk handler
	throws     bool                 // of which a call fails as a whole if a record fails
	environ    [2]map[string]string // of each deployment
}

const (
	maxAttempts = 16
	retention   = 168 * time.Hour // the default
)

func settingsOf(d dice) settings {
	s := settings{
		lease:      pick(d, "lease", time.Second, 2*time.Second, 5*time.Second),
		beyondSkew: d.chance(0.15, "beyond skew"),
		group:      d.chance(0.2, "group"),
		partitions: d.between(1, 3, "partitions"),
		payments:   d.between(4, 16, "payments"),
		pollers:    d.between(1, 3, "pollers"),
	}
	s.bulk = !s.group && d.chance(0.3, "bulk")
	s.throws = s.bulk && d.chance(0.7, "throws")
	s.claimRange = d.chance(0.4, "claim by partition")
	s.elsewhere = !s.claimRange || d.chance(0.2, "elsewhere")
	for i := range s.environ {
		claim := "key"
		if s.claimRange {
			claim = pick(d, "deployment "+strconv.Itoa(i)+" claim", "key", "partition", "partition")
		}
		s.environ[i] = map[string]string{
			"AWS_LAMBDA_FUNCTION_NAME": function, "IDEMSK_STORE": "dynamodb", "IDEMSK_TABLE": keysTable, "IDEMSK_DEAD_LETTER_TOPIC": "letters",
			"IDEMSK_LOG_LEVEL": "ERROR", "IDEMSK_MAX_CLOCK_SKEW": skew.String(), "IDEMSK_LEASE": s.lease.String(),
			"IDEMSK_MAX_ATTEMPTS": strconv.Itoa(maxAttempts), "IDEMSK_CLAIM": claim,
		}
		maps.Copy(s.environ[i], draw(d, i))
	}
	s.mixed = s.environ[0]["IDEMSK_CLAIM"] != s.environ[1]["IDEMSK_CLAIM"]
	return s
}

// overlaps reports whether two handlers of one payment may run at the same time.
func (s *settings) overlaps() bool { return s.beyondSkew || s.unfenced() }

// unfenced reports whether two handlers of one payment may run at the same time with clocks that differ by less than the skew.
func (s *settings) unfenced() bool { return s.claimRange && (s.elsewhere || s.mixed) }

// maxOffset is the maximum offset of a process's clock: two clocks differ by less than the skew.
const maxOffset = 450 * time.Millisecond

// noFingerprints reports whether records are not compared with those that used their key before.
func (s *settings) noFingerprints() bool { return s.environ[0]["IDEMSK_FINGERPRINT"] == "none" }

// storedKey returns the stored key of a payment. That of a record which is refused before its handler is the record's place, as in requests.
func (s *settings) storedKey(key string) string {
	if strings.HasPrefix(key, function) {
		return key
	}
	if s.environ[0]["IDEMSK_KEY_SCOPE"] == "namespace" {
		return kafka.StoredKey(function, "", key)
	}
	return kafka.StoredKey(function, topic, key)
}

// offset returns the offset of a process's clock.
func (s *settings) offset(d dice, process string) time.Duration {
	most := int(maxOffset.Milliseconds())
	if s.beyondSkew {
		most = 8000
	}
	return time.Duration(d.between(-most, most, "clock of "+process)) * time.Millisecond
}

func (s *settings) String() string {
	text := fmt.Sprintf("%d payments, %d partitions, %d pollers, clocks beyond the skew: %v, a consumer group: %v, bulk: %v, throws: %v\n",
		s.payments, s.partitions, s.pollers, s.beyondSkew, s.group, s.bulk, s.throws)
	for _, env := range s.environ {
		for _, dim := range dimensions {
			if value, ok := env[dim.variable]; ok {
				text += " " + dim.variable + "=" + value
			}
		}
		text += "\n"
	}
	return text
}

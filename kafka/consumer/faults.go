package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A partition whose reading, leader or commits fail waits, and the others go on. An error that lasts for
// faultLasts is an alarm, which is repeated at alarmInterval until the error has passed.
const (
	faultLasts    = 30 * time.Second
	alarmInterval = time.Minute
	// readFaultMemory is the time after which an error of a fetch counts as over: a fetch that fails is
	// repeated after errorPause, and one without records can't be told from none.
	readFaultMemory = 3 * errorPause
)

// fault is an error of a partition that repeats.
type fault struct {
	since, last time.Time
	err         error // nil if there is none
}

// note takes note of an error, and of nil, which ends the fault.
func (f *fault) note(err error, now time.Time) {
	switch {
	case err == nil:
		*f = fault{}
		return
	case f.err == nil:
		f.since = now
	}
	f.last, f.err = now, err
}

// expire ends a fault that was not seen for some time.
func (f *fault) expire(after time.Duration, now time.Time) {
	if f.err != nil && now.Sub(f.last) > after {
		*f = fault{}
	}
}

// faults are those of a partition: its fetches fail, its leader does not answer, or its offset can't be
// committed.
type faults struct{ reading, listing, committing fault }

const cantRead = "partitions can't be read"

// worst returns the fault that lasts for the longest time, and what it means.
func (f *faults) worst(now time.Time) (worst fault, what string) {
	f.reading.expire(readFaultMemory, now)
	what = cantRead
	for _, each := range []fault{f.listing, f.reading, f.committing} {
		if each.err != nil && (worst.err == nil || each.since.Before(worst.since)) {
			worst = each
		}
	}
	if worst == f.committing {
		what = "the offsets of partitions can't be committed"
	}
	return worst, what
}

// deleted takes note that the topic of the partition does not exist, which the other errors come from.
func (f *faults) deleted(now time.Time) {
	if f.listing.note(errTopicDeleted, now); f.reading.err != nil {
		f.reading.note(errTopicDeleted, now)
	}
}

// errTopicDeleted is the fault of a partition whose topic does not exist any more.
var errTopicDeleted = errors.New("the topic was deleted: remove it from Topics (IDEMSK_KAFKA_TOPICS), or create it again")

// failing is a partition, or a topic without any, that fails.
type failing struct {
	at    place
	next  string // the record to read, or the topic
	fault fault
	what  string
}

// failing returns what fails, sorted. The caller holds mu.
func (m *member) failing(now time.Time) (all []failing) {
	for at, p := range m.partitions {
		if worst, what := p.faults.worst(now); worst.err != nil {
			all = append(all, failing{at, p.source(at), worst, what})
		}
	}
	for topic, f := range m.missing {
		if !m.has(topic) { // the group has taken its partitions away
			all = append(all, failing{place{topic, -1}, topic, *f, cantRead})
		}
	}
	slices.SortFunc(all, func(a, b failing) int { return a.at.compare(b.at) })
	return all
}

// has reports whether a partition of a topic is assigned. The caller holds mu.
func (m *member) has(topic string) bool {
	for at := range m.partitions {
		if at.topic == topic {
			return true
		}
	}
	return false
}

// alarm writes the faults that last, one line for each error.
func (m *member) alarm(ctx context.Context, now time.Time) {
	m.mu.Lock()
	all := m.failing(now)
	m.mu.Unlock()
	lines := make(map[[2]string][]failing)
	for _, f := range all {
		if f.fault.last.Sub(f.fault.since) >= faultLasts {
			id := [2]string{f.what, f.fault.err.Error()}
			lines[id] = append(lines[id], f)
		}
	}
	for id, line := range lines {
		if _, ok := m.seldom.allow(fmt.Sprint("alarm ", line[0].at), alarmInterval); !ok {
			continue
		}
		since, next := now, make([]string, len(line))
		for i, f := range line {
			next[i] = f.next
			if f.fault.since.Before(since) {
				since = f.fault.since
			}
		}
		m.log.LogAttrs(ctx, slog.LevelError, id[0]+": they wait until this is repaired, and others go on",
			slog.Any("partitions", some(next)), slog.String("error", id[1]),
			slog.String("for", now.Sub(since).Round(time.Second).String()), slog.Bool("alarm", true))
	}
}

// some returns the first records of a line, sorted, and how many there are beside them.
func some(sources []string) []string {
	const most = 10
	slices.Sort(sources)
	if n := len(sources) - most; n > 0 {
		return append(sources[:most:most], fmt.Sprintf("and %d others", n))
	}
	return sources
}

// refusedFor is how long the brokers may refuse the credentials of a process that runs: those of a secret
// that is rotated are read again within half a minute.
const refusedFor = 40 * time.Second

// refusedMemory is the time after which a refusal counts as over. It is also over when the process has joined
// the group again.
const refusedMemory = 5 * time.Minute

// refused returns an error if the brokers have refused the credentials for some time, so that Run must end.
// The caller holds mu.
func (m *member) refused(err error, now time.Time) error {
	if !refusesPassword(err) && !refusesCertificate(err) {
		return nil
	}
	m.credentials.expire(refusedMemory, now)
	if m.credentials.note(err, now); now.Sub(m.credentials.since) < refusedFor {
		return nil
	}
	return fmt.Errorf("%w: the brokers have refused the credentials for %v: %s: %w", ErrOperator,
		now.Sub(m.credentials.since).Round(time.Second), credentialsAdvice, err)
}

const credentialsAdvice = "check the user, the password and the SASL mechanism, or the client certificate"

// refusesPassword reports whether brokers refuse the user, the password or the mechanism of a connection.
func refusesPassword(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism)
}

// refusesCertificate reports whether a broker refuses a connection by an alert of TLS.
func refusesCertificate(err error) bool {
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error" // of package crypto/tls
}

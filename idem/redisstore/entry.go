package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// The form of a stored value, which the scripts read by position. Numbers are big-endian; times have milliseconds.
//
//	1  kind; its high bits are the version of the form
//	1  flags: which of the optional parts follow
//	6  fencing token
//	5  expiry in epoch seconds; the server deletes the key MaxClockSkew later
//	6  time of the update
//	2  attempts
//	6  of a held key the end of the lease, of a released key the time from which it can be claimed
//	6  flagCreated: time of the creation; otherwise it is the token, as of each key that is claimed once
//	1  size of the owner, and the owner
//	32 flagFingerprint: the fingerprint
//	2  size of the source, and the source
//	   flagFailure: 6 its time, 1 size of the code, the code, 2 size of the message, the message
//	4  flagOmitted: size of the result that was not stored
//	   the result
//
// Nothing is read of what a later version may write with another kind or another flag.
const (
	kindStarted byte = 0xC1 + iota
	kindReleased
	kindCompleted
	kindFailed
)

const (
	flagFingerprint byte = 1 << iota
	flagCreated
	flagFailure
	flagOmitted
)

// The bounds of the form.
const (
	maxOwner   = math.MaxUint8
	maxSource  = math.MaxUint16
	maxCounted = math.MaxUint16 // further attempts are not counted
)

var errForm = errors.New("its value has another form than this version of idemsk writes")

// outcome is the first byte of the answer of a script.
type outcome byte

// The outcomes. The scripts use the same numbers.
const (
	absent outcome = iota
	done           // settled or deleted; or claimed by none, because the key is COMPLETED or FAILED
	fenced
	fresh
	claimed
	stolen
	inFlight
	leaseOver
	mismatch
)

// answer is the answer of a script for a key. Its form is:
//
//	1  outcome
//	6  fresh: the time by the server's clock. Otherwise the time to wait
//	4  size of the result if it was left out, or 0
//	   the current value; none if there is no entry
//
// The parts behind the outcome, behind the time and behind the size may be missing.
type answer struct {
	what  outcome
	time  int64       // in ms
	entry store.Entry // the current entry; zero if there is none
	large int         // the size of the result if it was left out
}

var errAnswer = errors.New("the server's answer can't be read: is there a proxy between, or a script of another program?")

// newEntry returns the entry of a key that was claimed at a time for the first time (rule 2).
func newEntry(req *store.ClaimRequest, at time.Time) store.Entry {
	leaseUntil := at.Add(req.Lease.Truncate(time.Millisecond))
	expiry := leaseUntil.UnixMilli() + ceilMillis(req.Retention)
	return store.Entry{
		Key: req.Key, Status: store.StatusStarted, Token: at.UnixMilli(), Owner: req.Owner, Attempts: 1,
		Fingerprint: req.Fingerprint, Source: req.Source, LeaseUntil: leaseUntil, CreatedAt: at, UpdatedAt: at,
		Expiry: time.Unix((expiry+999)/1000, 0), //nolint:mnd // rounded up
	}
}

// readAnswer reads what a script answers for a key.
func readAnswer(key string, value any) (answer, error) {
	if err, ok := value.(error); ok {
		return answer{}, err
	}
	text, ok := value.(string)
	r := reader{text: text}
	a := answer{what: outcome(r.number(1))}
	if !ok || r.short || a.what > mismatch {
		return answer{}, errAnswer
	}
	if len(r.text) > 0 {
		a.time = r.number(sizeTime)
	}
	if len(r.text) > 0 {
		a.large = int(r.number(sizeCount))
	}
	if r.short {
		return answer{}, errAnswer
	}
	if r.text == "" {
		return a, nil
	}
	var err error
	a.entry, err = decode(key, r.text)
	return a, err
}

// The sizes of numbers.
const (
	sizeTime   = 6
	sizeExpiry = 5
	sizeCount  = 4
	sizeShort  = 2
)

// reader reads the parts of a value. After the end it returns zero values.
type reader struct {
	text  string
	short bool
}

func (r *reader) bytes(n int) string {
	if n > len(r.text) {
		r.text, r.short = "", true
		return ""
	}
	part := r.text[:n]
	r.text = r.text[n:]
	return part
}

func (r *reader) number(size int) (n int64) {
	part := r.bytes(size)
	for i := range len(part) {
		n = n<<8 | int64(part[i])
	}
	return n
}

func (r *reader) millis() time.Time { return time.UnixMilli(r.number(sizeTime)) }

// sized returns the text behind its size, which has so many bytes.
func (r *reader) sized(size int) string { return r.bytes(int(r.number(size))) }

// decode returns the entry of a value, or store.ErrForeignEntry (wrapped).
func decode(key, value string) (store.Entry, error) {
	r := reader{text: value}
	kind, flags := byte(r.number(1)), byte(r.number(1))
	entry := store.Entry{Key: key, Token: r.number(sizeTime), Expiry: time.Unix(r.number(sizeExpiry), 0), UpdatedAt: r.millis(),
		Attempts: int(r.number(sizeShort))}
	switch kind {
	case kindStarted:
		entry.Status, entry.LeaseUntil = store.StatusStarted, r.millis()
	case kindReleased:
		entry.Status, entry.RetryAt = store.StatusStarted, r.millis()
	case kindCompleted:
		entry.Status = store.StatusCompleted
	case kindFailed:
		entry.Status = store.StatusFailed
	}
	if entry.CreatedAt = time.UnixMilli(entry.Token); flags&flagCreated != 0 {
		entry.CreatedAt = r.millis()
	}
	entry.Owner = r.sized(1)
	if flags&flagFingerprint != 0 {
		copy(entry.Fingerprint[:], r.bytes(len(entry.Fingerprint)))
	}
	entry.Source = r.sized(sizeShort)
	if flags&flagFailure != 0 {
		entry.Failure = &store.Failure{At: r.millis(), Code: r.sized(1), Message: r.sized(sizeShort)}
	}
	if flags&flagOmitted != 0 {
		entry.ResultOmitted = int(int32(r.number(sizeCount)))
	}
	if r.text != "" {
		entry.Result = []byte(r.text)
	}
	if r.short || entry.Status == "" || flags >= flagOmitted<<1 {
		return store.Entry{}, fmt.Errorf("%w: key %q: %w", store.ErrForeignEntry, key, errForm)
	}
	return entry, nil
}

// claimAsk returns the argument of the claim script: 6 lease, 6 retention, 6 token of a redrive, 1 take over, 1 flags, and
// owner, fingerprint and source as in an entry.
func claimAsk(req *store.ClaimRequest) []byte {
	b := make([]byte, 0, 32+len(req.Owner)+len(req.Fingerprint)+len(req.Source))
	b = appendTime(b, req.Lease.Milliseconds())
	b = appendTime(b, ceilMillis(req.Retention))
	b = appendToken(b, req.RedriveToken)
	b = append(b, flag(req.TakeOver))
	if req.Fingerprint.IsZero() {
		b = appendSized(append(b, 0), req.Owner)
	} else {
		b = append(appendSized(append(b, flagFingerprint), req.Owner), req.Fingerprint[:]...)
	}
	return appendText(b, req.Source)
}

// settleAsk returns the argument of the settle script: 1 operation, 6 token, 6 retention, 6 lease or delay, 1 refund, 1 flags,
// 4 omitted size, the owner and, as in an entry, the failure without its time, or the result.
func settleAsk(set *store.Settlement) []byte {
	span, flags := set.Delay, byte(0)
	f := set.Failure
	switch {
	case set.Op == store.OpExtend:
		span, f = set.Lease, nil
	case set.Op == store.OpComplete:
		if f = nil; set.ResultOmitted != 0 {
			flags = flagOmitted
		}
	case f != nil:
		flags = flagFailure
	}
	b := make([]byte, 0, 32+len(set.Owner)+len(set.Result))
	b = appendToken(append(b, byte(set.Op)), set.Token)
	b = appendTime(b, ceilMillis(set.Retention))
	b = appendTime(b, span.Milliseconds())
	b = append(b, flag(set.Refund), flags)
	b = binary.BigEndian.AppendUint32(b, uint32(int32(set.ResultOmitted)))
	b = appendSized(b, set.Owner)
	if f != nil {
		b = appendSized(b, f.Code[:min(len(f.Code), math.MaxUint8)])
		return appendText(b, f.Message[:min(len(f.Message), math.MaxUint16)])
	}
	if set.Op == store.OpComplete {
		b = append(b, set.Result...)
	}
	return b
}

// appendToken appends a token: 0, which no key has, in the place of one that the form has no room for.
func appendToken(b []byte, token int64) []byte {
	if token < 0 || token >= 1<<(8*sizeTime) {
		token = 0
	}
	return appendTime(b, token)
}

// appendTime appends a number of six bytes.
func appendTime(b []byte, n int64) []byte {
	return append(b, byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) //nolint:mnd // from the highest
}

// appendSized and appendText append a text behind its size in one byte and in two, in which it must fit.
func appendSized(b []byte, text string) []byte { return append(append(b, byte(len(text))), text...) }

func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// fits returns an error for an owner or a source that the form has no room for.
func fits(owner, source string) error {
	if len(owner) > maxOwner || len(source) > maxSource {
		return fmt.Errorf("the owner has %d bytes and the source %d: want at most %d and %d", len(owner), len(source), maxOwner,
			maxSource)
	}
	return nil
}

package simulation_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// entry is what the store keeps of a key, as far as the invariants need it.
type entry struct {
	status, owner               string
	token, lease, retry, expiry int64 // epoch ms, the expiry in s
	attempts                    int64
	fingerprint, result         []byte
}

const completed, failed, started = "COMPLETED", "FAILED", "STARTED"

func entryOf(item map[string]attributeValue) (e entry) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(item[name].N, 10, 64) // 0 if it is absent
		return n
	}
	return entry{
		status: item["status"].S, owner: item["owner"].S, token: number("version"), lease: number("leaseUntil"), retry: number("retryAt"),
		expiry: number("expiryTimestamp"), attempts: number("attempts"), fingerprint: item["requestFingerprint"].B, result: item["responsePayload"].B,
	}
}

// check compares the entry of a payment with the one before the step of a process. The caller holds w.mu.
func (w *world) check(p *process, key string) {
	before, now := w.entries[key], entryOf(w.item(keysTable, "idempotencyKey", w.storedKey(key)))
	w.checkBookings(key, &now)
	if reflect.DeepEqual(before, now) {
		return
	}
	w.entries[key] = now
	w.trace = append(w.trace, event{time.Since(w.begun), p.name, fmt.Sprintf("makes %s %s, token %d, attempt %d, retry %d", key, now.status, now.token, now.attempts, now.retry)})
	wrong := func(format string, args ...any) {
		w.violatedLockedf(key, "%s\n  before: %+v\n  now:    %+v", fmt.Sprintf(format, args...), before, now)
	}
	switch {
	case now.status == "":
		wrong("was deleted")
	case before.status == completed || before.status == failed:
		wrong("was final and has changed")
	case now.token < before.token:
		wrong("has a smaller token")
	case now.status == started && now.expiry*1000 < now.lease:
		wrong("can be deleted before its lease ends")
	case now.owner != before.owner:
		w.checkClaim(p, &before, &now, wrong)
	default:
		w.checkSettlement(p, &before, &now, wrong)
	}
	if now.status == started && now.retry != 0 && now.attempts == 0 {
		w.givenBack(key, now.token)
	}
	switch now.status {
	case completed:
		w.checkCompletion(p, key, &now, wrong)
	case failed:
		if !slices.ContainsFunc(w.letters, func(l kafka.DeadLetter) bool { return w.isLetterOf(&l, key, now.token) }) {
			wrong("is FAILED, and its dead letter was not sent")
		}
	}
}

// givenBack records that the first attempt at a payment was given back. The caller holds w.mu.
func (w *world) givenBack(payment string, token int64) {
	for _, e := range w.handling[payment] {
		if e.token == token {
			e.first = false
		}
	}
}

// checkClaim checks a step that changed the owner.
func (w *world) checkClaim(p *process, before, now *entry, wrong func(string, ...any)) {
	// A process may use an owner twice: it sends a claim again without knowing that the first one was applied, and was taken over meanwhile.
	if other := w.owners[now.owner]; other != nil && other != p {
		wrong("was claimed under an owner that %s had used", other.name)
	}
	w.owners[now.owner] = p
	if before.status == "" {
		released := w.claimRange && now.retry != 0 && now.attempts <= 1
		if !released && (now.attempts != 1 || now.retry != 0) {
			wrong("is new, and not at its first attempt")
		}
		return
	}
	clock := time.Now().Add(p.offset).UnixMilli()
	switch {
	case now.status != started:
		wrong("has a new owner without a claim")
	case now.token != before.token+1 || now.attempts != before.attempts+1 || now.retry != 0:
		wrong("was taken over, and its token or attempts are not one more")
	case before.retry != 0 && clock < before.retry:
		wrong("was taken before its retry time")
	case before.retry == 0 && clock < before.lease+skew.Milliseconds():
		wrong("was taken %d ms before its lease was over at the clock of %s", before.lease+skew.Milliseconds()-clock, p.name)
	}
}

// checkSettlement checks a step that kept the owner.
func (w *world) checkSettlement(p *process, before, now *entry, wrong func(string, ...any)) {
	released := before.retry == 0 && now.retry != 0
	switch {
	case w.owners[now.owner] != p:
		wrong("was changed by %s, which does not own it", p.name)
	case now.token != before.token:
		wrong("has a new token under the same owner")
	case before.retry != 0:
		wrong("was changed by an owner that had released it")
	case now.attempts != before.attempts && (!released || now.attempts != before.attempts-1):
		wrong("has other attempts under the same owner")
	case now.status == started && now.lease < before.lease:
		wrong("has a shorter lease")
	}
}

// checkCompletion checks that the result is that of the owner's handler.
func (w *world) checkCompletion(p *process, key string, now *entry, wrong func(string, ...any)) {
	r, ok := w.receiptOf(key, now)
	if !ok || r.Token != now.token {
		wrong("is COMPLETED with token %d and the result %s", now.token, now.result)
		return
	}
	if !slices.ContainsFunc(w.handling[key], func(e *execution) bool { return e.process == p && e.token == now.token }) {
		wrong("is COMPLETED by %s, which has not handled it with token %d", p.name, now.token)
	}
	if sum := fingerprintOf(r.Payment); !w.noFingerprints() && !slices.Equal(sum, now.fingerprint) {
		wrong("is COMPLETED with the result of another payment")
	}
}

// receiptOf returns the result of a completed key. Without stored results it is made of what the owner has handled. The caller holds w.mu.
func (w *world) receiptOf(key string, now *entry) (r receipt, ok bool) {
	if len(now.result) > 0 {
		return r, json.Unmarshal(now.result, &r) == nil
	}
	i := slices.IndexFunc(w.handling[key], func(e *execution) bool { return e.token == now.token })
	if i < 0 {
		return r, false
	}
	return receipt{w.handling[key][i].payment, now.token}, true
}

func fingerprintOf(p payment) []byte {
	value, err := json.Marshal(p)
	if err != nil {
		panic(err) // a payment encodes
	}
	sum := sha256.Sum256(value)
	return sum[:]
}

// checkBookings checks that a booking is there if and only if the key is COMPLETED.
func (w *world) checkBookings(key string, now *entry) {
	item := w.item(bookingsTable, "payment", key)
	total := item["total"].N
	want := ""
	if now.status == completed {
		if r, ok := w.receiptOf(key, now); ok && r.Payment.Kind != fenced {
			want = "1"
		}
	}
	if total != want {
		w.violatedLockedf(key, "is %q, and is booked %q times, want %q", now.status, total, want)
	}
}

// isLetterOf reports whether a dead letter is that of a key which FAILED with this token.
func (w *world) isLetterOf(l *kafka.DeadLetter, key string, token int64) bool {
	if strings.HasPrefix(key, function) {
		return strings.HasPrefix(key, function+"@"+l.Source()+"@")
	}
	return l.IdempotencyKey == w.storedKey(key) && l.Token == token
}

// open describes the keys that are not final.
func (w *world) open() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	for key, e := range w.entries {
		if e.status == started {
			text += fmt.Sprintf("%s %+v ", key, e)
		}
	}
	return text
}

// checkEnd checks what is left when all records are committed and nothing is in flight.
func (w *world) checkEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := make(map[string]bool) // the places of records that must have a letter
	allowed := make(map[string]bool)
	for _, r := range slices.Concat(w.records...) {
		key := r.payment.ID
		now := entryOf(w.item(keysTable, "idempotencyKey", w.storedKey(key)))
		switch {
		case r.keyless:
			wanted[r.source()] = true
			continue
		case now.status != completed && now.status != failed:
			w.violatedLockedf(key, "is %q at the end", now.status)
		case !w.noFingerprints() && !slices.Equal(now.fingerprint, fingerprintOf(r.payment)):
			wanted[r.source()] = true
			continue
		case now.status == failed && now.attempts > maxAttempts: // its processes died that often
			allowed[r.source()] = true
		case now.status == failed && now.attempts == maxAttempts && w.failedByOutage(key): // fewer keys than an outage needs had failed
			allowed[r.source()] = true
		case (now.status == failed) != r.payment.Kind.fails():
			w.violatedLockedf(key, "of the kind %s is %s at the end, after %d attempts", r.payment.Kind, now.status, now.attempts)
		case now.status == failed:
			allowed[r.source()] = true
		case r.payment.Kind == fenced && w.item(bookingsTable, "payment", key)["token"].N != strconv.FormatInt(now.token, 10):
			w.violatedLockedf(key, "is COMPLETED with token %d, and its effect is of another", now.token)
		}
	}
	w.checkBalances()
	w.checkLetters(wanted, allowed)
}

// failedByOutage reports whether an outage of what the handler needs has used up attempts of a payment. The caller holds w.mu.
func (w *world) failedByOutage(payment string) bool {
	return slices.ContainsFunc(w.handling[payment], func(e *execution) bool { return e.down })
}

// checkBalances compares each account with the payments that completed.
func (w *world) checkBalances() {
	want := make(map[string]int)
	for key, e := range w.entries {
		if r, ok := w.receiptOf(key, &e); ok && e.status == completed && r.Payment.Kind != fenced {
			want[r.Payment.Account] += r.Payment.Amount
		}
	}
	for i := range 4 {
		account := "account-" + strconv.Itoa(i)
		is, _ := strconv.Atoi(w.item(accountsTable, "account", account)["total"].N) // 0 if it is absent
		if is != want[account] {
			w.violatedLockedf(account, "has the balance %d, want %d", is, want[account])
		}
	}
}

// checkLetters checks that the records that must have a dead letter have one, and no other has.
func (w *world) checkLetters(wanted, allowed map[string]bool) {
	sent := make(map[string]bool)
	for i := range w.letters {
		source := w.letters[i].Source()
		if !wanted[source] && !allowed[source] {
			w.violatedLockedf(source, "has a dead letter: %s", w.letters[i].Error.Message)
		}
		sent[source] = true
	}
	for source := range wanted {
		if !sent[source] {
			w.violatedLockedf(source, "has no dead letter")
		}
	}
}

// checkExpiry checks that time to live deletes all entries after the retention, and none before.
func (w *world) checkExpiry() {
	n := w.tables.ExpireNow(time.Now().Add(retention - faulty - patience))
	_ = sleep(context.Background(), retention+patience) // can't end early
	w.mu.Lock()
	defer w.mu.Unlock()
	want := len(w.entries)
	for partition := range w.records {
		if w.item(keysTable, "idempotencyKey", fmt.Sprintf("%s%%%s-%d", function, topic, partition)) != nil {
			want++ // its lease
		}
	}
	if all := w.tables.ExpireNow(time.Now()); n > 0 || all != want {
		w.violatedLockedf("", "%d entries were deleted before their retention was over, and %d of %d after it", n, all, want)
	}
}

package simulation_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// checkEnd checks what is left when all records are committed and nothing is in flight.
func (w *world) checkEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.topic.all {
		w.checkRecord(r)
	}
	for key, h := range w.keys {
		w.checkUnended(key, h)
		switch {
		case w.is("registry", "silent") && w.isPlace(key):
			// it was claimed under its place while its key was not known
		case w.isPlaceOfUnknown(key): // it was claimed under its place while its key was FAILED
		case len(h.redriven) > len(h.delivered):
			// the function that redrove it died, and its letter is there still
		case h.entry.status == started && w.promises(settled) && w.promises(protected) && w.promises(once) &&
			h.entry.retry == 0:
			w.violatedLockedf(key, "is STARTED at the end: %+v", h.entry)
		case h.entry.status == failed && h.delivered[h.entry.token] && w.promises(protected) &&
			!w.isPlace(key):
			w.violatedLockedf(key, "is FAILED with the token %d still, though its dead letter was redriven",
				h.entry.token)
		}
	}
	w.checkBalances()
	w.checkEvents()
}

// checkRecord checks what became of a record.
func (w *world) checkRecord(r *record) {
	switch {
	case r.lost != "":
	case !w.settledRecord(r):
		w.violatedLockedf(r.source(), "is not settled at the end: %s", w.state(r))
	case r.key == "" && !w.hasLetter(r):
		w.violatedLockedf(r.source(), "has no key and no dead letter")
	case r.key == "":
	case r.unknown && w.promises(protected) && !w.hasLetter(r) && len(w.of(r.key).completions) == 0:
		w.violatedLockedf(r.source(), "was redriven with a token that its key never had, and is neither done nor has a letter: %s", w.state(r))
	case r.unknown:
	case r.redrive > 0 && w.promises(protected) && !w.hasLetter(r) && !w.of(r.key).doneAfter(r.redrive):
		w.violatedLockedf(r.source(), "was redriven with token %d, and is neither done nor has a new letter: %s", r.redrive, w.state(r))
	case w.misused(r) && !w.hasLetter(r) && w.promises(protected):
		w.violatedLockedf(r.source(), "has a key that was used for another value, and no dead letter")
	}
}

// misused reports whether a record's key was always used for another value.
func (w *world) misused(r *record) bool {
	prints := w.of(r.key).prints
	return r.print != nil && len(prints) == 1 && !prints[string(r.print)]
}

// checkEvents checks that the outbox has the event of each completion, and no other.
func (w *world) checkEvents() {
	want := 0
	for key, h := range w.keys {
		for token := range h.completions {
			want++
			if w.is("effects", "outbox") &&
				w.item(outboxTable, dynamooutbox.AttrID, eventID(key, token)) == nil {
				w.violatedLockedf(key, "is COMPLETED with the token %d, and its event is not in the outbox",
					token)
			}
		}
	}
	status, out := call(w.tables, "DynamoDB_20120810.Scan", []byte(`{"TableName":"`+outboxTable+`"}`))
	var scanned struct{ Count int }
	if err := json.Unmarshal(out, &scanned); err != nil || status != http.StatusOK {
		panic(fmt.Sprintf("scanning the outbox: %d %s", status, out))
	}
	if w.is("effects", "outbox") && scanned.Count != want {
		w.violatedLockedf("", "the outbox has %d events of %d completions", scanned.Count, want)
	}
}

// checkBalances compares each account with the payments that completed.
func (w *world) checkBalances() {
	want := make(map[string]int)
	for _, h := range w.keys {
		for token := range h.completions {
			for _, e := range h.calls {
				if e.token == token && e.succeeded && w.transactional() {
					want[e.record.payment.Account] += e.record.payment.Amount
					break
				}
			}
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

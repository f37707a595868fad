package expect

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Payment is a record's value, as the example handler documents it.
type Payment struct {
	PaymentID string `json:"paymentId"`
	Account   string `json:"account"`
	Amount    int64  `json:"amount"` // in minor units: cents
	Currency  string `json:"currency"`
	Simulate  string `json:"simulate,omitempty"`
}

// payment returns the payment that a value asks for; false if it can't be booked, ever.
func (r *Rules) payment(value []byte) (Payment, bool) {
	var p Payment
	if value == nil || json.Unmarshal(value, &p) != nil {
		return p, false
	}
	valid := p.PaymentID != "" && p.Account != "" && p.Amount != 0 && isCurrency(p.Currency)
	return p, valid && (!r.Simulate || r.survives(p.Simulate))
}

func isCurrency(s string) bool {
	const letters = 3
	return len(s) == letters && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// survives reports whether a payment with a simulated failure is booked in the end.
func (r *Rules) survives(simulate string) bool {
	kind, arg, _ := strings.Cut(simulate, ":")
	switch kind {
	case "":
		return true
	case "retry":
		times, err := strconv.Atoi(arg)
		return err == nil && times < r.MaxAttempts
	case "sleep":
		_, err := time.ParseDuration(arg)
		return err == nil
	}
	return false // permanent, panic, exit, and what the handler does not know
}

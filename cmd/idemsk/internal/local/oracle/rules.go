package oracle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/idem"
)

// Rules are the settings of the function that decide the outcome of a record.
type Rules struct {
	Key         string // IDEMSK_KEY: header:NAME, key, hash or offset
	Namespace   string // IDEMSK_NAMESPACE, or the function's name
	KeyScope    string // IDEMSK_KEY_SCOPE: topic (also if empty) or namespace
	MissingKey  string // IDEMSK_MISSING_KEY: reject (also if empty) or process
	MaxAttempts int    // IDEMSK_MAX_ATTEMPTS
	// IDEMSK_COMMIT_WINDOW: the maximum number of bookings that the kill of a process repeats in plain mode
	CommitWindow int
	HashKeys     bool // IDEMSK_HASH_KEYS
	Simulate     bool // IDEMSK_SIMULATE=on
}

// ReadRules returns the rules of a function from its name and its variables, NAME=VALUE. The last value of a
// name counts. It returns an error for settings that the oracle does not support.
func ReadRules(function string, variables []string) (Rules, error) {
	env := map[string]string{}
	for _, entry := range variables {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	var errs []error
	number := func(name string, usual int) int {
		if env[name] == "" {
			return usual
		}
		n, err := strconv.Atoi(env[name])
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s is %q: want a whole number of at least 1", name, env[name]))
		}
		return n
	}
	usual := idem.Defaults()
	rules := Rules{
		Key:       cmp.Or(env["IDEMSK_KEY"], "header:idempotency-key"),
		Namespace: cmp.Or(env["IDEMSK_NAMESPACE"], function),
		KeyScope:  env["IDEMSK_KEY_SCOPE"], MissingKey: env["IDEMSK_MISSING_KEY"],
		HashKeys:     env["IDEMSK_HASH_KEYS"] == "true",
		MaxAttempts:  number("IDEMSK_MAX_ATTEMPTS", usual.MaxAttempts),
		CommitWindow: number("IDEMSK_COMMIT_WINDOW", idem.DefaultCommitWindow(number("IDEMSK_CONCURRENCY", 1))),
		Simulate:     cmp.Or(env["IDEMSK_SIMULATE"], "on") == "on",
	}
	return rules, errors.Join(append(errs, checkKey(rules.Key))...)
}

// storedKey returns the key under which the store keeps the state of a record's key.
func (r *Rules) storedKey(topic, key string) string {
	if r.KeyScope == "namespace" {
		topic = ""
	}
	return r.Namespace + "#" + topic + "#" + key
}

// payment returns the payment that a value asks for, and false if it is never booked.
func (r *Rules) payment(value []byte) (payments.Payment, bool) {
	var p payments.Payment
	if value == nil || json.Unmarshal(value, &p) != nil {
		return p, false
	}
	valid := p.PaymentID != "" && p.Account != "" && p.Amount != 0 && isCurrency(p.Currency)
	return p, valid && (!r.Simulate || r.succeeds(p.Simulate))
}

func isCurrency(s string) bool {
	const letters = 3
	return len(s) == letters && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// succeeds reports whether one of the attempts with a simulated failure succeeds.
func (r *Rules) succeeds(simulate string) bool {
	kind, arg, _ := strings.Cut(simulate, ":")
	switch kind {
	case "":
		return true
	case "retry", "freeze":
		times, err := strconv.Atoi(arg)
		return err == nil && times < r.MaxAttempts
	case "sleep":
		_, err := time.ParseDuration(arg)
		return err == nil
	}
	return false // permanent, panic, exit, and any other value
}

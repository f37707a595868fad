package expect

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/idem"
)

// Rules are the settings of the function that decide what must come of a record.
type Rules struct {
	Key         string // IDEMSK_KEY: header:NAME, key, hash or offset
	Namespace   string // IDEMSK_NAMESPACE, or the function's name
	KeyScope    string // IDEMSK_KEY_SCOPE: topic (also if empty) or namespace
	MissingKey  string // IDEMSK_MISSING_KEY: reject (also if empty) or process
	MaxAttempts int    // IDEMSK_MAX_ATTEMPTS
	HashKeys    bool   // IDEMSK_HASH_KEYS
	Simulate    bool   // IDEMSK_SIMULATE=on
}

// ReadRules returns the rules of a function by its variables, NAME=VALUE, of which the last of a name counts. It returns an
// error for settings by which it can't be told what must be in the ledger.
func ReadRules(function string, variables []string) (Rules, error) {
	env := map[string]string{}
	for _, entry := range variables {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	attempts := cmp.Or(env["IDEMSK_MAX_ATTEMPTS"], strconv.Itoa(idem.Defaults().MaxAttempts))
	rules := Rules{
		Key: cmp.Or(env["IDEMSK_KEY"], "header:idempotency-key"), Namespace: cmp.Or(env["IDEMSK_NAMESPACE"], function),
		KeyScope: env["IDEMSK_KEY_SCOPE"], MissingKey: env["IDEMSK_MISSING_KEY"], HashKeys: env["IDEMSK_HASH_KEYS"] == "true",
		Simulate: cmp.Or(env["IDEMSK_SIMULATE"], "on") == "on",
	}
	var wrong error
	var err error
	if rules.MaxAttempts, err = strconv.Atoi(attempts); err != nil || rules.MaxAttempts < 1 {
		wrong = fmt.Errorf("IDEMSK_MAX_ATTEMPTS is %q: want a whole number of at least 1", attempts)
	}
	return rules, errors.Join(wrong, CheckKey(rules.Key))
}

// storedKey is where the fate of a key is recorded.
func (r *Rules) storedKey(topic, key string) string {
	if r.KeyScope == "namespace" {
		topic = ""
	}
	return r.Namespace + "#" + topic + "#" + key
}

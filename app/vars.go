package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/text/redact"
)

// VarError describes an invalid variable, on one line.
type VarError struct {
	Name, Value string
	Want        string // what is allowed, and why if necessary
}

// Error implements error.
func (e *VarError) Error() string {
	return fmt.Sprintf("%s is %q: want %s", e.Name, redact.Setting(e.Name, e.Value), e.Want)
}

// Vars reads environment variables and collects errors, so that all can be reported together. A variable that
// is set but empty counts as not set.
type Vars struct {
	lookup  func(name string) (string, bool)
	environ func() []string // NAME=value; nil if not known
	errs    []error
	failed  map[string]bool
	asked   map[string]bool
}

// NewVars returns a reader of the variables that lookup finds.
func NewVars(lookup func(name string) (string, bool)) *Vars {
	return &Vars{lookup: lookup, failed: make(map[string]bool), asked: make(map[string]bool)}
}

// Environment returns a reader of the process's variables.
func Environment() *Vars {
	v := NewVars(os.LookupEnv)
	v.environ = os.Environ
	return v
}

// Err returns the errors so far, or nil.
func (v *Vars) Err() error { return errors.Join(v.errs...) }

// Fail records that a variable's value is invalid; want describes valid values.
func (v *Vars) Fail(name, value, want string) {
	v.fail(name, &VarError{Name: name, Value: value, Want: want})
}

// FailSecret records that a variable's value is missing or invalid, without repeating the value.
func (v *Vars) FailSecret(name, want string) {
	v.fail(name, fmt.Errorf("%s is missing or wrong: want %s", name, want))
}

// fail records an error once: two parts of a program may read the same variable.
func (v *Vars) fail(name string, err error) {
	if !slices.ContainsFunc(v.errs, func(e error) bool { return e.Error() == err.Error() }) {
		v.errs = append(v.errs, err)
	}
	v.failed[name] = true
}

// valid reports whether none of the given variables has failed, so that they can be compared with each other.
func (v *Vars) valid(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return v.failed[name] })
}

// String returns a variable, or def if it is not set.
func (v *Vars) String(name, def string) string {
	v.asked[name] = true
	if s, ok := v.lookup(name); ok && s != "" {
		return s
	}
	return def
}

// OneOf returns a variable that is one of some words, the first of which is its default.
func (v *Vars) OneOf(name string, words ...string) string {
	s := v.String(name, words[0])
	if !slices.Contains(words, s) {
		v.Fail(name, s, "one of "+strings.Join(words, ", "))
	}
	return s
}

// Int returns a whole number from least to most.
func (v *Vars) Int(name string, def, least, most int) int {
	s := v.String(name, strconv.Itoa(def))
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		v.Fail(name, s, fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n
}

// Bool returns true or false.
func (v *Vars) Bool(name string, def bool) bool {
	s := v.String(name, strconv.FormatBool(def))
	if s != "true" && s != "false" {
		v.Fail(name, s, "true or false")
	}
	return s == "true"
}

// Duration returns a duration from least to most, as Go writes them: 30s, 168h, 1h30m.
func (v *Vars) Duration(name string, def, least, most time.Duration) time.Duration {
	s := v.String(name, def.String())
	d, err := time.ParseDuration(s)
	if err != nil || d < least || d > most {
		v.Fail(name, s, fmt.Sprintf("a duration like 30s or 168h, from %v to %v", least, most))
	}
	return d
}

// Table returns the name of a DynamoDB table, or its ARN.
func (v *Vars) Table(name, def string) string {
	s := v.String(name, def)
	if !dynamostore.ValidTable(s) {
		v.Fail(name, s, "a table's name of 3 to 255 letters, digits, '_', '.' or '-', or its ARN")
	}
	return s
}

// URL returns an absolute http or https URL, or "" if the variable is not set.
func (v *Vars) URL(name string) string {
	s := v.String(name, "")
	if s == "" {
		return ""
	}
	if u, err := url.Parse(s); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		v.Fail(name, s, "an http or https URL")
	}
	return s
}

package consumer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// PropError describes an invalid prop, on one line.
type PropError struct {
	Prop  string // its name in Props, with dots for nested props
	Value string // its value, or the default if none was given
	Want  string // what is allowed, and why if necessary
}

// Error implements error.
func (e *PropError) Error() string { return fmt.Sprintf("%s is %q: want %s", e.Prop, e.Value, e.Want) }

// Check returns all faults of the props, joined *PropErrors, or nil. It does not need Node.
func Check(props Props) error {
	p := props.withDefaults()
	c := &checker{failed: make(map[string]bool)}
	c.code(&p)
	c.cluster(&p)
	c.topics(&p)
	c.eventSource(&p)
	c.pollers(&p)
	c.schemas(&p)
	c.onFailure(&p)
	c.keys(&p)
	c.engine(&p)
	c.function(&p)
	c.store(&p)
	c.outbox(&p)
	c.maintenance(&p)
	c.others(&p)
	c.redelivery(&p)
	c.time(&p)
	return errors.Join(c.errs...)
}

// checker collects errors.
type checker struct {
	errs   []error
	failed map[string]bool
}

// sound reports whether all of these props are valid, so that they can be compared.
func (c *checker) sound(props ...string) bool {
	return !slices.ContainsFunc(props, func(prop string) bool { return c.failed[prop] })
}

func (c *checker) fail(prop string, value any, want string, args ...any) {
	c.failed[prop] = true
	c.errs = append(c.errs, &PropError{Prop: prop, Value: fmt.Sprint(value),
		Want: fmt.Sprintf(want, args...)})
}

func (c *checker) within(prop string, n, least, most int) {
	if n < least || n > most {
		c.fail(prop, n, "%d to %d", least, most)
	}
}

func (c *checker) lasts(prop string, d, least, most time.Duration) {
	if d < least || d > most {
		c.fail(prop, short(d), "%s to %s", short(least), short(most))
	}
}

// wholeSeconds checks a duration that AWS counts in seconds.
func (c *checker) wholeSeconds(prop string, d, least, most time.Duration) {
	if d < least || d > most || d%time.Second != 0 {
		c.fail(prop, short(d), "whole seconds from %s to %s", short(least), short(most))
	}
}

func oneOf[S ~string](c *checker, prop string, value S, allowed ...S) {
	words := make([]string, len(allowed))
	for i, word := range allowed {
		if word == value {
			return
		}
		words[i] = string(word)
	}
	c.fail(prop, value, "one of %s", strings.Join(words, ", "))
}

// isToken reports whether a string is known only when the stack is deployed.
func isToken(s string) bool { return strings.Contains(s, "${Token[") }

// short formats a duration without trailing zeros: 168h, not 168h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

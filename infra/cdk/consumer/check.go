package consumer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/app"
)

// PropError describes an invalid property, on one line.
type PropError struct {
	Prop  string // its path in Props, for example Function.Timeout
	Value string // its value, or the default if none was given
	Want  string // what is allowed, and why if necessary
}

// Error implements error.
func (e *PropError) Error() string { return fmt.Sprintf("%s is %q: want %s", e.Prop, e.Value, e.Want) }

// Check returns all faults of the props, joined *PropErrors, or nil. It does not need Node.
func Check(props Props) error {
	p := props.withDefaults()
	c := &checker{Props: &p, failed: make(map[string]bool)}
	c.settings()
	c.code()
	c.cluster()
	c.topics()
	c.source()
	c.onFailure()
	c.store()
	c.variables()
	c.environment()
	c.network()
	if p.Outbox != nil {
		c.outbox(p.Outbox)
	}
	if p.Maintenance != nil {
		c.maintenance(p.Maintenance)
	}
	c.redelivery()
	c.time()
	return errors.Join(c.errs...)
}

// checker collects the errors of props.
type checker struct {
	*Props
	errs   []error
	failed map[string]bool
}

// sound reports whether all of these properties are valid, so that they can be compared.
func (c *checker) sound(properties ...string) bool {
	return !slices.ContainsFunc(properties, func(property string) bool { return c.failed[property] })
}

// fail adds an error. The arguments of want are shown as in the environment, so durations are short.
func (c *checker) fail(property string, value any, want string, args ...any) {
	for i := range args {
		args[i] = show(args[i])
	}
	c.failed[property] = true
	c.errs = append(c.errs, &PropError{Prop: property, Value: show(value), Want: fmt.Sprintf(want, args...)})
}

// settings checks each setting by itself.
func (c *checker) settings() {
	needs := c.needs()
	for _, s := range c.Props.settings() {
		want := s.unmet(needs)
		if want == "" {
			want = s.want()
		} else if !s.isSet() {
			continue
		}
		if want != "" {
			c.fail(s.property, s.text(), "%s", want)
		}
	}
}

// variables lets the function's own code check the variables that properties set.
func (c *checker) variables() {
	rows := make(map[string]setting)
	var names []string // longest first, because one may be the beginning of another
	for _, s := range c.Props.settings() {
		if name := s.tag.Get("env"); s.readBy("function") {
			rows[name], names = s, append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	properties := make([]string, 0, 2*len(names)) //nolint:mnd // a variable and its property
	for _, name := range names {
		properties = append(properties, name, rows[name].property)
	}
	env := c.Props.variables("function")
	vars := app.NewVars(func(name string) (string, bool) {
		if text, ok := env[name]; ok && !isToken(text) && c.sound(rows[name].property) {
			return text, true
		}
		return "", false
	})
	option := func(t StoreType) app.Option { // their own variables are checked by c.store
		return app.WithStore(app.Store{Name: string(t), Read: func(*app.Vars, *app.Config) {}})
	}
	app.ReadConfig(vars, app.Defaults{Name: "function"}, option(StorePostgres), option(StoreRedis))
	joined, _ := vars.Err().(interface{ Unwrap() []error })
	if joined == nil {
		return
	}
	toProperties := strings.NewReplacer(properties...)
	for _, err := range joined.Unwrap() {
		var wrong *app.VarError
		if errors.As(err, &wrong) {
			c.fail(rows[wrong.Name].property, wrong.Value, "%s", toProperties.Replace(wrong.Want))
		}
	}
}

package consumer

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// setting is a property, described by the tags of its field:
//
//	default   the default, if it is not in withDefaults
//	range     the least and the greatest value; unit is what a duration is a multiple of
//	words     the valid values, of which the first is the default
//	form      the form of a text, or of each text of a list: a key of forms; most is the length of a list
//	required  must be set
//	needs     what it depends on: a key of Props.needs
//	env       its variable in the environment of readers: function (by default), relay, maintenance
//	zero      the text of a pointer to the zero value, in the environment; unset that of a nil pointer
//
// What depends on more than one property is in the methods of checker.
type setting struct {
	property string // its path in Props
	field    reflect.Value
	tag      reflect.StructTag
}

// settings returns the properties with tags. Their fields are those of p.
func (p *Props) settings() []setting { return settingsOf(reflect.ValueOf(p).Elem(), "") }

func settingsOf(group reflect.Value, path string) (all []setting) {
	for i := range group.NumField() {
		of, field := group.Type().Field(i), group.Field(i)
		if of.Tag != "" {
			all = append(all, setting{path + of.Name, field, of.Tag})
			continue
		}
		if field.Kind() == reflect.Pointer {
			field = field.Elem() // not valid if the group is absent
		}
		if field.IsValid() && field.Kind() == reflect.Struct && field.Type().PkgPath() == group.Type().PkgPath() {
			all = append(all, settingsOf(field, path+of.Name+".")...)
		}
	}
	return all
}

// need is what a setting depends on. If it is not met, the setting has no default and no variable, and want
// says why it is refused.
type need struct {
	met  bool
	want string
}

func (p *Props) needs() map[string]need {
	runtime, store := p.Function.Runtime, p.Store.Type
	needs := map[string]need{
		"layer": {p.wrapped(), "none with Function.Runtime " + ProvidedAL2023 +
			", or another Function.Runtime: it is of functions behind the layer"},
		"library": {!p.wrapped(), "none with Function.Runtime " + runtime +
			": the layer makes one call at a time"},
		"network": {p.selfManaged(), "none with Cluster.ARN: AWS knows the network of an MSK cluster"},
		"ca":      {p.selfManaged(), "none with Cluster.ARN: Lambda trusts the certificates of MSK"},
		"provisioned": {!p.Source.Pollers.OnDemand,
			"none with Source.Pollers.OnDemand: AWS offers it in provisioned mode only"},
		"dynamodb": {store == StoreDynamoDB, "none with Store.Type " + string(store) + ": it is of DynamoDB"},
		"server": {store != StoreDynamoDB,
			"none with Store.Type dynamodb: its table is made here, and named by Store.Table"},
		"postgres": {store == StorePostgres,
			"none with Store.Type " + string(store) + ", which deletes expired keys itself"},
		"storeSecret": {p.Store.SecretARN != "", "Store.SecretARN with it"},
	}
	if r := p.Source.SchemaRegistry; r != nil {
		needs["confluent"] = need{!r.glue(), "none with a Glue registry, which the role may read"}
	}
	if p.Outbox != nil {
		needs["outboxSecret"] = need{p.Outbox.SecretARN != "", "Outbox.SecretARN with it"}
	}
	if p.Maintenance != nil {
		needs["export"] = need{p.Maintenance.Export.BucketARN != "",
			"Maintenance.Export.BucketARN with it, the bucket of the exports"}
	}
	return needs
}

// unmet returns why a setting that is not available is refused, or "".
func (s *setting) unmet(needs map[string]need) string {
	if name := s.tag.Get("needs"); name != "" && !needs[name].met {
		return needs[name].want
	}
	return ""
}

func (s *setting) isSet() bool {
	return !s.field.IsZero() && (s.field.Kind() != reflect.Slice || s.field.Len() > 0)
}

// text returns the value as the environment has it.
func (s *setting) text() string {
	v := s.field
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return s.tag.Get("unset")
		}
		v = v.Elem()
		if zero := s.tag.Get("zero"); zero != "" && v.IsZero() {
			return zero
		}
	}
	if list, ok := v.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return show(v.Interface())
}

// want returns what is valid, or "" if the value is.
func (s *setting) want() string {
	if !s.isSet() && s.tag.Get("required") == "" {
		return ""
	}
	form, list := forms[s.tag.Get("form")], s.field.Kind() == reflect.Slice
	if most, _ := strconv.Atoi(s.tag.Get("most")); list && s.field.Len() > most && most > 0 {
		return fmt.Sprintf("at most %d", most)
	}
	texts := []string{s.text()}
	if list {
		texts, _ = s.field.Interface().([]string)
	}
	words := strings.Fields(s.tag.Get("words"))
	for i, text := range texts {
		switch {
		case len(words) > 0 && !slices.Contains(words, text):
			return "one of " + strings.Join(words, ", ")
		case form.check(text) != "" && list:
			return form.want + " for each"
		case form.check(text) != "":
			return form.want
		case slices.Contains(texts[:i], text):
			return "each once"
		}
	}
	return s.outOfRange()
}

// outOfRange returns the range if the value is not in it.
func (s *setting) outOfRange() string {
	bounds := s.tag.Get("range")
	if bounds == "" {
		return ""
	}
	v := reflect.Indirect(s.field)
	bound := func(text string) int64 {
		limit := reflect.New(v.Type()).Elem()
		parse(limit, text)
		return limit.Int()
	}
	least, most, _ := strings.Cut(bounds, " to ")
	unit := s.tag.Get("unit")
	if n := v.Int(); n < bound(least) || n > bound(most) || (unit != "" && n%bound(unit) != 0) {
		return map[string]string{"1s": "whole seconds from ", "1m": "whole minutes from "}[unit] + bounds
	}
	return ""
}

// complete sets the default.
func (s *setting) complete() {
	def, _, _ := strings.Cut(s.tag.Get("words"), " ")
	if def = cmp.Or(s.tag.Get("default"), def); def != "" && !s.isSet() {
		parse(s.field, def)
	}
}

// parse sets a field to the value of a tag.
func parse(field reflect.Value, text string) {
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	var err error
	switch to := field.Addr().Interface().(type) {
	case *time.Duration:
		*to, err = time.ParseDuration(text)
	case *int:
		*to, err = strconv.Atoi(text)
	case *bool:
		*to, err = strconv.ParseBool(text)
	case *[]string:
		*to = strings.Split(text, ",")
	default:
		field.SetString(text)
	}
	if err != nil {
		panic(err) // a tag of this package
	}
}

// withDefaults returns the props with all defaults. Check and New use it.
func (given *Props) withDefaults() Props {
	p := *given
	setDefault(&p.Function.Runtime, ProvidedAL2023) // needs depend on these
	setDefault(&p.Store.Type, StoreDynamoDB)
	p.Source.Topics = slices.Clone(p.Source.Topics)
	for i := range p.Source.Topics {
		setDefault(&p.Source.Topics[i].Group, p.Source.ConsumerGroup)
	}
	setDefault(&p.Cluster.Auth, p.auths()[0])
	if p.Source.Pollers.OnDemand {
		setDefault(&p.Source.Failures, FailBatch)
	} else {
		setDefault(&p.Source.Pollers.Max, max(p.Source.Pollers.Min, 10)) //nolint:mnd // the default is here only
	}
	p.Source.SchemaRegistry = clone(p.Source.SchemaRegistry)
	p.Idempotency.inherit(&p)
	if p.Store.Type != StoreDynamoDB {
		setDefault(&p.Store.Table, "idemsk")
	}
	if p.Maintenance = clone(p.Maintenance); p.Maintenance != nil {
		p.Maintenance.Export.inherit(&p)
	}
	if p.Outbox = clone(p.Outbox); p.Outbox != nil {
		p.Outbox.inherit(&p)
	}
	needs := p.needs()
	for _, s := range p.settings() {
		if s.unmet(needs) == "" {
			s.complete()
		}
	}
	return p
}

// inherit sets the defaults that the function defines, or that depend on other properties.
func (i *Idempotency) inherit(p *Props) {
	d, concurrency := idem.Defaults(), idem.DefaultConcurrency
	setDefault(&i.Namespace, p.Source.ConsumerGroup)
	setDefault(&i.Key, "header:"+kafka.DefaultKeyHeader)
	if strings.HasPrefix(i.Key, "hash:") { // values of one key differ in what the key leaves out
		setDefault(&i.Fingerprint, "none")
	}
	if p.Store.Type == StorePostgres {
		concurrency = 8 // each handler with a transaction holds a connection
	}
	if !p.wrapped() {
		setDefault(&i.Concurrency, concurrency)
	}
	setDefault(&i.KeyScope, KeyScopeTopic)
	setDefault(&i.CommitWindow, idem.DefaultCommitWindow(i.Concurrency))
	if p.wrapped() {
		setDefault(&i.CallRecords, 1)
	}
	setDefault(&i.CallRecords, i.CommitWindow)
	setDefault(&i.Lease, d.Lease)
	setDefault(&i.MaxClockSkew, store.DefaultMaxClockSkew)
	setDefault(&i.DeadlineMargin, d.DeadlineMargin)
	setDefault(&i.MaxAttempts, d.MaxAttempts)
	setDefault(&i.RetryDelay, &d.RetryDelay)
	setDefault(&i.OutageFailures, &d.OutageFailures)
	setDefault(&i.Retention, d.Retention)
	setDefault(&i.MaxResult, &d.MaxResult)
}

func setDefault[T comparable](field *T, def T) { *field = cmp.Or(*field, def) }

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// variables returns the environment of a function, including the variables with default values. So the
// deployed values are visible in one place, and a changed default does not change a deployment.
func (p *Props) variables(of string) map[string]string {
	env, needs := make(map[string]string), p.needs()
	for _, s := range p.settings() {
		if text := s.text(); s.readBy(of) && s.unmet(needs) == "" && text != "" {
			env[s.tag.Get("env")] = text
		}
	}
	return env
}

// readBy reports whether a function reads the variable of a setting.
func (s *setting) readBy(function string) bool {
	readers := cmp.Or(s.tag.Get("readers"), "function")
	return s.tag.Get("env") != "" && strings.Contains(readers, function)
}

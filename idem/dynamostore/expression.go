package dynamostore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
)

// change is a conditional update of an item, in no language yet: see expression, and statement for PartiQL.
type change struct {
	conditions []term
	sets       []term
	removes    []string
	err        error
}

// term is an attribute, an operator and a value.
type term struct {
	attr  string
	op    operator
	value types.AttributeValue
}

type operator uint8

const (
	equal    operator = iota // in a condition, or assigned
	absent                   // in a condition; no value
	atMost                   // in a condition
	subtract                 // from what the attribute is
)

func (c *change) value(v any) types.AttributeValue {
	av, err := attributevalue.Marshal(v)
	if err != nil {
		c.err = fmt.Errorf("encoding the request: %w", err)
	}
	return av
}

// is adds the condition that an attribute has a value.
func (c *change) is(attr string, v any) {
	c.conditions = append(c.conditions, term{attr, equal, c.value(v)})
}

// absent adds the condition that there is no such attribute.
func (c *change) absent(attr string) {
	c.conditions = append(c.conditions, term{attr: attr, op: absent})
}

// isTime is the condition on an attribute that is absent when its time is zero.
func (c *change) isTime(attr string, t time.Time) {
	if t.IsZero() {
		c.absent(attr)
		return
	}
	c.is(attr, t.UnixMilli())
}

func (c *change) set(attr string, v any) {
	c.sets = append(c.sets, term{attr, equal, c.value(v)})
}

// setOrRemove sets an attribute that is absent when it has no value.
func (c *change) setOrRemove(attr string, v any, has bool) {
	if has {
		c.set(attr, v)
		return
	}
	c.removes = append(c.removes, attr)
}

// takeChange writes next over seen on condition that the key is exactly as seen (rule 7). Attributes that are not ours
// stay.
func takeChange(seen, next *idem.Record) *change {
	c := new(change)
	c.is(AttrStatus, string(seen.Status))
	c.is(AttrVersion, seen.Version)
	c.is(AttrOwner, seen.Owner)
	c.is(AttrLeaseUntil, seen.LeaseUntil.UnixMilli())
	c.isTime(AttrRetryAt, seen.RetryAt)

	c.set(AttrStatus, string(next.Status))
	c.set(AttrVersion, next.Version)
	c.set(AttrOwner, next.Owner)
	c.set(AttrLeaseUntil, next.LeaseUntil.UnixMilli())
	c.set(AttrAttempts, next.Attempts)
	c.set(AttrUpdatedAt, next.UpdatedAt.UnixMilli())
	c.set(AttrExpiry, next.Expiry.Unix())
	c.setOrRemove(AttrFingerprint, next.Fingerprint[:], !next.Fingerprint.IsZero())
	c.setOrRemove(AttrSource, next.Source, next.Source != "")
	c.removes = append(c.removes, AttrRetryAt)
	if seen.Status != idem.StatusStarted { // a new life
		c.set(AttrCreatedAt, next.CreatedAt.UnixMilli())
		c.removes = append(c.removes, AttrResult, AttrResultOmitted, AttrFailure)
	}
	return c
}

// settleChange makes the transition on condition that the claim is held (rule 3).
func settleChange(s *idem.Settlement, now time.Time) *change {
	c := new(change)
	c.is(AttrStatus, string(idem.StatusStarted))
	c.is(AttrVersion, s.Version)
	c.is(AttrOwner, s.Owner)
	c.absent(AttrRetryAt)

	// What the transition writes is stated once, in package idem; a record that is not known is stood in for by an empty one.
	next := idem.Settled(s, &idem.Record{Status: idem.StatusStarted}, now)
	c.set(AttrUpdatedAt, next.UpdatedAt.UnixMilli())
	c.set(AttrExpiry, next.Expiry.Unix())
	switch s.Op {
	case idem.OpComplete:
		c.set(AttrStatus, string(next.Status))
		c.setOrRemove(AttrResult, next.Result, len(next.Result) > 0)
		c.setOrRemove(AttrResultOmitted, next.ResultOmitted, next.ResultOmitted != 0)
		c.removes = append(c.removes, AttrFailure)
	case idem.OpFail:
		c.set(AttrStatus, string(next.Status))
	case idem.OpRelease:
		c.set(AttrRetryAt, next.RetryAt.UnixMilli())
		if s.Refund {
			c.sets = append(c.sets, term{AttrAttempts, subtract, c.value(1)})
		}
	case idem.OpExtend:
		c.conditions = append(c.conditions, term{AttrLeaseUntil, atMost, c.value(next.LeaseUntil.UnixMilli())}) // shortens nothing
		c.set(AttrLeaseUntil, next.LeaseUntil.UnixMilli())
	}
	if next.Failure != nil {
		c.set(AttrFailure, encodeFailure(next.Failure))
	}
	return c
}

// expression is a change as UpdateItem takes it. Every attribute is named by a placeholder, since some of ours are reserved
// words of DynamoDB's.
type expression struct {
	condition string
	update    string
	names     map[string]string
	values    map[string]types.AttributeValue
}

func (c *change) expression() *expression {
	e := &expression{names: make(map[string]string, 12), values: make(map[string]types.AttributeValue, 16)}
	var conditions, sets, removes []string
	for _, t := range c.conditions {
		switch t.op {
		case absent:
			conditions = append(conditions, "attribute_not_exists("+e.name(t.attr)+")")
		case atMost:
			conditions = append(conditions, e.name(t.attr)+" <= "+e.value(t.value))
		case equal, subtract:
			conditions = append(conditions, e.name(t.attr)+" = "+e.value(t.value))
		}
	}
	for _, t := range c.sets {
		name := e.name(t.attr)
		if t.op == subtract {
			sets = append(sets, name+" = "+name+" - "+e.value(t.value))
			continue
		}
		sets = append(sets, name+" = "+e.value(t.value))
	}
	for _, attr := range c.removes {
		removes = append(removes, e.name(attr))
	}
	e.condition = strings.Join(conditions, " AND ")
	e.update = "SET " + strings.Join(sets, ", ")
	if len(removes) > 0 {
		e.update += " REMOVE " + strings.Join(removes, ", ")
	}
	return e
}

func (e *expression) name(attr string) string {
	e.names["#"+attr] = attr
	return "#" + attr
}

func (e *expression) value(av types.AttributeValue) string {
	name := ":" + strconv.Itoa(len(e.values))
	e.values[name] = av
	return name
}

package dynamostore

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/store"
)

// change is a conditional update of an item. Its methods expression and statement render it for UpdateItem
// and PartiQL.
type change struct {
	conditions []term
	sets       []term
	removes    []string
}

// term is an attribute, an operator and a value.
type term struct {
	attr  string
	op    operator
	value types.AttributeValue
}

type operator uint8

const (
	equal    operator = iota // a condition or an assignment
	absent                   // a condition without a value
	atMost                   // a condition
	subtract                 // an assignment: the attribute less the value
)

// is adds the condition that an attribute has this value.
func (c *change) is(attr string, v types.AttributeValue) {
	c.conditions = append(c.conditions, term{attr, equal, v})
}

// absent adds the condition that an attribute does not exist.
func (c *change) absent(attr string) {
	c.conditions = append(c.conditions, term{attr: attr, op: absent})
}

// isTime adds the condition that an attribute has this time. The attribute of a zero time does not exist.
func (c *change) isTime(attr string, t time.Time) {
	if t.IsZero() {
		c.absent(attr)
		return
	}
	c.is(attr, number(t.UnixMilli()))
}

func (c *change) set(attr string, v types.AttributeValue) {
	c.sets = append(c.sets, term{attr, equal, v})
}

// setOrRemove sets an attribute, or removes it if it has no value.
func (c *change) setOrRemove(attr string, v types.AttributeValue, has bool) {
	if has {
		c.set(attr, v)
		return
	}
	c.removes = append(c.removes, attr)
}

// takeChange replaces seen by next on condition that the entry equals seen (rule 7). Unknown attributes are
// kept.
func takeChange(seen, next *store.Entry) *change {
	c := new(change)
	c.is(attrStatus, text(string(seen.Status)))
	c.is(attrVersion, number(seen.Token))
	c.is(attrOwner, text(seen.Owner))
	c.is(attrLeaseUntil, number(seen.LeaseUntil.UnixMilli()))
	c.isTime(attrRetryAt, seen.RetryAt)

	c.set(attrStatus, text(string(next.Status)))
	c.set(attrVersion, number(next.Token))
	c.set(attrOwner, text(next.Owner))
	c.set(attrLeaseUntil, number(next.LeaseUntil.UnixMilli()))
	c.set(attrAttempts, number(int64(next.Attempts)))
	c.set(attrUpdatedAt, number(next.UpdatedAt.UnixMilli()))
	c.set(AttrExpiry, number(next.Expiry.Unix()))
	c.setOrRemove(attrFingerprint, binary(next.Fingerprint[:]), !next.Fingerprint.IsZero())
	c.setOrRemove(attrSource, text(next.Source), next.Source != "")
	c.removes = append(c.removes, attrRetryAt)
	if seen.Status != store.StatusStarted { // the key starts over
		c.set(attrCreatedAt, number(next.CreatedAt.UnixMilli()))
		c.removes = append(c.removes, attrResult, attrResultOmitted, attrFailure)
	}
	return c
}

// settleChange applies a settlement on condition that the claim is held (rule 3).
func settleChange(s *store.Settlement, now time.Time) *change {
	c := new(change)
	c.is(attrStatus, text(string(store.StatusStarted)))
	c.is(attrVersion, number(s.Token))
	c.is(attrOwner, text(s.Owner))
	c.absent(attrRetryAt)

	// Package store defines what a settlement writes. The entry is not known here, so an empty one takes its
	// place.
	next := store.Settled(s, &store.Entry{Status: store.StatusStarted}, now)
	c.set(attrUpdatedAt, number(next.UpdatedAt.UnixMilli()))
	c.set(AttrExpiry, number(next.Expiry.Unix()))
	switch s.Op {
	case store.OpComplete:
		c.set(attrStatus, text(string(next.Status)))
		c.setOrRemove(attrResult, binary(next.Result), len(next.Result) > 0)
		c.setOrRemove(attrResultOmitted, number(int64(next.ResultOmitted)), next.ResultOmitted != 0)
		c.removes = append(c.removes, attrFailure)
	case store.OpFail:
		c.set(attrStatus, text(string(next.Status)))
	case store.OpRelease:
		c.set(attrRetryAt, number(next.RetryAt.UnixMilli()))
		if s.Refund {
			c.sets = append(c.sets, term{attrAttempts, subtract, number(1)})
		}
	case store.OpExtend:
		// a delayed extend must not shorten the lease
		c.conditions = append(c.conditions, term{attrLeaseUntil, atMost, number(next.LeaseUntil.UnixMilli())})
		c.set(attrLeaseUntil, number(next.LeaseUntil.UnixMilli()))
	}
	if next.Failure != nil {
		c.set(attrFailure, failure(next.Failure))
	}
	return c
}

// expression is a change in the form of UpdateItem. All attributes use placeholders, because some names are
// reserved words of DynamoDB.
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

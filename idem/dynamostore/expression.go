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

// expression collects a condition and an update with the placeholders that they use. Every attribute is named by a
// placeholder, since some of ours are reserved words of DynamoDB's.
type expression struct {
	conditions []string
	sets       []string
	removes    []string
	names      map[string]string
	values     map[string]types.AttributeValue
	err        error
}

func newExpression() *expression {
	return &expression{names: make(map[string]string, 12), values: make(map[string]types.AttributeValue, 16)}
}

func (e *expression) name(attr string) string {
	e.names["#"+attr] = attr
	return "#" + attr
}

func (e *expression) value(v any) string {
	av, err := attributevalue.Marshal(v)
	if err != nil {
		e.err = fmt.Errorf("encoding the request: %w", err)
	}
	name := ":" + strconv.Itoa(len(e.values))
	e.values[name] = av
	return name
}

// is adds the condition that an attribute has a value.
func (e *expression) is(attr string, v any) {
	e.conditions = append(e.conditions, e.name(attr)+" = "+e.value(v))
}

// absent adds the condition that there is no such attribute.
func (e *expression) absent(attr string) {
	e.conditions = append(e.conditions, "attribute_not_exists("+e.name(attr)+")")
}

// isTime is the condition on an attribute that is absent when its time is zero.
func (e *expression) isTime(attr string, t time.Time) {
	if t.IsZero() {
		e.absent(attr)
		return
	}
	e.is(attr, t.UnixMilli())
}

func (e *expression) set(attr string, v any) {
	e.sets = append(e.sets, e.name(attr)+" = "+e.value(v))
}

// setOrRemove sets an attribute that is absent when it has no value.
func (e *expression) setOrRemove(attr string, v any, has bool) {
	if has {
		e.set(attr, v)
		return
	}
	e.removes = append(e.removes, e.name(attr))
}

func (e *expression) condition() *string {
	s := strings.Join(e.conditions, " AND ")
	return &s
}

func (e *expression) update() *string {
	s := "SET " + strings.Join(e.sets, ", ")
	if len(e.removes) > 0 {
		s += " REMOVE " + strings.Join(e.removes, ", ")
	}
	return &s
}

// takeExpression writes next over seen on condition that the key is exactly as seen (rule 7). Attributes that are not ours
// stay.
func takeExpression(seen, next *idem.Record) *expression {
	e := newExpression()
	e.is(AttrStatus, string(seen.Status))
	e.is(AttrVersion, seen.Version)
	e.is(AttrOwner, seen.Owner)
	e.is(AttrLeaseUntil, seen.LeaseUntil.UnixMilli())
	e.isTime(AttrRetryAt, seen.RetryAt)

	e.set(AttrStatus, string(next.Status))
	e.set(AttrVersion, next.Version)
	e.set(AttrOwner, next.Owner)
	e.set(AttrLeaseUntil, next.LeaseUntil.UnixMilli())
	e.set(AttrAttempts, next.Attempts)
	e.set(AttrUpdatedAt, next.UpdatedAt.UnixMilli())
	e.set(AttrExpiry, next.Expiry.Unix())
	e.setOrRemove(AttrFingerprint, next.Fingerprint[:], !next.Fingerprint.IsZero())
	e.setOrRemove(AttrSource, next.Source, next.Source != "")
	e.removes = append(e.removes, e.name(AttrRetryAt))
	if seen.Status != idem.StatusStarted { // a new life
		e.set(AttrCreatedAt, next.CreatedAt.UnixMilli())
		e.removes = append(e.removes, e.name(AttrResult), e.name(AttrResultOmitted), e.name(AttrFailure))
	}
	return e
}

// settleExpression makes the transition on condition that the claim is held (rule 3).
func settleExpression(s *idem.Settlement, now time.Time) *expression {
	e := newExpression()
	e.is(AttrStatus, string(idem.StatusStarted))
	e.is(AttrVersion, s.Version)
	e.is(AttrOwner, s.Owner)
	e.absent(AttrRetryAt)

	// What the transition writes is stated once, in package idem; a record that is not known is stood in for by an empty one.
	next := idem.Settled(s, &idem.Record{Status: idem.StatusStarted}, now)
	e.set(AttrUpdatedAt, next.UpdatedAt.UnixMilli())
	e.set(AttrExpiry, next.Expiry.Unix())
	switch s.Op {
	case idem.OpComplete:
		e.set(AttrStatus, string(next.Status))
		e.setOrRemove(AttrResult, next.Result, len(next.Result) > 0)
		e.setOrRemove(AttrResultOmitted, next.ResultOmitted, next.ResultOmitted != 0)
		e.removes = append(e.removes, e.name(AttrFailure))
	case idem.OpFail:
		e.set(AttrStatus, string(next.Status))
	case idem.OpRelease:
		e.set(AttrRetryAt, next.RetryAt.UnixMilli())
		if s.Refund {
			e.sets = append(e.sets, fmt.Sprintf("%[1]s = %[1]s - %s", e.name(AttrAttempts), e.value(1)))
		}
	case idem.OpExtend:
		e.conditions = append(e.conditions, e.name(AttrLeaseUntil)+" <= "+e.value(next.LeaseUntil.UnixMilli())) // shortens nothing
		e.set(AttrLeaseUntil, next.LeaseUntil.UnixMilli())
	}
	if next.Failure != nil {
		e.set(AttrFailure, encodeFailure(next.Failure))
	}
	return e
}

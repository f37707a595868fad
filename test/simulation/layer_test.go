package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// The headers by which the layer tells a function of an attempt (docs/layer.md).
const headerToken, headerAttempt = "idemsk-token", "idemsk-attempt"

// runtime is the function behind the layer, which handles the records of a call one after another.
func (p *process) runtime(ctx context.Context, event []byte) ([]byte, error) {
	parsed, err := mskevent.Parse("the call", event)
	if err != nil {
		p.violatedf("", "a call has a bad event: %v", err)
		return nil, err
	}
	type item map[string]any
	failures, results := []item{}, []item{}
	records, attempts := make([]*record, len(parsed.Records)), make([]idem.Attempt, len(parsed.Records))
	for i := range records {
		if records[i], attempts[i] = p.attemptIn(&parsed.Records[i]); records[i] == nil {
			return nil, errUnknown
		}
	}
	p.checkCall(records, attempts)
	for i, r := range records {
		place := item{"partition": r.PartitionID(), "offset": r.Offset}
		e, result, err := p.handleInLayer(ctx, r, attempts[i])
		switch {
		case p.ended():
			<-p.stopping.Done() // it does not answer
			return nil, errEnded
		case errors.Is(err, errPanic):
			p.called(nil, records, attempts, true)
			return nil, layercall.FunctionError("",
				[]byte(`{"errorType":"RuntimeError","errorMessage":"a panic"}`))
		case err == nil:
			results = append(results, item{"itemIdentifier": place, "result": json.RawMessage(result)})
		default:
			failures = append(failures, item{
				"itemIdentifier": place, "error": err.Error(), "permanent": idem.IsPermanent(err),
				"unavailable":  idem.IsUnavailable(err),
				"retryAfterMs": e.delay.Milliseconds(), "outcomeUnknown": e.cancelled,
			})
		}
	}
	p.called(nil, records, attempts, false)
	return json.Marshal(item{"batchItemFailures": failures, "idemskResults": results})
}

// attemptIn returns the record of a call, and its attempt; without a number if it has no claim.
func (p *process) attemptIn(given *mskevent.Record) (*record, idem.Attempt) {
	var fields struct {
		Timestamp int64
		Headers   []map[string][]int8
	}
	if err := json.Unmarshal(given.JSON, &fields); err != nil {
		p.violatedf(given.Place().String(), "can't be read: %v", err)
		return nil, idem.Attempt{}
	}
	partition, err := strconv.Atoi(strings.TrimPrefix(given.PartitionID, topic+"-"))
	if err != nil {
		p.violatedf(given.Place().String(), "has no partition")
	}
	r := p.recordAt(placeOf(int32(partition), given.Offset, fields.Timestamp))
	if r == nil {
		p.violatedf(given.Place().String(), "was handled, and %v", errUnknown)
		return nil, idem.Attempt{}
	}
	var a idem.Attempt
	for _, headers := range fields.Headers {
		for name, chars := range headers {
			text := ""
			for _, c := range chars {
				text += string(rune(c))
			}
			switch name {
			case headerToken:
				a.Token, _ = strconv.ParseInt(text, 10, 64) // 0 is no token
			case headerAttempt:
				a.Number, _ = strconv.Atoi(text)
			}
		}
	}
	return r, a
}

var errPanic = errors.New("a panic")

// handleInLayer handles a record with its attempt. A panic is an error that fails the call.
func (p *process) handleInLayer(ctx context.Context, r *record, a idem.Attempt) (e *execution, result []byte,
	err error) {
	if a.Number == 0 {
		result, err = p.handleUnprotected(ctx, r)
		return &execution{}, result, err
	}
	e = p.begin(ctx, r, a)
	defer func() {
		if recover() != nil {
			err = errPanic
		}
		e.err = err
		p.ends(e, err == nil)
	}()
	result, err = p.execute(ctx, e, a)
	return e, result, err
}

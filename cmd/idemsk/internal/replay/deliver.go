package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/gate"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/runtimeapi"
)

// delivery is what came of one delivery.
type delivery struct {
	next   *mskevent.Batch // what is to be delivered again; nil: nothing
	why    string          // then, for people
	killed bool            // by the gate
}

// deliver invokes the function once. Its error ends the run: the function can't be invoked at all.
func (p *pass) deliver(ctx context.Context, b *mskevent.Batch) (delivery, error) {
	p.tally.take()
	p.report.Invocations++
	p.report.Delivered += b.Len()
	killsBefore := p.gate.Kills().Done
	result, err := p.function.Invoke(ctx, b.Payload())
	var failed *runtimeapi.FunctionError
	var crashed *runtimeapi.CrashError
	var late *runtimeapi.TimeoutError
	switch {
	case err == nil:
		p.count(b)
		return p.answered(b, result.Payload), nil
	case ctx.Err() != nil:
		return delivery{}, context.Cause(ctx)
	case errors.As(err, &failed):
		p.count(b)
		return delivery{next: b, why: "the function answered with an error: " + failed.Message}, nil
	case errors.As(err, &crashed), errors.As(err, &late):
		p.countCut()
		if err := p.gate.Drain(ctx); err != nil {
			return delivery{}, err
		}
		killed := p.gate.Kills().Done > killsBefore
		if !killed {
			p.report.Crashes++
		}
		return delivery{next: b, why: "the process ended: " + shortly(crashed, late), killed: killed}, nil
	}
	return delivery{}, err
}

// shortly says how a process ended, without what it printed: that is in the log.
func shortly(crashed *runtimeapi.CrashError, late *runtimeapi.TimeoutError) string {
	if crashed != nil {
		return crashed.Message()
	}
	return late.Message()
}

// answered reads the function's answer as the event source mapping does: one that it can't read is a failure of the whole
// batch.
func (p *pass) answered(b *mskevent.Batch, payload []byte) delivery {
	lowest, err := failures(b, payload)
	switch {
	case err != nil:
		p.problemf("%s: %v", b.Name, err)
		return delivery{next: b, why: err.Error()}
	case len(lowest) == 0:
		return delivery{}
	}
	return delivery{next: b.From(lowest), why: "the function reported them again and again; its log says why"}
}

// failures reads a partial batch response: the lowest offset that it names of each partition.
func failures(b *mskevent.Batch, payload []byte) (map[string]int64, error) {
	var resp struct {
		BatchItemFailures []struct {
			ItemIdentifier *struct {
				Partition string `json:"partition"`
				Offset    *int64 `json:"offset"`
			} `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	err := d.Decode(&resp)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something follows it")
	}
	if err != nil {
		return nil, fmt.Errorf("the answer %.100q is no partial batch response: %w", payload, err)
	}
	lowest := make(map[string]int64)
	for _, f := range resp.BatchItemFailures {
		id := f.ItemIdentifier
		if id == nil || id.Offset == nil || !b.Has(id.Partition, *id.Offset) {
			return nil, fmt.Errorf("the answer %.100q names a record that was not delivered", payload)
		}
		if before, ok := lowest[id.Partition]; !ok || *id.Offset < before {
			lowest[id.Partition] = *id.Offset
		}
	}
	return lowest, nil
}

// count counts a delivery that the function answered.
func (p *pass) count(b *mskevent.Batch) {
	printed := p.tally.take()
	for i := range printed {
		p.report.Outcomes.Add(&printed[i])
	}
	p.check(b, printed, p.gate.EndDelivery(false))
}

// check holds what the function printed of a delivery against what was seen of it.
func (p *pass) check(b *mskevent.Batch, printed []metrics.Outcomes, seen gate.Delivery) {
	if len(printed) != 1 {
		p.problemf("%s: the function printed %d lines of metrics for a batch, want 1: is it built on lambda/app?", b.Name, len(printed))
		return
	}
	o := &printed[0]
	if least, most := o.Sum(); o.BatchSize != b.Len() || least > b.Len() || most < b.Len() {
		p.problemf("%s: %d records were delivered, but the metrics speak of a batch of %d and have %d outcomes", b.Name, b.Len(), o.BatchSize, least)
	}
	if p.protected && seen.Completions != o.Executed {
		p.problemf("%s: the metrics say Executed %d, but %d keys were seen to become COMPLETED", b.Name, o.Executed, seen.Completions)
	}
	if effects := o.Executed + o.Unprotected + o.FailedOpen; seen.Effects != effects {
		p.problemf("%s: the metrics say that %d records were executed, but the ledger was changed %d times", b.Name, effects, seen.Effects)
	}
}

// countCut counts a delivery in which the process ended: it printed nothing, but what it did was seen.
func (p *pass) countCut() {
	seen := p.gate.EndDelivery(true)
	p.report.ExecutedUnreported += p.doneBy(seen)
}

// doneBy is how many records a delivery executed, as far as could be seen.
func (p *pass) doneBy(seen gate.Delivery) int {
	if p.protected {
		return seen.Completions
	}
	return seen.Effects
}

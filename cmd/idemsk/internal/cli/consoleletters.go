package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
)

// maxLetters is the number of messages that are read for the page.
const maxLetters = 500

var errNoLetters = fmt.Errorf("%w: start the console with --queue-url or --dead-letter-topic", console.ErrInput)

// Letters implements console.Operator.
func (o *operator) Letters(ctx context.Context) (out console.Letters, err error) {
	if o.command.letters.where() == "" {
		return out, errNoLetters
	}
	o.queue.Lock()
	defer o.queue.Unlock()
	source, end, err := o.source(ctx)
	if err != nil {
		return out, explainAWS(err)
	}
	defer end()
	defer func() { err = errors.Join(explainAWS(err), source.Close(context.WithoutCancel(ctx))) }()
	out = console.Letters{Letters: []console.Letter{}, Others: []string{}}
	for n := 0; ; n++ {
		if n == maxLetters {
			out.More = true
			return out, nil
		}
		m, err := source.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, err
		case m.Err != nil:
			out.Others = append(out.Others, m.Name+": "+m.Err.Error())
		default:
			out.Letters = append(out.Letters, console.LetterOf(&m.Letter))
		}
	}
}

// source opens the source of dead letters alone: a queue is read without Kafka.
func (o *operator) source(ctx context.Context) (source redrive.Source, end func(), err error) {
	r := o.command.letters
	if r.queueURL == "" {
		end, err = r.open(ctx, o.streams)
		return r.opt.Source, end, err
	}
	cfg, err := r.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	return r.queue(cfg), func() {}, nil
}

// redrive redrives the dead letters with some IDs, or all.
func (o *operator) redrive(ctx context.Context, ids []string) (string, error) {
	r := o.command.letters // a copy: open puts connections into it
	switch {
	case r.where() == "":
		return "", errNoLetters
	case r.brokers+r.function == "":
		return "", fmt.Errorf("%w: dead letters have no destination: start the console with --brokers or --function-name", console.ErrInput)
	}
	o.queue.Lock()
	defer o.queue.Unlock()
	end, err := r.open(ctx, o.streams)
	if err != nil {
		return "", explainAWS(err)
	}
	defer end()
	done, err := redrive.Chosen(ctx, r.opt, ids)
	return done, explainAWS(err)
}

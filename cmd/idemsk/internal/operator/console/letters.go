package console

import (
	"context"
	"errors"
	"fmt"
	"io"

	page "github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
)

// maxLetters is the number of messages that are read for the page.
const maxLetters = 500

var errNoLetters = fmt.Errorf("%w: start the console with --queue-url or --dead-letter-topic", page.ErrInput)

// Letters implements page.Operator.
func (o *operator) Letters(ctx context.Context) (out page.Letters, err error) {
	if o.command.letters.Where() == "" {
		return out, errNoLetters
	}
	o.queue.Lock()
	defer o.queue.Unlock()
	source, end, err := o.source(ctx)
	if err != nil {
		return out, flags.ExplainAWS(err)
	}
	defer end()
	defer func() { err = errors.Join(flags.ExplainAWS(err), source.Close(context.WithoutCancel(ctx))) }()
	out = page.Letters{Letters: []page.Letter{}, Others: []string{}}
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
		case m.Batch != nil:
			out.Others = append(out.Others, fmt.Sprintf("%s: %s: redrive all, or use idemsk redrive", m.Name,
				m.Batch))
		default:
			out.Letters = append(out.Letters, page.LetterOf(&m.Letter))
		}
	}
}

// source opens the source of dead letters alone: a queue is read without Kafka.
func (o *operator) source(ctx context.Context) (source redrive.Source, end func(), err error) {
	r := o.command.letters
	if r.QueueURL == "" {
		end, err = r.Open(ctx, o.streams)
		return r.Options.Source, end, err
	}
	cfg, err := r.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	return r.Queue(cfg), func() {}, nil
}

// redrive redrives the dead letters with some IDs, or all.
func (o *operator) redrive(ctx context.Context, ids []string) (string, error) {
	r := o.command.letters // a copy: open puts connections into it
	if r.Where() == "" {
		return "", errNoLetters
	}
	o.queue.Lock()
	defer o.queue.Unlock()
	end, err := r.Open(ctx, o.streams)
	if err != nil {
		return "", flags.ExplainAWS(err)
	}
	defer end()
	done, err := redrive.Chosen(ctx, r.Options, ids)
	return done, flags.ExplainAWS(err)
}

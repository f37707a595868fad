package console

import (
	"cmp"

	"github.com/idemsk/idemsk/kafka"
)

// maxValue is the number of bytes that are shown of the value of a dead letter.
const maxValue = 4096

// LetterOf returns what a page shows of a dead letter.
func LetterOf(l *kafka.DeadLetter) Letter {
	value := cmp.Or(string(l.Value), string(l.Undecoded))
	return Letter{
		ID: l.ID(), Key: l.IdempotencyKey, Source: l.Source(), Code: l.Error.Code, Message: l.Error.Message,
		Attempts: l.Attempts, Token: l.Token,
		At: l.Error.At.UnixMicro(), Value: value[:min(len(value), maxValue)],
	}
}

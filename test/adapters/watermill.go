package adapters

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Watermill is a middleware for a Router of Watermill. A handler completes once for each UUID of a message. A
// duplicate publishes what the handler returned the first time, with the same UUIDs, because the process may
// have died before it was published: the engine's MaxResult must be large enough for it. A message that failed
// for good, that has no UUID, or whose UUID was used for another payload, goes to the topic dead.
func Watermill(engine *idem.Engine, publisher message.Publisher, dead string) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			ctx, key := msg.Context(), message.HandlerNameFromCtx(msg.Context())+"#"+msg.UUID
			if msg.UUID == "" {
				key = "" // is refused
			}
			bury := func(cause error) error {
				letter := msg.Copy()
				letter.Metadata.Set("error", cause.Error())
				return publisher.Publish(dead, letter)
			}
			out := engine.Do(ctx, idem.Task{
				Key:         key,
				Fingerprint: store.FingerprintOf(msg.Payload),
				Source:      message.SubscribeTopicFromCtx(ctx) + "@" + msg.UUID,
				Handler: idem.HandlerFunc(func(inside context.Context) ([]byte, error) {
					msg.SetContext(inside)
					defer msg.SetContext(ctx)
					published, err := next(msg)
					if err != nil {
						return nil, err
					}
					return json.Marshal(published)
				}),
				DeadLetters: idem.DeadLetterFunc(func(_ context.Context, letter idem.DeadLetter) error {
					return bury(letter.Err)
				}),
			})
			switch {
			case out.Kind == idem.DeadLettered || out.Kind == idem.ReplayedFailed:
				return nil, nil
			case out.Kind.Settled() && out.Result != nil:
				return published(out.Result)
			case out.Kind == idem.Mismatched || out.Kind == idem.InvalidKey:
				return nil, bury(out.Err)
			}
			select { // Watermill delivers again at once
			case <-ctx.Done():
			case <-time.After(max(out.RetryIn, time.Second)):
			}
			return nil, out.Err
		}
	}
}

// published returns the messages that a handler returned.
func published(result []byte) (messages []*message.Message, err error) {
	err = json.Unmarshal(result, &messages)
	for i, m := range messages {
		messages[i] = m.Copy() // which can be acknowledged
	}
	return messages, err
}

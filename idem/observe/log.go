package observe

import (
	"context"
	"log/slog"
	"slices"
)

// LogHandler returns a slog.Handler that adds to each line that is logged with a handler's context what is
// handled: "source", "key" as it is stored (see idem.Config.HashKeys), "attempt" and "token". Without a claim
// there is no attempt and no token. It then adds what the functions of more return for the context of any
// line. The attributes are outside of the groups of a logger.
func LogHandler(next slog.Handler, more ...func(ctx context.Context) []slog.Attr) slog.Handler {
	return &logHandler{base: next, full: next, more: more}
}

type logHandler struct {
	base   slog.Handler                            // has what precedes the first group
	groups []func(slog.Handler) slog.Handler       // add that group and what follows
	full   slog.Handler                            // base with all groups
	more   []func(ctx context.Context) []slog.Attr // as in LogHandler
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.full.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	var attrs []slog.Attr
	if x, ok := ctx.Value(HandlingKey{}).(Handling); ok {
		attrs = x.attrs()
	}
	for _, f := range h.more {
		attrs = append(attrs, f(ctx)...)
	}
	switch {
	case len(attrs) == 0:
		return h.full.Handle(ctx, r)
	case len(h.groups) == 0:
		r = r.Clone()
		r.AddAttrs(attrs...)
		return h.full.Handle(ctx, r)
	}
	inside := h.base.WithAttrs(attrs)
	for _, g := range h.groups {
		inside = g(inside)
	}
	return inside.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.groups) == 0 {
		base := h.base.WithAttrs(attrs)
		return &logHandler{base: base, full: base, more: h.more}
	}
	return h.with(func(in slog.Handler) slog.Handler { return in.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(in slog.Handler) slog.Handler { return in.WithGroup(name) })
}

func (h *logHandler) with(add func(slog.Handler) slog.Handler) slog.Handler {
	groups := append(slices.Clip(h.groups), add)
	return &logHandler{base: h.base, groups: groups, full: add(h.full), more: h.more}
}

// Handling is what the context of a handler says of its task.
type Handling struct {
	Source    string
	StoredKey string // see store.Key
	Number    int    // of the attempt; 0 without a claim
	Token     int64
}

// HandlingKey is the key of a Handling in the context of a handler.
type HandlingKey struct{}

func (x Handling) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 5) //nolint:mnd // one more for a host's
	if x.Source != "" {
		attrs = append(attrs, slog.String("source", x.Source))
	}
	if x.StoredKey != "" {
		attrs = append(attrs, slog.String("key", x.StoredKey))
	}
	if x.Number != 0 {
		attrs = append(attrs, slog.Int("attempt", x.Number), slog.Int64("token", x.Token))
	}
	return attrs
}

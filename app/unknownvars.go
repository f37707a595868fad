package app

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/internal/text/near"
)

// ours is the prefix of this project's variables.
const ours = "IDEMSK_"

// WarnUnread logs a warning for each IDEMSK_ variable of the environment that is set and was not read through
// v, with the name that was probably meant: otherwise a misspelt variable would silently leave its default in
// force. Call it when all variables have been read. It does not know of variables that a handler looks up
// directly.
func (v *Vars) WarnUnread(ctx context.Context, logger *slog.Logger) {
	if v.environ == nil {
		return
	}
	for _, name := range v.unread(v.environ()) {
		attrs := []slog.Attr{slog.String("variable", name)}
		if meant := near.Of(name, ours, slices.Sorted(maps.Keys(v.asked))); meant != "" {
			attrs = append(attrs, slog.String("perhaps", meant))
		}
		logger.LogAttrs(ctx, slog.LevelWarn,
			name+" is set, but the configuration does not read it: is the name misspelt?", attrs...)
	}
}

// WarnUnused logs a warning for each of these variables that is set although the program does not use it. why
// follows "is set, but".
func (v *Vars) WarnUnused(ctx context.Context, logger *slog.Logger, why string, names ...string) {
	for _, name := range names {
		if v.String(name, "") != "" {
			logger.LogAttrs(ctx, slog.LevelWarn, name+" is set, but "+why, slog.String("variable", name))
		}
	}
}

// unread returns the names of the variables, sorted.
func (v *Vars) unread(environ []string) []string {
	var names []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, ours) && value != "" && !v.asked[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

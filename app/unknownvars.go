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

// Unread is a variable that is set and was not read.
type Unread struct {
	Name  string
	Meant string // the variable that was probably meant; "" if no name is similar
}

// Warning describes the variable in one line.
func (u Unread) Warning() string {
	text := u.Name + " is set, but the configuration does not read it: is the name misspelt?"
	if u.Meant != "" {
		text += " Perhaps " + u.Meant + " is meant."
	}
	return text
}

// Unread returns the IDEMSK_ variables of the environment that are set and were not read through v, sorted by
// name: a misspelt variable would silently leave its default in force. It also returns those whose beginning
// is misspelt. Call it when all variables have been read. It does not know of variables that a handler looks
// up directly.
func (v *Vars) Unread() (all []Unread) {
	if v.environ == nil {
		return nil
	}
	known := slices.Sorted(maps.Keys(v.asked))
	for _, variable := range v.environ() {
		name, value, _ := strings.Cut(variable, "=")
		if value == "" || v.asked[name] {
			continue
		}
		begins := strings.HasPrefix(name, ours)
		if begins || likeOurs(name) {
			_, rest, _ := strings.Cut(strings.ToUpper(name), "_")
			if meant := near.Of(ours+rest, ours, known); begins || meant != "" {
				all = append(all, Unread{name, meant})
			}
		}
	}
	slices.SortFunc(all, func(a, b Unread) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// likeOurs reports whether a name begins almost as this project's variables, in any case of letters.
func likeOurs(name string) bool {
	const most = 2 // two letters that changed places
	first, _, ok := strings.Cut(strings.ToUpper(name), "_")
	return ok && near.Distance(first+"_", ours) <= most
}

// WarnUnread logs a warning for each variable of [Vars.Unread].
func (v *Vars) WarnUnread(ctx context.Context, logger *slog.Logger) {
	for _, u := range v.Unread() {
		logger.LogAttrs(ctx, slog.LevelWarn, u.Warning(), slog.String("variable", u.Name))
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

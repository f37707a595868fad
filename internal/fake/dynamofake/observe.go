package dynamofake

import (
	"errors"
	"strings"
)

// Write is a write of an item that was performed, or that a condition refused. It is valid during a call of
// Config.Observe.
type Write struct {
	Client  string // the access key ID that signed the request; "" if none did
	Table   string
	Key     string
	Refused bool

	write         *write
	before, after item
}

// Existed reports whether the key had an item before the write.
func (w *Write) Existed() bool { return w.before != nil }

// Exists reports whether the key has an item after the write.
func (w *Write) Exists() bool { return w.after != nil }

// Before returns the value of an attribute before the write, or of a member of a map; "" if there is none. It
// returns a string, the digits of a number, or bytes.
func (w *Write) Before(path ...string) string { return w.before.text(path) }

// After is as Before, of the item after the write. After a refused write it is the unchanged item.
func (w *Write) After(path ...string) string { return w.after.text(path) }

// Wanted returns the value that the write would set an attribute to. If it does not set the attribute, Wanted
// returns the value that its condition requires the attribute to equal; "" if there is none.
func (w *Write) Wanted(name string) string {
	if w.write.verb == verbPut {
		return w.write.item.text([]string{name})
	}
	if u := w.write.update; u != nil {
		for _, a := range u.actions {
			if a.value != nil && a.value.op == opValue && u.names[a.path.slot] == name {
				return u.values[a.value.slot].text
			}
		}
	}
	if c := w.write.condition; c != nil {
		return c.required(c.condition, name)
	}
	return ""
}

// required returns the value that a condition requires an attribute to equal.
func (b *bound) required(n *node, name string) string {
	switch {
	case n.op == "AND":
		if text := b.required(n.args[0], name); text != "" {
			return text
		}
		return b.required(n.args[1], name)
	case n.op == "=" && n.args[0].op == opPath && n.args[1].op == opValue && b.names[n.args[0].slot] == name:
		return b.values[n.args[1].slot].text
	}
	return ""
}

func (it item) text(path []string) string {
	v := it.get(path[0])
	for _, name := range path[1:] {
		if v != nil {
			v = item(v.members).get(name)
		}
	}
	if v == nil {
		return ""
	}
	return v.text
}

// observe calls Config.Observe, unless the write failed for another reason than a condition. The caller holds
// Server.mu.
func (s *Server) observe(client string, w *write, before, after item, err error) {
	if s.config.Observe == nil || w.verb == verbCheck {
		return
	}
	seen := Write{Client: client, Table: w.table.name, Key: w.key, write: w, before: before, after: after}
	if err != nil {
		if e := (*Error)(nil); !errors.As(err, &e) || e.Code == "ValidationException" {
			return
		}
		seen.Refused, seen.after = true, before
	}
	s.config.Observe(&seen)
}

// signer returns the access key ID of a request's signature
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html).
func signer(authorization string) string {
	_, credential, _ := strings.Cut(authorization, "Credential=")
	id, _, _ := strings.Cut(credential, "/")
	return id
}

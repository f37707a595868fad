package dynamofake

import (
	"strings"
	"sync"
)

// maxCached bounds the memory of the cache if a client sends many different expressions or statements.
const maxCached = 1024

// cache keeps parsed texts, because clients repeat few of them.
type cache[K comparable, V any] struct {
	mu      sync.RWMutex
	entries map[K]*V
}

// get returns the parsed text from the cache, or parses it. It stores a copy of the text as key, because the
// text is a part of the whole body of a request.
func (c *cache[K, V]) get(key K, parse func() (K, *V, error)) (*V, error) {
	c.mu.RLock()
	v := c.entries[key]
	c.mu.RUnlock()
	if v != nil {
		return v, nil
	}
	key, v, err := parse()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxCached {
		c.entries = make(map[K]*V)
	}
	c.entries[key] = v
	return v, nil
}

// expressionCache keeps parsed expressions by place and text.
type expressionCache struct {
	cache cache[expressionKey, expression]
}

type expressionKey struct{ place, text string }

func (c *expressionCache) get(place, text string) (*expression, error) {
	return c.cache.get(expressionKey{place, text}, func() (expressionKey, *expression, error) {
		key := expressionKey{place, strings.Clone(text)}
		e, err := parseExpression(place, key.text)
		return key, e, err
	})
}

// bind parses an expression, or takes it from the cache, and binds a request's placeholders to it.
func (c *expressionCache) bind(place, text string, s *substitutions) (*bound, error) {
	e, err := c.get(place, text)
	if err != nil {
		return nil, err
	}
	return e.bind(s)
}

// statementCache keeps parsed statements.
type statementCache struct {
	cache cache[string, statement]
}

func (c *statementCache) get(text string) (*statement, error) {
	return c.cache.get(text, func() (string, *statement, error) {
		text := strings.Clone(text)
		st, err := parseStatement(text)
		return text, st, err
	})
}

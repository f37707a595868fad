package dynamofake

import (
	"strings"
	"sync"
)

// maxCachedExpressions bounds the memory that a client with ever new expressions can take.
const maxCachedExpressions = 1024

// expressionCache keeps parsed expressions by place and text: a client sends few, again and again.
type expressionCache struct {
	mu      sync.RWMutex
	entries map[expressionKey]*expression
}

type expressionKey struct{ place, text string }

func (c *expressionCache) get(place, text string) (*expression, error) {
	key := expressionKey{place, text}
	c.mu.RLock()
	e := c.entries[key]
	c.mu.RUnlock()
	if e != nil {
		return e, nil
	}
	key.text = strings.Clone(text) // which is part of a request's whole body
	e, err := parseExpression(place, key.text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxCachedExpressions {
		c.entries = make(map[expressionKey]*expression)
	}
	c.entries[key] = e
	return e, nil
}

// bind parses an expression, or takes it from the cache, and binds a request's placeholders to it.
func (c *expressionCache) bind(place, text string, s *substitutions) (*bound, error) {
	e, err := c.get(place, text)
	if err != nil {
		return nil, err
	}
	return e.bind(s)
}

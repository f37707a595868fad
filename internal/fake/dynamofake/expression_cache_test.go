package dynamofake

import (
	"fmt"
	"testing"
)

func TestExpressionCache(t *testing.T) {
	var cache expressionCache
	first, err := cache.get(conditionExpression, "attribute_exists(a)")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := cache.get(conditionExpression, "attribute_exists(a)"); again != first || err != nil {
		t.Errorf("parsed again, %v", err)
	}
	if filter, err := cache.get(filterExpression, "attribute_exists(a)"); err != nil ||
		filter.place != filterExpression {
		t.Errorf("a filter is mistaken for a condition: %+v, %v", filter, err)
	}
	for i := range 2 * maxCached {
		if _, err := cache.get(conditionExpression, fmt.Sprintf("attribute_exists(a%d)", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(cache.cache.entries); n > maxCached {
		t.Errorf("%d expressions are kept, want at most %d", n, maxCached)
	}
}

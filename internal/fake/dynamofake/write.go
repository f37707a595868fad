package dynamofake

// write is a checked request to change one item, or to check it in a transaction.
type write struct {
	table     *table
	key       string
	verb      verb
	condition *bound // nil for none
	item      item   // of a Put
	update    *bound // of an Update; nil if it changes nothing
	returnOld bool   // a failed condition brings the item
}

type verb uint8

const (
	verbPut verb = iota
	verbUpdate
	verbDelete
	verbCheck
)

// old returns the stored item of the write's key. The caller holds Server.mu.
func (w *write) old() item { return w.table.items[w.key] }

// updatedNames returns the attributes that an Update writes.
func (w *write) updatedNames() []string {
	if w.update == nil {
		return nil
	}
	return w.update.updatedNames()
}

// evaluate returns the new item (nil: it is deleted), or the error if the write is refused.
func (w *write) evaluate(old item) (item, error) {
	if w.condition != nil && !w.condition.holds(old) {
		if w.returnOld {
			return nil, conditionFailed(old)
		}
		return nil, conditionFailed(nil)
	}
	switch w.verb {
	case verbPut:
		return w.item, nil
	case verbUpdate:
		return w.updated(old)
	case verbCheck:
		return old, nil
	case verbDelete:
	}
	return nil, nil
}

// updated evaluates an Update, which creates the item if there is none.
func (w *write) updated(old item) (item, error) {
	if old == nil {
		old = w.table.keyItem(w.key)
	}
	if w.update == nil {
		return old, nil
	}
	updated, err := w.update.apply(old)
	if err == nil && updated.size() > maxItemBytes {
		err = invalid("Item size to update has exceeded the maximum allowed size")
	}
	return updated, err
}

// String returns the name of the verb in requests.
func (v verb) String() string {
	return [...]string{"PutItem", "UpdateItem", "DeleteItem", "ConditionCheck"}[v]
}

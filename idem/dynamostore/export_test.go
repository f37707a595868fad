package dynamostore

// BatchSingles makes the store send single elements as batches.
func (s *Store) BatchSingles() { s.fewest = 1 }

// NoBatches makes the store send each element in a request of its own.
func (s *Store) NoBatches() { s.batch = 1 }

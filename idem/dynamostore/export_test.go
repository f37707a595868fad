package dynamostore

// BatchSingles makes the store send single elements as batches.
func (s *Store) BatchSingles() { s.fewest = 1 }

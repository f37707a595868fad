package dynamostore

// BatchSingles makes the store send single elements as it sends many.
func (s *Store) BatchSingles() { s.fewest = 1 }

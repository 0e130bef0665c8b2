package ledger

import "sync"

// ring is the records that wait to be written, the oldest first.
type ring struct {
	// capacity is the most that there are.
	capacity int
	// mu guards the rest. It is held for as long as it takes to copy a record.
	mu      sync.Mutex
	slots   []Record // nil until the first record comes
	first   int      // where the oldest is
	count   int
	dropped uint64 // in all
}

// push adds a record, in place of the oldest one when there is no room, and returns how many there are.
func (q *ring) push(r *Record) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.slots == nil {
		q.slots = make([]Record, q.capacity)
	}
	if q.count == len(q.slots) {
		lost := q.slots[q.first].Dropped + 1
		q.first = (q.first + 1) % len(q.slots)
		q.count--
		q.dropped++
		q.slots[q.first].Dropped += lost
	}
	q.slots[(q.first+q.count)%len(q.slots)] = *r
	q.count++
	return q.count
}

// pop moves the oldest records to a batch that is empty, as many as it has room for.
func (q *ring) pop(batch []Record) []Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range min(q.count, cap(batch)) {
		slot := &q.slots[q.first]
		batch = append(batch, *slot)
		*slot = Record{} // its texts are not kept alive
		q.first = (q.first + 1) % len(q.slots)
		q.count--
	}
	if q.count == 0 {
		q.first = 0 // what is seldom full stays in the first few pages of its memory
	}
	return batch
}

// clear forgets the records that wait, which nobody asked to be kept, and gives their memory back.
func (q *ring) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots, q.first, q.count = nil, 0, 0
}

// lose counts records that were taken out and could not be written; the next one to be written tells of them.
func (q *ring) lose(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += uint64(n)
}

func (q *ring) stats() (count int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count, q.dropped
}

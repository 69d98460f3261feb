package session

import (
	"kubecdc/change"
	"kubecdc/checkpoint"
)

// sinkState is what a slot knows of the end of its log in the sink. A spool may begin from any state but unknown.
type sinkState interface{ isSinkState() }

type (
	// unknown: another owner may have written since, or this process has not opened the log yet.
	unknown struct{}
	// settled: the sink has acknowledged all batches up to seq, and none after it was sent.
	settled struct {
		epoch int64
		seq   uint64
	}
	// doubt: the outcome of the batch after that is unknown.
	doubt struct {
		settled
		next *change.Batch
	}
	// away: the sink has not taken the batch in doubt, and the next session does not try the sink again. The session after that
	// does.
	away struct {
		doubt
		why error
	}
)

func (unknown) isSinkState() {}
func (settled) isSinkState() {}

// sending is the state while a batch is being written.
func sending(b *change.Batch) sinkState { return doubt{settled{b.Epoch, b.Seq - 1}, b} }

// acked is the state after that.
func acked(b *change.Batch) sinkState { return settled{b.Epoch, b.Seq} }

// inDoubt reports whether the outcome of a batch is unknown.
func inDoubt(s sinkState) bool {
	switch s.(type) {
	case doubt, away:
		return true
	}
	return false
}

// failed is the state after a session whose batch the sink has not taken.
func failed(s sinkState, why error) sinkState {
	switch s := s.(type) {
	case doubt:
		return away{s, why}
	case away:
		return away{s.doubt, why}
	}
	return s
}

// follows returns the state if the inventory has all batches up to one. The state is unknown if the log may have more than these
// batches and the batch in doubt.
func follows(s sinkState, seq uint64) sinkState {
	switch s := s.(type) {
	case settled:
		if s.seq == seq {
			return s
		}
	case doubt:
		return s.follows(seq, s)
	case away:
		return s.follows(seq, s)
	}
	return unknown{}
}

func (d doubt) follows(seq uint64, same sinkState) sinkState {
	switch seq {
	case d.next.Seq: // the sink had it
		return settled{d.epoch, seq}
	case d.seq:
		return same
	}
	return unknown{}
}

// unacked returns the number of the first batch that the sink may lack, and the batch if there is one.
func unacked(s sinkState) (first uint64, next *change.Batch) {
	switch s := s.(type) {
	case settled:
		return s.seq + 1, nil
	case doubt:
		return s.seq + 1, s.next
	case away:
		return s.seq + 1, s.next
	}
	panic("a spool begins, and nobody knows after which batch")
}

// acquired is the state with a new epoch. No other owner has written if the epoch before was this process's own.
func acquired(s sinkState, state *checkpoint.SlotState) sinkState {
	switch s := follows(s, state.Seq).(type) {
	case settled:
		if s.epoch++; s.epoch == state.Epoch {
			return s
		}
	case doubt:
		if s.epoch++; s.epoch == state.Epoch {
			return s
		}
	case away:
		if s.epoch++; s.epoch == state.Epoch {
			return s
		}
	}
	return unknown{}
}

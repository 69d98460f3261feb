package sinks

import "time"

// Place is a place in the log, between two batches of each slot. It maps each slot to the slot's last batch before the place.
type Place map[int]uint64

// Has reports whether a batch is before the place. That is unknown for a slot that the place leaves out.
func (p Place) Has(slot int, batch uint64) (has, known bool) {
	last, known := p[slot]
	return known && batch <= last, known
}

// BatchID is the number of a batch, with its slot and epoch.
type BatchID struct {
	slot  int
	epoch int64
	batch uint64
}

func BatchOf(slot int, epoch int64, batch uint64) BatchID { return BatchID{slot, epoch, batch} }

// Point is a place and a time. The time orders what the place can't order, although clocks step back, and the clocks of two slots
// differ.
type Point struct {
	Place
	Logged time.Time
}

// Has reports whether a change was logged before the point. It compares times if the place leaves out the change's slot, or if
// its batch was pruned.
func (p *Point) Has(l *Logged) bool {
	if has, known := p.Place.Has(l.Slot, l.Batch); known && l.Batch != 0 {
		return has
	}
	return l.Logged.Before(p.Logged)
}

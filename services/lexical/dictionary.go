package lexical

import (
	"encoding/binary"
	"hash/maphash"
)

// dictionary maps the names of terms to their numbers. It is a hash table with linear probing, which is told the names and keeps
// only short ones. Loading a namespace looks up each word of each memory: one access to memory in place of a map's three.
type dictionary struct {
	seed  maphash.Seed
	slots []slot // a power of two; at most 3/4 are used
	used  int
}

// slot is a term of the dictionary, or empty.
type slot struct {
	key    uint64 // the name's bytes, or the hash of a name that is longer than shortName
	length uint32 // of the name; 0 in an empty slot
	number uint32
}

const (
	shortName = 8
	leastRoom = 1 << 6
)

func newDictionary() dictionary {
	return dictionary{seed: maphash.MakeSeed(), slots: make([]slot, leastRoom)}
}

// find returns the place of a name in slots, or where to put it. named reports whether a term with a number has the name.
func (d *dictionary) find(name []byte, named func(number uint32, name []byte) bool) (at int, s slot, found bool) {
	hash := maphash.Bytes(d.seed, name)
	s = slot{key: hash, length: uint32(len(name))}
	if len(name) <= shortName {
		s.key = 0
		for i, b := range name {
			s.key |= uint64(b) << (8 * i)
		}
	}
	for at = d.place(hash); ; at = d.place(uint64(at + 1)) {
		switch other := d.slots[at]; {
		case other.length == 0:
			return at, s, false
		case other.key == s.key && other.length == s.length && (len(name) <= shortName || named(other.number, name)):
			return at, other, true
		}
	}
}

func (d *dictionary) place(hash uint64) int { return int(hash & uint64(len(d.slots)-1)) }

// hash returns the hash of a slot's name.
func (d *dictionary) hash(s slot) uint64 {
	if s.length > shortName {
		return s.key
	}
	var name [shortName]byte
	binary.LittleEndian.PutUint64(name[:], s.key)
	return maphash.Bytes(d.seed, name[:s.length])
}

// add adds a slot where find said.
func (d *dictionary) add(at int, s slot) {
	d.slots[at] = s
	if d.used++; d.used <= len(d.slots)/4*3 {
		return
	}
	before := d.slots
	d.slots = make([]slot, 2*len(before))
	for _, s := range before {
		if s.length > 0 {
			at := d.place(d.hash(s))
			for d.slots[at].length > 0 {
				at = d.place(uint64(at + 1))
			}
			d.slots[at] = s
		}
	}
}

// remove empties a slot, and moves those behind it that could no longer be found (Knuth, TAOCP 3, 6.4, algorithm R).
func (d *dictionary) remove(at int) {
	d.used--
	for next := d.place(uint64(at + 1)); d.slots[next].length > 0; next = d.place(uint64(next + 1)) {
		home := d.place(d.hash(d.slots[next]))
		if d.place(uint64(next-home)) >= d.place(uint64(next-at)) {
			d.slots[at], at = d.slots[next], next
		}
	}
	d.slots[at] = slot{}
}

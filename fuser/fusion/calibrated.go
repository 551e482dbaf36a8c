package fusion

import (
	"cmp"
	"math"
	"slices"
)

// The calibrated fusion works like this:
//
//  1. Describe each memory by what every leg said about it, and how sure the leg was (features.go).
//  2. Let the model turn that into log-odds, a share for each leg (model.go). A leg's weight multiplies its share.
//  3. A leg that the model has never seen adds weight × unseenPlaces / (unseenPlaces - 1 + rank): 1 for its first, so that its
//     odds grow by e.
//  4. If only one list of a namespace has hits, give its log-odds out in the list's own order.
//  5. The prior and the entity boost multiply the odds. The order is theirs, and the score is the probability: with a leg of a great
//     weight, probabilities are 1, and tell nothing apart.

const (
	// unseenPlaces is how slowly the votes of a leg that the model has never seen fall with the rank.
	unseenPlaces = 3
	// usualPrior is the prior of a memory with the usual importance, 0.5. It leaves the odds as they are.
	usualPrior = priorBase + priorPerUnit/2
	// step keeps apart what has to be in a list's order.
	step = 1e-6
)

func (m *merge) calibrate() {
	m.describe()
	for l, own := range m.each() {
		if m.roles[l] == unknown {
			for h, d := range own {
				m.documents[d].score += unseenVote(&m.lists[l], h+1)
			}
		}
	}
	for d := range m.documents {
		m.documents[d].score += m.evidence(int32(d))
	}
	m.keepOrders()
	for d := range m.documents {
		document := &m.documents[d]
		document.score += math.Log(document.prior * document.boost)
	}
}

func unseenVote(list *List, rank int) float64 {
	return list.Weight * unseenPlaces / float64(unseenPlaces-1+rank)
}

func (m *merge) evidence(d int32) float64 {
	by, namespace := m.shares(d), m.lists[m.documents[d].list].Namespace
	sum := by[question]
	for r := lexical; r < question; r++ {
		weight := 1.
		if l := m.listOf(r, namespace); l >= 0 {
			weight = m.lists[l].Weight
		}
		sum += by[r] * weight
	}
	return sum
}

// shares returns the log-odds of a document by the model, by role. What the legs say together is theirs by their votes.
func (m *merge) shares(d int32) [roles]float64 {
	by := BuiltIn().logOdds(&m.features[d])
	votes, total := [question]float64{}, 0.
	for r := range votes {
		if vote := m.features[d][lexicalVote+r]; vote == vote {
			votes[r] = float64(vote)
			total += votes[r]
		}
	}
	for r, vote := range votes {
		if total > 0 {
			by[r] += by[together] * vote / total
		}
	}
	by[together] = 0
	return by
}

// listOf returns the list that has a role in a namespace, or -1.
func (m *merge) listOf(r role, namespace string) int {
	for l := range m.lists {
		if m.roles[l] == r && m.lists[l].Namespace == namespace {
			return l
		}
	}
	return -1
}

// keepOrders gives the log-odds of a list that is alone in its namespace out in the list's own order.
func (m *merge) keepOrders() {
	for l, own := range m.each() {
		list := &m.lists[l]
		alone := len(list.Hits) > 0 && !slices.ContainsFunc(m.order, func(other int) bool {
			return other != l && m.lists[other].Namespace == list.Namespace && len(m.lists[other].Hits) > 0 && m.lists[other].Weight > 0
		})
		if !alone {
			continue
		}
		m.sorted = m.sorted[:0]
		for _, d := range own {
			m.sorted = append(m.sorted, m.documents[d].score)
		}
		slices.SortFunc(m.sorted, func(a, b float64) int { return cmp.Compare(b, a) })
		for i, d := range own {
			if i > 0 {
				m.sorted[i] = min(m.sorted[i], m.sorted[i-1]-step)
			}
			m.documents[d].score = m.sorted[i]
		}
	}
}

// explain makes the contributions of a selected document. What keepOrders and the prior changed is part of the base.
func (m *merge) explain(d int32) {
	document := &m.documents[d]
	if document.first >= 0 {
		return
	}
	by := m.shares(d)
	said := 0.
	namespace := m.lists[document.list].Namespace
	for l, own := range m.each() {
		list := &m.lists[l]
		if list.Namespace != namespace || m.roles[l] == mute {
			continue
		}
		c := link{list: int32(l), weight: list.Weight, next: -1}
		if h := slices.Index(own, d); h >= 0 {
			c.rank, c.raw = int32(h+1), list.Hits[h].Score
		} else if i := slices.IndexFunc(list.Others, func(o Scored) bool { return o.ID == m.lists[document.list].Hits[document.hit].ID }); i >= 0 {
			c.raw = list.Others[i].Score
		} else {
			continue // what it says by its silence is part of the base
		}
		if m.roles[l] == unknown {
			c.value = unseenVote(list, int(c.rank))
		} else {
			c.value = by[m.roles[l]] * list.Weight
		}
		said += c.value
		m.append(document, c)
	}
	document.base = document.score - said
}

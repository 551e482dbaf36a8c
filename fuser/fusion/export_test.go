package fusion

// LogOdds returns the log-odds that a candidate is relevant.
func (m *Model) LogOdds(c *Candidate) (sum float64) {
	for _, part := range m.logOdds(&c.Features) {
		sum += part
	}
	return sum
}

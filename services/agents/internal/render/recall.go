package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/triskele/triskele/fuser/platform/slice"
	"github.com/triskele/triskele/proto/client"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

const snippetLines = 2

// RecallOptions say how much of an answer to draw.
type RecallOptions struct {
	Explain bool                       // show the arithmetic of each score and the time of each leg
	Show    func(*triskelev1.Hit) bool // selects hits; nil selects all
}

// Recall draws the answer to a recall. The recall must have had explain set.
func (s Style) Recall(resp *triskelev1.RecallResponse, options RecallOptions) string {
	var b strings.Builder
	if resp.GetDegraded() {
		mark := "! "
		for _, line := range wrap(resp.GetDegradedReason(), s.width()-2, 0) {
			b.WriteString(s.Warn(mark+line) + "\n")
			mark = "  "
		}
	}
	switch {
	case resp.GetNothingRelevant():
		b.WriteString("nothing relevant\n")
		for _, hit := range resp.GetLeftOut() { // the best
			text := fmt.Sprintf("unlikely, %s: %s", Percent(hit.GetScore()), Plain(headline(hit.GetMemory())))
			b.WriteString(s.Dim(strings.TrimRight(fit(text, s.width()), " ")) + "\n")
		}
	case len(resp.GetHits()) == 0:
		b.WriteString("nothing found\n")
	default:
		name := "score"
		if resp.GetScoreScale() == triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY {
			name = "relevant"
		}
		width := columns(score(resp.GetHits()[0], resp)) + s.bar()
		b.WriteString(s.Bold(fmt.Sprintf("%3s  %-*s  %-4s  %-10s  %s", "#", width, name, "imp.", "created", "found by")) + "\n")
	}
	drawn := 0
	for _, hit := range resp.GetHits() {
		if options.Show == nil || options.Show(hit) {
			s.hit(&b, hit, resp, options.Explain)
			drawn++
		}
	}
	s.block(&b, summary(resp, drawn), 0, 0, s.Dim)
	if options.Explain {
		s.legs(&b, resp.GetLegs(), resp.GetRerank())
	}
	return b.String()
}

// Percent writes a probability. It never rounds to certainty.
func Percent(probability float64) string {
	switch percent := 100 * probability; {
	case percent < 1:
		return "<1 %"
	case percent > 99:
		return ">99 %"
	default:
		return fmt.Sprintf("%.0f %%", percent)
	}
}

// score writes a hit's score. A probability comes with its word.
func score(hit *triskelev1.Hit, resp *triskelev1.RecallResponse) string {
	if resp.GetScoreScale() != triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY {
		return fmt.Sprintf("%-7.5f", hit.GetScore())
	}
	return fmt.Sprintf("%-8s %5s", client.Relevance(hit.GetScore()), Percent(hit.GetScore()))
}

func (s Style) hit(b *strings.Builder, hit *triskelev1.Hit, resp *triskelev1.RecallResponse, explain bool) {
	var legs []string
	for _, c := range hit.GetContributions() {
		if c.GetRank() > 0 {
			legs = append(legs, fmt.Sprintf("%s %d", Plain(c.GetLeg()), c.GetRank()))
		}
	}
	if hit.RerankScore != nil && hit.GetFusedRank() != hit.GetRank() {
		legs = append(legs, fmt.Sprintf("fused %d, reranked", hit.GetFusedRank()))
	}
	figures := fmt.Sprintf("  %s%s  %4.2f  %s  ", score(hit, resp), s.scoreBar(hit, resp), hit.GetImportance(), hit.GetCreatedAt().AsTime().Format("2006-01-02"))
	const indent = 5
	found := strings.Join(legs, ", ")
	if room := s.width() - len("  1    0.50  2006-01-02  ") - columns(score(hit, resp)) - s.bar(); columns(found) > room {
		found = "\n" + strings.Repeat(" ", indent) + s.Hanging(found, indent)
		figures = strings.TrimRight(figures, " ")
	}
	b.WriteString(s.Bold(fmt.Sprintf("%3d", hit.GetRank())) + figures + found + "\n")
	beside := func(memories []*triskelev1.Memory) {
		for _, m := range memories {
			s.block(b, "· "+headline(m), indent, 1, s.Dim)
		}
	}
	beside(hit.GetSurroundings().GetBefore())
	for _, line := range s.snippet(hit, s.width()-indent, snippetLines) {
		b.WriteString(strings.Repeat(" ", indent) + line + "\n")
	}
	beside(hit.GetSurroundings().GetAfter())
	details := []string{hit.GetId()}
	if slices.ContainsFunc(resp.GetLegs(), func(leg *triskelev1.LegReport) bool { return leg.GetNamespace() != hit.GetNamespace() }) {
		details = append(details, Plain(hit.GetNamespace())) // the recall searched several namespaces
	}
	if at := hit.GetMatchedTime(); at != "" {
		details = append(details, "matched: "+Plain(at))
	}
	if hit.GetMemory().GetSensitive() {
		details = append(details, "sensitive")
	}
	if by := hit.GetMemory().GetSupersededBy(); by != "" {
		details = append(details, "superseded by "+by)
	}
	s.block(b, strings.Join(details, ", "), indent, 0, s.Dim)
	if explain {
		s.block(b, hit.GetWhy(), indent, 0, nil)
		s.arithmetic(b, hit, resp.GetFusion(), indent)
	}
}

// bar returns the width of the bar beside a score, with the space before it. It is 0 if the lines are narrow.
func (s Style) bar() int {
	if s.width() < 60 {
		return 0
	}
	return min(s.width()/10, 12) + 1
}

// scoreBar draws a probability, or another score as a share of the best score in the answer.
func (s Style) scoreBar(hit *triskelev1.Hit, resp *triskelev1.RecallResponse) string {
	width := s.bar() - 1
	if width <= 0 {
		return ""
	}
	best := 0.0
	if resp.GetScoreScale() == triskelev1.ScoreScale_SCORE_SCALE_PROBABILITY {
		best = 1
	}
	for _, other := range resp.GetHits() {
		best = max(best, other.GetScore())
	}
	filled := 0
	if best > 0 {
		filled = min(max(int(float64(width)*hit.GetScore()/best+0.5), 0), width)
	}
	return " " + strings.Repeat("━", filled) + s.Dim(strings.Repeat("─", width-filled))
}

// headline returns a memory's title and text, or the text alone if it begins with the title.
func headline(m *triskelev1.Memory) string {
	if strings.HasPrefix(m.GetContent(), m.GetTitle()) {
		return m.GetContent()
	}
	return m.GetTitle() + ": " + m.GetContent()
}

// arithmetic shows the sum behind a score, with one line per leg.
func (s Style) arithmetic(b *strings.Builder, hit *triskelev1.Hit, fusion *triskelev1.Fusion, indent int) {
	pad := strings.Repeat(" ", indent)
	width := 0
	for _, c := range hit.GetContributions() {
		width = max(width, len(c.GetLeg()))
	}
	if hit.RerankScore != nil || len(hit.GetDuplicates()) > 0 {
		width = max(width, len("reranked"))
	}
	if fusion.GetMethod() == triskelev1.FusionMethod_FUSION_METHOD_CALIBRATED {
		s.logOdds(b, hit, max(width, len("before")), pad)
	} else {
		s.sum(b, hit, fusion, width, pad)
	}
	if hit.RerankScore != nil && !slices.ContainsFunc(hit.GetContributions(), func(c *triskelev1.Contribution) bool { return c.GetLeg() == "reranker" }) {
		fmt.Fprintf(b, "%s%-*s  %.4g, was %d of the sums\n", pad, width, "reranked", hit.GetRerankScore(), hit.GetFusedRank())
	}
	for _, d := range hit.GetDuplicates() {
		fmt.Fprintf(b, "%s%-*s  %s, was %d, %.0f %% the same\n", pad, width, "left out", d.GetId(), d.GetFusedRank(), 100*d.GetResemblance())
	}
	for _, c := range hit.GetContributions() {
		if path := c.GetPath(); len(path) > 0 {
			fmt.Fprintf(b, "%s%-*s  %s\n", pad, width, "path", strings.TrimRight(fit(route(path), s.width()-indent-width-2), " "))
		}
	}
}

func route(path []*triskelev1.PathStep) string {
	var stops []string
	for _, step := range path[:len(path)-1] { // the last is the memory itself
		stop := cmp.Or(Plain(step.GetConcept()), step.GetMemory())
		if relation := Plain(step.GetRelation()); relation != "" {
			stop = "(" + relation + ") " + stop
		}
		stops = append(stops, stop)
	}
	return strings.Join(stops, " → ")
}

func summary(resp *triskelev1.RecallResponse, drawn int) string {
	legs := slice.Map(resp.GetLegs(), func(leg *triskelev1.LegReport) string {
		return fmt.Sprintf("%s %s %d", Plain(leg.GetLeg()), LegState(leg.GetState()), leg.GetReturned())
	})
	found := Count(int64(len(resp.GetHits())), "memory", "memories")
	if drawn < len(resp.GetHits()) {
		found += fmt.Sprintf(", %d of them shown,", drawn)
	}
	took := Duration(resp.GetSpent().AsDuration())
	return fmt.Sprintf("%s in %s: %s", found, took, strings.Join(legs, ", "))
}

// legs draws a line for each leg, and one for the reranker if the recall had one.
func (s Style) legs(b *strings.Builder, legs []*triskelev1.LegReport, reranker *triskelev1.RerankReport) {
	name := func(leg *triskelev1.LegReport) string {
		if slices.ContainsFunc(legs, func(other *triskelev1.LegReport) bool { return other.GetNamespace() != leg.GetNamespace() }) {
			return Plain(leg.GetLeg() + " in " + leg.GetNamespace())
		}
		return Plain(leg.GetLeg())
	}
	width := 0
	if reranker != nil {
		width = len("reranker")
	}
	for _, leg := range legs {
		width = max(width, len(name(leg)))
	}
	line := func(name, returned string, state triskelev1.LegState, spent, budget *durationpb.Duration, behind, note string) {
		figures := fmt.Sprintf("  %8s  %8s of %s", returned, Duration(spent.AsDuration()), Duration(budget.AsDuration()))
		fmt.Fprintf(b, "  %-*s  %s%s", width, name, s.State(state), figures)
		taken := 2 + width + 2 + len("TIMED_OUT") + columns(figures)
		if behind != "" {
			b.WriteString("  " + s.Warn(behind))
			taken += 2 + columns(behind)
		}
		s.note(b, taken, note)
	}
	for _, leg := range legs {
		line(name(leg), Count(int64(leg.GetReturned()), "hit", "hits"), leg.GetState(), leg.GetSpent(), leg.GetBudget(), freshness(leg), leg.GetReason())
	}
	if r := reranker; r != nil {
		line("reranker", Count(int64(r.GetReranked()), "text", "texts"), r.GetState(), r.GetSpent(), r.GetBudget(), "", r.GetModel()+" "+r.GetReason())
	}
}

// note ends a line that has used some columns. The text goes at the end of the line if it fits, else below.
func (s Style) note(b *strings.Builder, taken int, text string) {
	const indent = "    "
	switch text = Plain(text); {
	case text == "":
	case taken+2+columns(text) <= s.width():
		b.WriteString("  " + s.Dim(text))
	default:
		for _, line := range wrap(text, s.width()-len(indent), 0) {
			b.WriteString("\n" + indent + s.Dim(line))
		}
	}
	b.WriteString("\n")
}

// mostCounted is the largest lag that a leg counts.
const mostCounted = 10_000

// freshness says how far a leg's index was behind. It is empty for an index that was up to date.
func freshness(leg *triskelev1.LegReport) string {
	var parts []string
	switch n := leg.GetBehind(); {
	case n >= mostCounted:
		parts = append(parts, fmt.Sprintf("%d or more behind", mostCounted))
	case n > 0:
		parts = append(parts, fmt.Sprintf("%d behind", n))
	}
	if leg.GetStale() {
		parts = append(parts, "stale")
	}
	return strings.Join(parts, ", ")
}

// LegState formats a leg's state, such as "TIMED_OUT".
func LegState(state triskelev1.LegState) string {
	return strings.TrimPrefix(state.String(), "LEG_STATE_")
}

// State formats a leg's state for a column of a table, with a colour by severity.
func (s Style) State(state triskelev1.LegState) string {
	text := fit(LegState(state), len("TIMED_OUT"))
	switch state {
	case triskelev1.LegState_LEG_STATE_OK, triskelev1.LegState_LEG_STATE_FALLBACK:
		return s.Good(text)
	case triskelev1.LegState_LEG_STATE_ABSTAINED, triskelev1.LegState_LEG_STATE_SKIPPED:
		return s.Dim(text)
	case triskelev1.LegState_LEG_STATE_TRUNCATED:
		return s.Warn(text)
	}
	return s.Bad(text)
}

func scoreKind(kind triskelev1.ScoreKind) string {
	return strings.ToLower(strings.TrimPrefix(kind.String(), "SCORE_KIND_"))
}

// Count formats a number with the singular or plural of its noun.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// sum shows the contributions that add up to a score.
func (s Style) sum(b *strings.Builder, hit *triskelev1.Hit, fusion *triskelev1.Fusion, width int, pad string) {
	sum := 0.0
	for _, c := range hit.GetContributions() {
		term := fmt.Sprintf("%.2f / (%g + %d)", c.GetWeight(), fusion.GetK(), c.GetRank())
		if fusion.GetMethod() != triskelev1.FusionMethod_FUSION_METHOD_RRF {
			term = fmt.Sprintf("%.2f × %.4f", c.GetWeight(), c.GetNormalizedScore())
		}
		sum += c.GetValue()
		boost := ""
		if hit.GetEntityBoost() > 1 {
			boost = fmt.Sprintf(" × %.2f", hit.GetEntityBoost())
		}
		fmt.Fprintf(b, "%s%-*s  %s × %.3f%s = %.5f  %s\n", pad, width, Plain(c.GetLeg()), fit(term, 16), hit.GetPrior(), boost, c.GetValue(),
			s.Dim(fmt.Sprintf("%s %.4g", scoreKind(c.GetScoreKind()), c.GetRawScore())))
	}
	fmt.Fprintf(b, "%s%-*s  %s   %5s = %.5f\n", pad, width, "sum", fit("", 16), "", sum)
}

// logOdds shows the log-odds that add up to those of a probability.
func (s Style) logOdds(b *strings.Builder, hit *triskelev1.Hit, width int, pad string) {
	sum := hit.GetBaseLogOdds()
	before := fmt.Sprintf("%s%-*s  %+6.2f", pad, width, "before", sum)
	b.WriteString(before)
	note := "the query, the namespace, importance, and legs that did not find it"
	if hit.GetMatchedTime() != "" {
		note += "; the time that it matches"
	}
	s.note(b, columns(before), note)
	for _, c := range hit.GetContributions() {
		said := fmt.Sprintf("%s %.4g", scoreKind(c.GetScoreKind()), c.GetRawScore())
		if c.GetLeg() == "reranker" {
			said = fmt.Sprintf("log-odds that it answers %.4g", c.GetRawScore())
		}
		sum += c.GetValue()
		fmt.Fprintf(b, "%s%-*s  %+6.2f  %s\n", pad, width, Plain(c.GetLeg()), c.GetValue(), s.Dim(said))
	}
	fmt.Fprintf(b, "%s%-*s  %+6.2f  %s\n", pad, width, "odds", sum, s.Dim("log-odds: "+Percent(hit.GetScore())))
}

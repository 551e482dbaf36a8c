"""Fits the calibrated fusion's model to recorded features, judges it, and writes the model and its card.

The process is:

 1. Read the features that fusionfeatures recorded. A row is a candidate, in the order of the questions.
 2. Fit the log-odds of relevance: a sum of piecewise-linear functions of what the legs said of a candidate, and of what is the
    same for all candidates of a question. Two losses are added: a softmax over the candidates of a question, which cares for
    the order, and a logistic loss, which cares for the probability. Unanswered questions take part in the second. Weights of a
    leg's own scores are not negative, so that a better score never lowers a memory.
 3. Do it again without each development set, and judge each set by the model that did not see it.

The same features give the same model to the last digit.
"""

import argparse
import json
import pathlib
import sys
import time
import zlib

import numpy as np
from scipy.optimize import minimize

DEVELOPMENT = ["brainbench-world", "factconsolidation-64k", "friendsqa-turn", "musique-train100-openie", "qmsum-turn", "scifact-test"]
JUDGES_ONLY = ["locomo-turn"]
OURS = ["tasks", "everyday"]
# How much each source counts. Sets in which the graph has something to say are few.
WEIGHTS = {"tasks": 0.7, "brainbench-world": 3.0, "musique-train100-openie": 3.0, "factconsolidation-64k": 3.0}
LOST_WEIGHT = 1  # of a question with legs lost
SHALLOW = 12  # candidates whose best rank is beyond this are sampled
SAMPLED = 0.08
FREE_PENALTY, ORDER_PENALTY, PROBABILITY_PENALTY = 1e-6, 0.06, 1e-3
LOGISTIC = 6  # weight of the logistic loss
# The hook and the agents take the first places or nothing: in the logistic loss, questions asked of another namespace count more,
# and so do candidates near a leg's first place.
ELSEWHERE, BY_BEST_RANK = 4, 0.5
SEED = 1

# Pieces of the functions: feature, knots, and the feature that a term is multiplied by.
# Free ones have next to no penalty: the order is drawn towards that of a weighted rank fusion, and in threads, where neighbours
# lend and ranks of one leg are full of neighbours, towards that of a weighted sum of scores.
FREE = [
    ("agreement", [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.34], "unthreaded"),
    ("lexical_vote", [0, 1], "unthreaded"),
    ("dense_vote", [0, 1], "unthreaded"),
    ("graph_vote", [0, 1, 2], "unthreaded"),
    ("lexical_to_best", [0, 1], "threaded"),
    ("dense_to_best", [-0.6, 0], "threaded"),
]
ORDER = [
    ("lexical_to_best", [0, 0.3, 0.5, 0.7, 0.9, 1], ""),
    ("lexical_rank", [0, 0.1, 0.2, 0.34, 0.5, 1], "unthreaded"),
    ("lexical_share", [0, 0.15, 0.3, 0.5, 0.8, 1.2], ""),
    ("lexical_matched", [0, 0.3, 0.6, 0.9, 1], ""),
    ("lexical_to_rival", [0, 0.5, 0.8, 1, 1.2, 1.5, 2.5], ""),
    ("lexical_deviation", [0, 1, 2, 3, 5], ""),
    ("lexical_to_best", [0, 1], "lexical_best_matched"),
    ("lexical_matched", [0, 0.6, 1], "memories"),
    ("exact", [0, 1], ""),
    ("dense_to_best", [-0.5, -0.2, -0.1, -0.05, 0], ""),
    ("dense_rank", [0, 0.1, 0.2, 0.34], "unthreaded"),
    ("dense_score", [0, 0.1, 0.2, 0.3, 0.45, 0.6], ""),
    ("dense_to_best", [-0.3, 0], "dense_best"),
    ("dense_score", [0, 0.3, 0.6], "memories"),
    ("graph_to_best", [0, 0.3, 0.7, 1], ""),
    ("graph_rank", [0, 0.1, 0.2, 0.34, 0.5, 1], "unthreaded"),
    ("graph_to_rival", [1, 1.5, 3], ""),
    ("graph_entities", [0, 1, 2, 3], ""),
    ("graph_rank", [0, 0.1, 0.34, 1], "graph_coverage"),
    ("graph_to_best", [0, 0.5, 1], "graph_coverage"),
    ("graph_entities", [0, 2], "graph_coverage"),
]
ORDER_PRESENT = ["lexical_rank", "dense_score", "graph_rank"]
PROBABILITY = [
    ("lexical_best", [0, 0.2, 0.4, 0.7, 1.1], ""),
    ("lexical_best_matched", [0, 0.4, 0.7, 1], ""),
    ("lexical_gap", [0, 0.2, 0.5, 1], ""),
    ("lexical_hits", [0, 1, 10, 50], ""),
    ("lexical_best", [0, 1], "memories"),
    ("dense_best", [0, 0.1, 0.2, 0.3, 0.45, 0.6], ""),
    ("dense_gap", [0, 0.05, 0.15, 0.3], ""),
    ("dense_spread", [0, 0.05, 0.1], ""),
    ("dense_mean", [0, 0.1, 0.2, 0.3], ""),
    ("dense_best", [0, 0.5], "memories"),
    ("dense_best", [0, 0.2, 0.4, 0.6], "terms"),
    ("dense_best", [0, 0.2, 0.4, 0.6], "lexical_best_matched"),
    ("graph_coverage", [0, 0.5, 1], ""),
    ("terms", [0, 2, 4, 8, 16], ""),
    ("memories", [0, 1, 2, 3, 4.3], ""),
    ("threaded", [0, 1], ""),
    ("lexical_best", [0, 0.4, 1], "threaded"),
    ("dense_best", [0, 0.5], "threaded"),
]
PROBABILITY_PRESENT = ["lexical_hits", "dense_best", "graph_hits"]


def pieces(functions, present):
    out = [(f, lo, hi, w) for f, knots, w in functions for lo, hi in zip(knots[:-1], knots[1:])]
    return out + [(f, None, None, "") for f in present]


FREE_TERMS = pieces(FREE, [])
ORDER_TERMS, PROBABILITY_TERMS = FREE_TERMS + pieces(ORDER, ORDER_PRESENT), pieces(PROBABILITY, PROBABILITY_PRESENT)


class Source:
    """The questions and candidates of one set. Questions are split by the legs that were asked."""

    def __init__(self, folder, name):
        self.name = name
        columns = json.loads((folder / "columns.json").read_text())
        self.at = {c: i for i, c in enumerate(columns)}
        self.questions = [json.loads(line) for line in (folder / f"{name}.jsonl").open()]
        self.rows = np.fromfile(folder / f"{name}.f32", dtype="<f4").reshape(-1, len(columns))
        self.ends = np.cumsum([0] + [q["rows"] for q in self.questions])
        if self.ends[-1] != len(self.rows):
            raise ValueError(f"{name}: {self.ends[-1]} candidates are announced, there are {len(self.rows)}")

    def column(self, name):
        return self.rows[:, self.at[name]]

    def design(self, terms, rows):
        out = np.zeros((len(rows), len(terms)), np.float32)
        for j, (feature, low, high, by) in enumerate(terms):
            x = rows[:, self.at[feature]]
            if low is None:
                out[:, j] = ~np.isnan(x)
                continue
            piece = np.clip((x - np.float32(low)) / np.float32(high - low), 0, 1)
            if by:
                piece = piece * rows[:, self.at[by]]
            out[:, j] = np.nan_to_num(piece)
        return out

    def prepare(self):
        """Keeps each question with all legs and one loss of legs, and samples the candidates that no leg ranked well."""
        alike = {}
        for i, q in enumerate(self.questions):
            alike.setdefault((q["id"], q["sort"]), []).append(i)
        weight = np.zeros(len(self.questions))
        for (name, _), numbers in alike.items():
            lost = [i for i in numbers if self.questions[i]["legs"] != "ldg"]
            for i in numbers:
                if self.questions[i]["legs"] == "ldg":
                    weight[i] = 1
            if lost:
                weight[lost[zlib.crc32(name.encode()) % len(lost)]] = LOST_WEIGHT
        of = np.repeat(np.arange(len(self.questions)), np.diff(self.ends))
        best = np.max([np.nan_to_num(self.column(f"{leg}_rank")) for leg in ("lexical", "dense", "graph")], axis=0)
        deep = (best < 1 / SHALLOW) & (self.column("relevant") == 0)
        keep = (weight[of] > 0) & ~(deep & (np.random.default_rng(SEED).random(len(of)) > SAMPLED))
        rows = self.rows[keep]
        self.order, self.probability = self.design(ORDER_TERMS, rows), self.design(PROBABILITY_TERMS, rows)
        self.relevant = rows[:, self.at["relevant"]]
        self.stands_for = np.where(deep[keep], 1 / SAMPLED, 1).astype(np.float32)
        self.of = of[keep]
        self.weight = weight * WEIGHTS.get(self.name, 1.0) / weight.sum()
        sort = np.where([q["sort"] == "elsewhere" for q in self.questions], ELSEWHERE, 1)
        self.logistic = (sort * self.weight)[self.of] * np.maximum(best[keep], 0.02) ** BY_BEST_RANK * self.stands_for


def fit(sources):
    """Returns the weights of the order's terms, of the probability's, and the bias."""
    order, probability = np.concatenate([s.order for s in sources]), np.concatenate([s.probability for s in sources])
    y, stands_for = np.concatenate([s.relevant for s in sources]), np.concatenate([s.stands_for for s in sources])
    first = np.cumsum([0] + [len(s.questions) for s in sources])
    of = np.concatenate([s.of + n for s, n in zip(sources, first)])
    weight = np.concatenate([s.weight for s in sources])
    starts = np.r_[0, np.nonzero(np.diff(of))[0] + 1]
    segment = np.cumsum(np.r_[0, np.diff(of) > 0])
    answers = np.add.reduceat(y, starts)
    share = weight[of[starts]] * (answers > 0)
    share = share / share.sum()
    target, offset = y / np.maximum(answers, 1)[segment], np.log(stands_for)
    by_row = np.concatenate([s.logistic for s in sources])
    by_row = LOGISTIC * by_row / by_row.sum()
    n, m = order.shape[1], probability.shape[1]
    free = len(FREE_TERMS)
    penalty = np.array([FREE_PENALTY] * free + [ORDER_PENALTY] * (n - free) + [PROBABILITY_PENALTY] * m + [0])

    def loss(w):
        z = order @ w[:n].astype(np.float32)
        most = np.maximum.reduceat(z, starts)
        e = np.exp(z + offset - most[segment])
        total = np.add.reduceat(e, starts)
        log_odds = z + probability @ w[n:-1].astype(np.float32) + w[-1]
        error = by_row * (1 / (1 + np.exp(-log_odds)) - y)
        value = (share * (np.log(total) + most)).sum() - (share[segment] * target * z).sum()
        value += (by_row * (np.logaddexp(0, log_odds) - y * log_odds)).sum() + (penalty * w * w).sum()
        slope = order.T @ (share[segment] * (e / total[segment] - target) + error).astype(np.float32)
        return value, np.r_[slope, probability.T @ error.astype(np.float32), error.sum()] + 2 * penalty * w

    bounds = [(0, None) if low is not None else (None, None) for _, low, _, _ in ORDER_TERMS] + [(None, None)] * (m + 1)
    w = minimize(loss, np.r_[np.zeros(n + m), -3], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200}).x
    return np.round(w[:n], 5), np.round(w[n:-1], 5), float(np.round(w[-1], 5))


def as_file(model):
    b, c, bias = model
    terms = []
    for (feature, low, high, by), weight in zip(ORDER_TERMS + PROBABILITY_TERMS, np.concatenate([b, c])):
        if weight == 0:
            continue
        term = {"feature": feature}
        term |= {"present": True} if low is None else {"low": low, "high": high}
        term |= {"with": by} if by else {}
        terms.append(json.dumps(term | {"weight": float(weight)}))
    return '{"bias": %r, "terms": [\n%s\n]}\n' % (bias, ",\n".join(terms))


def predict(source, model):
    b, c, bias = model
    out = []
    for rows in np.array_split(source.rows, max(1, len(source.rows) // 100_000)):
        out.append(source.design(ORDER_TERMS, rows) @ b + source.design(PROBABILITY_TERMS, rows) @ c + bias)
    return 1 / (1 + np.exp(-np.concatenate(out)))


METRICS = ["nDCG@10", "recall@5", "recall@10", "success@5", "MRR@10"]


def measure(source, score, legs="ldg"):
    """Returns the metrics of each answered question, as rows."""
    out = []
    for i, q in enumerate(source.questions):
        if q["sort"] != "answered" or q["legs"] != legs or q["relevant"] == 0:
            continue
        a, b = source.ends[i], source.ends[i + 1]
        y = source.rows[a:b, 0][np.argsort(-score[a:b], kind="stable")[:10]]
        gain, hits = 1 / np.log2(2 + np.arange(10)), np.nonzero(y)[0]
        out.append([
            (y * gain[: len(y)]).sum() / gain[: min(10, q["relevant"])].sum(), y[:5].sum() / q["relevant"], y.sum() / q["relevant"],
            float(y[:5].any()), 1 / (1 + hits[0]) if len(hits) else 0,
        ])
    return np.array(out)


def interval(differences):
    """The 95 % interval of a mean, by a bootstrap."""
    n = len(differences)
    means = differences[np.random.default_rng(SEED).integers(0, n, (2000, n))].mean(axis=1)
    return np.quantile(means, [0.025, 0.975])


def best_ten(source, p):
    """The probabilities of the first ten of every question asked of all legs, and whether they are relevant."""
    ps, ys = [], []
    for i, q in enumerate(source.questions):
        if q["legs"] == "ldg":
            a, b = source.ends[i], source.ends[i + 1]
            at = np.argsort(-p[a:b], kind="stable")[:10]
            ps.append(p[a:b][at])
            ys.append(source.rows[a:b, 0][at])
    return np.concatenate(ps), np.concatenate(ys)


def reliability(p, y):
    """Mean probability, share of relevant ones and number, by tenth of probability; and the expected calibration error."""
    bins, error = [], 0.0
    for k in range(10):
        inside = (p >= k / 10) & ((p < (k + 1) / 10) | (k == 9))
        if inside.any():
            bins.append((p[inside].mean(), y[inside].mean(), int(inside.sum())))
            error += inside.mean() * abs(bins[-1][0] - bins[-1][1])
    return bins, error


def firsts(source, p, sort):
    return np.array([
        p[source.ends[i]:source.ends[i + 1]].max(initial=0) for i, q in enumerate(source.questions) if q["legs"] == "ldg" and q["sort"] == sort
    ])


def separation(answered, other):
    """The area under the curve, and the share of the answered above the 95th percentile of the others."""
    both = np.concatenate([answered, other])
    order = both.argsort(kind="stable")
    ranks = np.empty(len(both))
    ranks[order] = np.arange(1, len(both) + 1)
    for value in np.unique(both):  # ties share their mean rank
        same = both == value
        if same.sum() > 1:
            ranks[same] = ranks[same].mean()
    n = len(answered)
    area = (ranks[:n].sum() - n * (n + 1) / 2) / (n * len(other))
    return area, (answered > np.quantile(other, 0.95)).mean()


def own_order(source, leg):
    return np.nan_to_num(source.column(f"{leg}_rank"), nan=-1.0)


def judge(source, p, lines):
    with_model, words, ranks = measure(source, p), measure(source, own_order(source, "lexical")), measure(source, source.column("ranks"))
    better = max(words, ranks, key=lambda m: m[:, 0].mean())
    low, high = interval(with_model[:, 0] - better[:, 0])
    _, error = reliability(*best_ten(source, p))
    cells = [source.name, str(len(with_model))]
    cells += [f"{words[:, m].mean():.3f} / {ranks[:, m].mean():.3f} / **{with_model[:, m].mean():.3f}**" for m in (0, 1, 4)]
    cells += [f"{low:+.3f} … {high:+.3f}", f"{error:.3f}"]
    answered = firsts(source, p, "answered")
    for sort in ("elsewhere", "absent"):
        other = firsts(source, p, sort)
        area, kept = separation(answered, other)
        cells.append(f"{area:.3f}, {kept:.0%}")
    lines.append("| " + " | ".join(cells) + " |")
    print(lines[-1], flush=True)


def judge_losses(source, p, lines):
    cells = [source.name]
    for legs, left in (("dg", ["dense", "graph"]), ("lg", ["lexical", "graph"]), ("ld", ["lexical", "dense"])):
        ours, ranks = measure(source, p, legs)[:, 0], measure(source, source.column("ranks"), legs)[:, 0]
        best = max((measure(source, own_order(source, leg), legs)[:, 0] for leg in left), key=np.mean)
        cells.append(f"{best.mean():.3f} / {ranks.mean():.3f} / **{ours.mean():.3f}**")
    lines.append("| " + " | ".join(cells) + " |")


def plot(curves):
    """An SVG of reliability: what was promised against what came."""
    size, edge = 300, 40
    colours = ["#4053d3", "#ddb310", "#b51d14", "#00beff", "#fb49b0", "#00b25d", "#777777", "#8c5109", "#222222"]
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size + edge + 230} {size + 2 * edge}" font-family="sans-serif" font-size="11">',
           f'<rect width="100%" height="100%" fill="#fff"/><path d="M{edge},{size + edge}L{edge + size},{edge}" stroke="#bbb" stroke-dasharray="4"/>',
           f'<path d="M{edge},{edge}v{size}h{size}" fill="none" stroke="#333"/>',
           f'<text x="{edge + size / 2}" y="{size + edge + 28}" text-anchor="middle">probability promised</text>',
           f'<text x="12" y="{edge + size / 2}" transform="rotate(-90 12 {edge + size / 2})" text-anchor="middle">share that was relevant</text>']
    for n, (name, bins) in enumerate(curves):
        points = " ".join(f"{edge + size * a:.1f},{edge + size * (1 - b):.1f}" for a, b, count in bins if count >= 10)
        svg.append(f'<polyline points="{points}" fill="none" stroke="{colours[n]}" stroke-width="1.5"/>')
        svg.append(f'<text x="{edge + size + 14}" y="{edge + 16 * n + 10}" fill="{colours[n]}">{name}</text>')
    return "\n".join(svg + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=pathlib.Path, required=True, help="folder that fusionfeatures wrote")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="file for the model")
    parser.add_argument("--without", type=pathlib.Path, required=True, help="folder for the models that have not seen one set each")
    parser.add_argument("--card", type=pathlib.Path, required=True, help="folder for the card")
    args = parser.parse_args()
    sources = {name: Source(args.features, name) for name in DEVELOPMENT + JUDGES_ONLY + OURS}
    training = [sources[name] for name in DEVELOPMENT + OURS]
    for source in training:
        source.prepare()
        print(f"{source.name}: {len(source.questions)} questions, {len(source.of)} candidates to learn from", flush=True)
    args.without.mkdir(parents=True, exist_ok=True)
    args.card.mkdir(parents=True, exist_ok=True)
    table, losses, curves = [], [], []
    for name, source in sources.items():
        began = time.time()
        model = fit([s for s in training if s.name != name])
        text = as_file(model)
        (args.without / f"{name}.json").write_text(text)
        if name in JUDGES_ONLY:
            args.model.write_text(text)  # it has learned from everything that may be learned from
        p = predict(source, model)
        judge(source, p, table)
        if name not in OURS:
            judge_losses(source, p, losses)
        curves.append((name, reliability(*best_ten(source, p))[0]))
        print(f"  {time.time() - began:.0f} s", file=sys.stderr, flush=True)
    (args.card / "calibration.svg").write_text(plot(curves))
    (args.card / "figures.md").write_text(FIGURES.format(table="\n".join(table), losses="\n".join(losses), questions=sum(len(s.questions) for s in training)))


FIGURES = """# Figures of the fusion model

`make train-fusion` wrote this. Each set is judged by a model that has not seen it. Cells with three numbers are: words alone / rank fusion with
the gateway's settings / the model. The interval is the 95 % bootstrap of the difference in nDCG@10 to the better of the other two. The last two columns
compare the first place of answered questions with that of questions asked of another namespace, and of questions whose answers were taken out: area under
the curve, and how many of the answered are above 95 % of the others. The models learned from {questions} questions, those with legs lost included.

| set | questions | nDCG@10 | recall@5 | MRR@10 | difference | calibration error | asked elsewhere | answer taken out |
|---|---|---|---|---|---|---|---|---|
{table}

nDCG@10 with a leg lost: the best leg that is left, alone / rank fusion / the model.

| set | without lexical | without dense | without graph |
|---|---|---|---|
{losses}

![Reliability by set](calibration.svg)
"""

if __name__ == "__main__":
    main()

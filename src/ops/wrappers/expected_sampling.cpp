// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <utility>

#include "base/rng.h"
#include "ops/wrappers/expected_words.h"

namespace braid::expecting {

namespace {

struct Ranked {
  std::vector<int32_t> tokens;  // by descending logit, ties by lower id; NaN counts as -infinity
  std::vector<double> logits;
};

Ranked rank(const Numbers& logits, bool finite_only) {
  const auto value = [&](int32_t i) {
    const double logit = logits[static_cast<size_t>(i)].value;
    return std::isnan(logit) ? -INFINITY : logit;
  };
  Ranked out;
  for (int32_t i = 0; std::cmp_less(i, logits.size()); ++i)
    if (!finite_only || value(i) > -INFINITY) out.tokens.push_back(i);
  std::ranges::sort(out.tokens,
                    [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  for (const int32_t token : out.tokens) out.logits.push_back(value(token));
  return out;
}

// exp((z - largest) / temperature): the difference and the quotient round, then exp.
Bounded share(double logit, double largest, double temperature, const Arithmetic& math) {
  const double exponent = (logit - largest) / temperature;
  if (exponent == -INFINITY) return {};
  return math.exp({exponent, 2 * math.unit * std::fabs(exponent)});
}

// n positive terms in any order.
Bounded sum(std::span<const Bounded> terms, const Arithmetic& math) {
  double value = 0, carried = 0;
  for (const Bounded& term : terms) value += term.value, carried += term.error;
  return math.rounded(value, carried, static_cast<double>(terms.size()));
}

// z - largest - log(sum of exp).
Bounded log_share(double logit, const Ranked& ranked, const Arithmetic& math) {
  std::vector<Bounded> shares;
  for (const double other : ranked.logits) shares.push_back(share(other, ranked.logits[0], 1, math));
  const Bounded total = sum(shares, math);
  const double tail = std::log(total.value);
  const Bounded log{tail, total.error / (total.value - total.error) + Arithmetic::kElementary * math.unit * (tail + 1)};
  return math.add(math.rounded(logit - ranked.logits[0], 0),
                  {-log.value, log.error + math.unit * std::fabs(ranked.logits[0])});
}

// How many of the leading shares are kept, at least and at most, given that they are computed within their errors.
struct Cut {
  size_t least, most;
};

Cut cut_by_mass(std::span<const Bounded> shares, double mass, const Arithmetic& math) {
  if (mass >= 1) return {shares.size(), shares.size()};
  const Bounded total = sum(shares, math);
  Cut cut{0, 0};
  double cumulated = 0;
  const double slack = 2 * total.error / total.value + 4 * math.unit;
  for (size_t i = 0; i < shares.size(); ++i) {
    cumulated += shares[i].value / total.value;
    if (cut.least == 0 && cumulated >= mass - slack) cut.least = i + 1;
    if (cut.most == 0 && cumulated >= mass + slack) cut.most = i + 1;
  }
  if (cut.most == 0) cut.most = shares.size();
  if (cut.least == 0) cut.least = shares.size();
  return cut;
}

Cut cut_by_ratio(std::span<const Bounded> shares, double ratio, const Arithmetic& math) {
  Cut cut{0, 0};
  for (const Bounded& each : shares) {
    const double slack = 2 * each.error + 4 * math.unit * each.value;
    cut.least += each.value - slack >= ratio ? 1 : 0;
    cut.most += each.value + slack >= ratio ? 1 : 0;
  }
  return {std::max<size_t>(1, cut.least), std::max<size_t>(1, cut.most)};
}

// Which tokens of `shares` a draw may give when the cuts keep between `least` and `most` of them.
std::vector<size_t> hits(std::span<const Bounded> shares, Cut cut, double draw, double relative) {
  const auto total = [&](size_t count) {
    double value = 0;
    for (const Bounded& each : shares.first(count)) value += each.value;
    return value;
  };
  const double low = draw * total(cut.least), high = draw * total(cut.most), slack = relative * total(cut.most);
  std::vector<size_t> out;
  double before = 0;
  for (size_t i = 0; i < cut.most; before += shares[i++].value)
    if (before <= high + slack && (before + shares[i].value > low - slack || i + 1 == cut.most)) out.push_back(i);
  return out;
}

// Every token that a draw within rounding may give, the exact one first.
std::vector<int32_t> draws(const Ranked& ranked, const SampleRow& how, const Arithmetic& math) {
  if (how.temperature <= 0) return {ranked.tokens[0]};
  size_t kept = ranked.tokens.size();
  if (how.top_k > 0) kept = std::min(kept, static_cast<size_t>(how.top_k));
  const double draw = uniform(how.key, how.position, 0);
  std::vector<int32_t> out;
  for (const Arithmetic& each : {Arithmetic{.unit = 0}, math}) {
    std::vector<Bounded> shares;
    for (size_t i = 0; i < kept; ++i)
      shares.push_back(share(ranked.logits[i], ranked.logits[0], how.temperature, each));
    const std::span<const Bounded> all(shares);
    const Bounded total = sum(all, each);
    const Cut masses = cut_by_mass(all, how.top_p, each);
    const Cut cut{cut_by_ratio(all.first(masses.least), how.min_p, each).least,
                  cut_by_ratio(all.first(masses.most), how.min_p, each).most};
    for (const size_t i : hits(all, cut, draw, 2 * total.error / total.value + 4 * each.unit))
      if (out.empty() || each.unit > 0) out.push_back(ranked.tokens[i]);
  }
  return out;
}

}  // namespace

Pieces expect(const Penalise& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Pieces pieces;
  for (int64_t r = 0; r < op.logits.rows(); ++r) {
    Numbers row = load(op.logits.slice_rows(r, 1));
    const Numbers penalty = load(op.penalties.slice_rows(r, 1));
    for (int64_t e = op.starts.as<int32_t>()[r]; e < op.starts.as<int32_t>()[r + 1]; ++e) {
      TokenEntry entry;
      std::memcpy(&entry, op.entries.row<std::byte>(e), sizeof(entry));
      const double repetition = penalty[0].value, z = row[static_cast<size_t>(entry.token)].value;
      Bounded changed{z, 0};
      if (entry.seen != 0) changed = math.rounded(z > 0 ? z / repetition : z * repetition, 0);
      const Bounded often = math.multiply(penalty[1], {static_cast<double>(entry.count), 0});
      changed = math.add(changed, {-often.value, often.error});
      changed = math.add(changed, {entry.count > 0 ? -penalty[2].value : 0.0, 0});
      row[static_cast<size_t>(entry.token)] = math.add(changed, {entry.bias, 0});
      // Only this element is the op's to write, so only it may be rounded.
      pieces.push_back(piece("logits", op.logits.slice_rows(r, 1).slice_columns(entry.token, 1),
                             {row[static_cast<size_t>(entry.token)]}));
    }
  }
  return pieces;
}

Pieces expect(const MaskTokens& op, const Precision&) {
  Numbers out = load(op.logits);
  const int64_t width = op.logits.width();
  for (size_t at = 0; at < out.size(); ++at) {
    const auto r = static_cast<int64_t>(at) / width, i = static_cast<int64_t>(at) % width;
    const uint32_t word = op.mask.row<uint32_t>(op.mask.rows() == 1 ? 0 : r)[i / 32];
    if ((word & uint32_t{1} << (i % 32)) == 0) out[at].value = -INFINITY;
  }
  return {exact_piece("logits", op.logits, out)};
}

Pieces expect(const Route& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Numbers chosen, weights;
  for (int64_t t = 0; t < op.logits.rows(); ++t) {
    const Ranked ranked = rank(load(op.logits.slice_rows(t, 1)), false);
    std::vector<Bounded> shares;
    for (const double logit : ranked.logits) shares.push_back(share(logit, ranked.logits[0], 1, math));
    const auto k = static_cast<size_t>(op.chosen.width());
    const Bounded total = sum(std::span(shares).first(op.normalise ? k : shares.size()), math);
    for (size_t i = 0; i < k; ++i) {
      chosen.push_back({static_cast<double>(ranked.tokens[i]), 0});
      // Dividing twice, first by the whole sum and then by the kept one, has the errors of both sums.
      const Bounded whole = sum(shares, math);
      const double value = shares[i].value / total.value;
      const double sums = total.error / total.value + whole.error / whole.value;
      weights.push_back(
          math.rounded(value, shares[i].error / total.value + 2 * value * sums, 2 * Arithmetic::kElementary));
    }
  }
  return {exact_piece("chosen", op.chosen, chosen), piece("weights", op.weights, weights)};
}

Pieces expect(const Sample& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Numbers tokens, logprobs;
  std::vector<std::vector<double>> others;
  for (int64_t r = 0; r < op.logits.rows(); ++r) {
    SampleRow how;
    std::memcpy(&how, op.params.row<std::byte>(r), sizeof(how));
    const Numbers logits = load(op.logits.slice_rows(r, 1));
    const Ranked ranked = rank(logits, true);
    const std::vector<int32_t> possible = ranked.tokens.empty() ? std::vector{-1} : draws(ranked, how, math);
    tokens.push_back({static_cast<double>(possible[0]), 0});
    others.emplace_back(possible.begin(), possible.end());
    Bounded logprob{-INFINITY, 0};
    if (!ranked.tokens.empty()) logprob = log_share(logits[static_cast<size_t>(possible[0])].value, ranked, math);
    // Where rounding decides the draw, the log-probability is that of whichever token came.
    for (const int32_t token : possible)
      if (token != possible[0])
        logprob.error +=
            std::fabs(logits[static_cast<size_t>(token)].value - logits[static_cast<size_t>(possible[0])].value);
    logprobs.push_back(logprob);
  }
  Expected drawn = exact_piece("tokens", op.tokens, tokens);
  drawn.others = std::move(others);
  return {drawn, piece("logprobs", op.logprobs, logprobs)};
}

Pieces expect(const TopLogprobs& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Numbers tokens, logprobs;
  for (int64_t r = 0; r < op.logits.rows(); ++r) {
    const Ranked ranked = rank(load(op.logits.slice_rows(r, 1)), true);
    for (size_t i = 0; std::cmp_less(i, op.tokens.width()); ++i) {
      const bool there = i < ranked.tokens.size();
      tokens.push_back({there ? static_cast<double>(ranked.tokens[i]) : -1.0, 0});
      logprobs.push_back(there ? log_share(ranked.logits[i], ranked, math) : Bounded{-INFINITY, 0});
    }
  }
  return {exact_piece("tokens", op.tokens, tokens), piece("logprobs", op.logprobs, logprobs)};
}

}  // namespace braid::expecting

// An automaton reads digits and compares them with both bounds as it goes.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/number_range.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <vector>

namespace braid {
namespace {

// How the digits read so far compare with a bound's, for magnitudes.
enum class Order : uint8_t { Less, Equal, Greater };

struct Magnitudes {
  std::optional<NumberBound> least, most;  // signs mean nothing
  uint32_t multiple_of, fraction;
  bool zero;  // may be among them
};

Order compare_digit(Order before, char digit, char bound) {
  if (before != Order::Equal || digit == bound) return before;
  return digit < bound ? Order::Less : Order::Greater;
}

class MagnitudeReader {
 public:
  MagnitudeReader(const Magnitudes& range, Productions& productions) : range_(range), productions_(productions) {}

  ExpressionId build() {
    state_of({});
    for (size_t at = 0; at < states_.size(); ++at) expand(static_cast<uint32_t>(at), states_[at]);
    return productions_.graph(std::move(graph_));
  }

 private:
  struct State {
    bool behind_point = false;
    uint32_t digits = 0;   // before the point, or behind it
    bool is_zero = false;  // the part before the point is 0
    bool all_zero = true;
    std::array<Order, 2> order{Order::Equal, Order::Equal};  // to least, to most; behind the point they are final
    uint32_t remainder = 0;
    auto operator<=>(const State&) const = default;
  };

  uint32_t state_of(const State& state) {
    const auto [entry, is_new] = known_.try_emplace(state, static_cast<uint32_t>(states_.size()));
    if (is_new) {
      states_.push_back(state);
      graph_.ends.push_back(may_end(state));
    }
    return entry->second;
  }

  // The comparison once the part before the point is complete: the longer one is greater.
  static Order whole_order(Order order, uint32_t digits, const NumberBound& bound) {
    const size_t length = bound.value.whole.size();
    if (digits == length) return order;
    return digits < length ? Order::Less : Order::Greater;
  }

  bool may_end(const State& state) const {
    if (state.digits == 0 || (state.all_zero && !range_.zero)) return false;
    if (!state.behind_point && range_.fraction == 0 && state.remainder != 0) return false;
    const auto holds = [&](const std::optional<NumberBound>& bound, Order order, Order wanted) {
      if (!bound) return true;
      if (!state.behind_point) order = whole_order(order, state.digits, *bound);
      const uint32_t read = state.behind_point ? state.digits : 0;
      if (order == Order::Equal && bound->value.fraction.size() > read) order = Order::Less;
      return order == wanted || (order == Order::Equal && !bound->exclusive);
    };
    return holds(range_.least, state.order[0], Order::Greater) && holds(range_.most, state.order[1], Order::Less);
  }

  State after(const State& state, char digit) const {
    State next = state;
    ++next.digits;
    next.all_zero = state.all_zero && digit == '0';
    next.is_zero = state.is_zero || (!state.behind_point && state.digits == 0 && digit == '0');
    next.remainder = (state.remainder * 10 + static_cast<uint32_t>(digit - '0')) % range_.multiple_of;
    for (int side = 0; side < 2; ++side) {
      const std::optional<NumberBound>& bound = side == 0 ? range_.least : range_.most;
      if (!bound) continue;
      const std::string& digits = state.behind_point ? bound->value.fraction : bound->value.whole;
      // Before the point digits beyond the bound's decide by their number alone.
      const char other = state.digits < digits.size() ? digits[state.digits] : '0';
      if (state.behind_point || state.digits < digits.size()) {
        next.order[side] = compare_digit(state.order[side], digit, other);
      }
    }
    return next;
  }

  void expand(uint32_t at, const State state) {
    const uint32_t most = state.behind_point ? range_.fraction : NumberRange::kMostWhole;
    if (state.digits < most && !(state.is_zero && !state.behind_point)) {
      for (char digit = '0'; digit <= '9'; ++digit) {
        const uint32_t target = state_of(after(state, digit));
        graph_.edges.push_back({at, target, productions_.bytes({&digit, 1})});
      }
    }
    if (state.behind_point || state.digits == 0 || range_.fraction == 0) return;
    State point = state;
    point.behind_point = true;
    point.digits = 0;
    if (range_.least) point.order[0] = whole_order(state.order[0], state.digits, *range_.least);
    if (range_.most) point.order[1] = whole_order(state.order[1], state.digits, *range_.most);
    const uint32_t target = state_of(point);
    graph_.edges.push_back({at, target, productions_.bytes(".")});
  }

  const Magnitudes& range_;
  Productions& productions_;
  ExpressionGraph graph_;
  std::map<State, uint32_t> known_;
  std::vector<State> states_;
};

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  constexpr int kMostDigits = 40;
  Decimal decimal;
  decimal.negative = !text.empty() && text.front() == '-';
  if (decimal.negative) text.remove_prefix(1);
  const size_t mark = text.find_first_of("eE");
  int exponent = 0;
  if (mark != std::string_view::npos) {
    for (const char c : text.substr(mark + 1)) {
      if (c >= '0' && c <= '9' && exponent < 100'000) exponent = exponent * 10 + (c - '0');
    }
    if (text[mark + 1] == '-') exponent = -exponent;
    text = text.substr(0, mark);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  if (point < text.size()) digits += text.substr(point + 1);
  const int whole = static_cast<int>(point) + exponent;
  if (whole > kMostDigits || whole < -kMostDigits || digits.size() > 2 * kMostDigits) return std::nullopt;
  if (whole <= 0) digits.insert(0, static_cast<size_t>(1 - whole), '0');
  const auto cut = static_cast<size_t>(std::max(whole, 1));
  if (digits.size() < cut) digits.append(cut - digits.size(), '0');
  decimal.whole = digits.substr(0, cut);
  decimal.fraction = digits.substr(cut);
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size() - 1));
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.whole == "0" && decimal.fraction.empty()) decimal.negative = false;
  return decimal;
}

ExpressionId numbers_in(const NumberRange& range, Productions& productions) {
  const auto negative = [](const std::optional<NumberBound>& bound) { return bound && bound->value.negative; };
  const auto is_zero = [](const std::optional<NumberBound>& bound) {
    return bound && bound->value.whole == "0" && bound->value.fraction.empty();
  };
  std::vector<ExpressionId> ways;
  if (!negative(range.most)) {
    Magnitudes from_zero{
        .most = range.most, .multiple_of = range.multiple_of, .fraction = range.fraction, .zero = true};
    if (!negative(range.least)) from_zero.least = range.least;
    ways.push_back(MagnitudeReader(from_zero, productions).build());
  }
  if (!range.least || negative(range.least)) {
    Magnitudes below{.most = range.least, .multiple_of = range.multiple_of, .fraction = range.fraction};
    if (negative(range.most)) below.least = range.most;
    // "-0.0" is a number like others, but "-0" is no way to write an integer.
    below.zero = range.fraction > 0 && !negative(range.most) && !(is_zero(range.most) && range.most->exclusive);
    ways.push_back(productions.sequence({productions.bytes("-"), MagnitudeReader(below, productions).build()}));
  }
  return productions.choice(std::move(ways));
}

}  // namespace braid

// SPDX-License-Identifier: Apache-2.0
#include "cli/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace braid::cli {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 80, kRight = 24, kTop = 48, kBottom = 56;
constexpr const char* kColours[] = {"#2563eb", "#d97706", "#059669", "#9333ea"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

// The smallest of 1, 2, 5 times a power of ten that cuts `range` into at most six steps.
double tick(double range) {
  const double power = std::pow(10, std::floor(std::log10(std::max(range, 1e-12) / 6)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

}  // namespace

std::string to_svg(const Plot& plot) {
  double x_end = 0, y_end = 0;
  for (const auto& line : plot.lines)
    for (const auto& [x, y] : line.points) x_end = std::max(x_end, x), y_end = std::max(y_end, y);
  x_end = x_end > 0 ? x_end * 1.02 : 1;
  y_end = y_end > 0 ? y_end * 1.1 : 1;
  const auto at_x = [&](double x) { return kLeft + x / x_end * (kWidth - kLeft - kRight); };
  const auto at_y = [&](double y) { return kHeight - kBottom - y / y_end * (kHeight - kTop - kBottom); };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"{}\" y=\"28\" font-size=\"16\">{}</text>\n",
      kWidth, kHeight, kLeft, escaped(plot.title));
  for (double y = 0; y <= y_end; y += tick(y_end))
    out += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#e5e7eb\"/>\n"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        kLeft, kWidth - kRight, at_y(y), kLeft - 8, at_y(y) + 4, y);
  for (double x = 0; x <= x_end; x += tick(x_end))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", at_x(x),
                       kHeight - kBottom + 20, x);
  out += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text x=\"18\" y=\"{}\" "
      "transform=\"rotate(-90 18 {})\" text-anchor=\"middle\">{}</text>\n",
      kWidth / 2, kHeight - 14, escaped(plot.x_name), kHeight / 2, kHeight / 2, escaped(plot.y_name));
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    const auto& line = plot.lines[i];
    const char* colour = kColours[i % std::size(kColours)];
    std::string points;
    for (const auto& [x, y] : line.points) {
      points += fmt::format("{:.1f},{:.1f} ", at_x(x), at_y(y));
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", at_x(x), at_y(y), colour);
    }
    out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour);
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\" text-anchor=\"end\">{}</text>\n", kWidth - kRight,
                       kTop + 18 * static_cast<double>(i), colour, escaped(line.name));
  }
  return out + "</svg>\n";
}

}  // namespace braid::cli

// A small line plot as SVG.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace braid::cli {

struct Plot {
  std::string title, x_name, y_name;
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;
  };
  std::vector<Line> lines;
};

// Axes start at zero. Readable on light and dark backgrounds.
std::string to_svg(const Plot& plot);

}  // namespace braid::cli

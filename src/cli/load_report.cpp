// What is told of a measured load beside its figures: a plot, and the difference of two.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "cli/load.h"
#include "cli/plot.h"

namespace braid::cli {

std::string plot_load(const Json& result) {
  Plot out{.title = fmt::format("{}: {:.0f} tokens/s", result["model"].get<std::string>(),
                                result["tokens_per_s"].get<double>()),
           .x_name = "share of them that took no longer, %",
           .y_name = "milliseconds"};
  for (const Json& row : result["times"]) {
    if (row["kind"] == "request") continue;
    Plot::Line& line = out.lines.emplace_back(Plot::Line{.name = row["kind"].get<std::string>()});
    const Json& shares = row["shares_ms"];
    for (size_t i = 0; i < shares.size(); ++i)
      line.points.emplace_back(100.0 * static_cast<double>(i) / static_cast<double>(shares.size() - 1),
                               shares[i].get<double>());
  }
  return to_svg(out);
}

void compare_loads(const Json& before, const Json& after) {
  if (before["load"] != after["load"])
    fail("the two loads differ: {} and {}", before["load"].dump(), after["load"].dump());
  const auto line = [](const std::string& name, double old, double now) {
    fmt::print("{:<22} {:>13.2f} {:>13.2f} {:>8.3f}\n", name, old, now, now / old);
  };
  fmt::print("{:<22} {:>13} {:>13} {:>8}\n", "", "before", "after", "ratio");
  for (const char* name : {"tokens_per_s", "requests_per_s"})
    line(name, before[name].get<double>(), after[name].get<double>());
  for (const Json& old : before["times"])
    for (const Json& now : after["times"])
      for (const char* name : {"p50_ms", "p90_ms", "p99_ms"})
        if (old["kind"] == now["kind"])
          line(fmt::format("{} {}", old["kind"].get<std::string>(), name), old[name].get<double>(),
               now[name].get<double>());
}

}  // namespace braid::cli

// SPDX-License-Identifier: Apache-2.0
#include "model/families/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.h"

namespace braid {
namespace {

struct Settings {
  double theta = 10000;
  double partial = 1;
  Json scaling = Json::object();
  std::string key;  // where the scaling came from, for messages
};

double positive(const Settings& settings, const ConfigReader& config, const char* name,
                std::optional<double> otherwise) {
  const auto found = settings.scaling.find(name);
  if (found == settings.scaling.end() || found->is_null()) {
    if (!otherwise) config.refuse(settings.key, fmt::format("has no '{}'", name));
    return *otherwise;
  }
  if (!found->is_number() || found->get<double>() <= 0)
    config.refuse(settings.key, fmt::format("has a bad '{}': {}", name, found->dump()));
  return found->get<double>();
}

// A value of the scaling that must be of one type, or absent.
template <typename T>
T typed(const Settings& settings, const ConfigReader& config, const char* name, T otherwise) {
  const auto found = settings.scaling.find(name);
  if (found == settings.scaling.end() || found->is_null()) return otherwise;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    config.refuse(settings.key, fmt::format("has a bad '{}': {}", name, found->dump()));
  }
}

Settings read_settings(ConfigReader& config, const Json& override) {
  Settings settings;
  settings.theta = config.number("rope_theta", 10000);
  settings.partial = config.number("partial_rotary_factor", 1);
  settings.key = "rope_scaling";
  if (const Json* scaling = config.object("rope_scaling")) settings.scaling = *scaling;
  if (const Json* parameters = config.object("rope_parameters")) {
    settings.scaling = *parameters;
    settings.key = "rope_parameters";
    settings.theta = positive(settings, config, "rope_theta", settings.theta);
    settings.partial = positive(settings, config, "partial_rotary_factor", settings.partial);
  }
  if (override.is_object()) {
    settings.scaling = override;
    settings.key = "--rope-scaling";
  }
  if (settings.theta <= 1) config.refuse("rope_theta", fmt::format("must be above 1, found {}", settings.theta));
  return settings;
}

double mscale(double factor, double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

// YaRN: interpolates slow frequencies, keeps fast ones, and blends between.
float apply_yarn(std::vector<double>& f, const Settings& settings, const ConfigReader& config, double trained) {
  const double rot = 2.0 * static_cast<double>(f.size());
  const double factor = positive(settings, config, "factor", std::nullopt);
  const double length = positive(settings, config, "original_max_position_embeddings", trained);
  const auto correction = [&](double turns) {
    return rot * std::log(length / (2 * std::numbers::pi * turns)) / (2 * std::log(settings.theta));
  };
  double low = correction(positive(settings, config, "beta_fast", 32));
  double high = correction(positive(settings, config, "beta_slow", 1));
  if (typed(settings, config, "truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rot - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = f[i] / factor * ramp + f[i] * (1 - ramp);
  }
  double scale = mscale(factor, 1);
  const double weight = typed(settings, config, "mscale", 0.0), all = typed(settings, config, "mscale_all_dim", 0.0);
  if (weight != 0 && all != 0) scale = mscale(factor, weight) / mscale(factor, all);
  return static_cast<float>(positive(settings, config, "attention_factor", scale));
}

void apply_llama3(std::vector<double>& f, const Settings& settings, const ConfigReader& config) {
  const double factor = positive(settings, config, "factor", std::nullopt);
  const double low = positive(settings, config, "low_freq_factor", 1);
  const double high = positive(settings, config, "high_freq_factor", 4);
  const double length = positive(settings, config, "original_max_position_embeddings", std::nullopt);
  for (double& value : f) {
    const double keep = std::clamp((length * value / (2 * std::numbers::pi) - low) / (high - low), 0.0, 1.0);
    value = value / factor * (1 - keep) + value * keep;
  }
}

}  // namespace

RopeTable read_rope(ConfigReader& config, int64_t head_size, const Json& override) {
  const Settings settings = read_settings(config, override);
  const auto rot = static_cast<int64_t>(static_cast<double>(head_size) * settings.partial);
  if (rot < 2 || rot > head_size || rot % 2 != 0)
    config.refuse("partial_rotary_factor", fmt::format("rotates {} of {} features", rot, head_size));
  std::vector<double> f(static_cast<size_t>(rot / 2));
  for (size_t i = 0; i < f.size(); ++i)
    f[i] = std::pow(settings.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rot));
  const auto sections = typed(settings, config, "mrope_section", std::vector<int64_t>());
  // For text the three positions are equal, and sections only have to cover all frequencies.
  if (const int64_t sum = std::accumulate(sections.begin(), sections.end(), int64_t{0});
      !sections.empty() && sum != rot / 2)
    config.refuse(settings.key, fmt::format("has mrope_section of sum {}, expected {}", sum, rot / 2));
  const std::string type =
      typed(settings, config, "rope_type", typed(settings, config, "type", std::string("default")));
  RopeTable table;
  if (type == "yarn") {
    table.scale =
        apply_yarn(f, settings, config, static_cast<double>(config.integer("max_position_embeddings", 32768)));
  } else if (type == "linear") {
    const double factor = positive(settings, config, "factor", std::nullopt);
    for (double& value : f) value /= factor;
  } else if (type == "llama3") {
    apply_llama3(f, settings, config);
  } else if (type != "default" && type != "mrope") {
    config.refuse(settings.key, fmt::format("has type '{}'; known are default, linear, yarn, llama3", type));
  }
  table.frequencies.assign(f.begin(), f.end());
  return table;
}

}  // namespace braid

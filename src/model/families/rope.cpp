// SPDX-License-Identifier: Apache-2.0
#include "model/families/rope.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace braid {
namespace {

// What a scaling of each type may hold beside its type.
struct Type {
  std::string_view name;
  std::vector<std::string_view> keys;
};
const std::vector<Type> kTypes{
    {"default", {}},
    {"mrope", {}},
    {"linear", {"factor"}},
    {"yarn",
     {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor", "mscale",
      "mscale_all_dim", "truncate"}},
    {"llama3", {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}}};

// Far beyond any model's angles, lengths and factors.
constexpr double kMostSetting = 1e12;

// The scaling in force, by key; faults name where it came from.
class Settings {
 public:
  Settings(ConfigReader& config, const Json& override) : config_(config) {
    theta = config.number("rope_theta", theta);
    partial = config.number("partial_rotary_factor", partial);
    check_base("");
    if (const Json* scaling = config.object("rope_scaling")) scaling_ = *scaling;
    if (const Json* parameters = config.object("rope_parameters")) {
      scaling_ = *parameters;
      key_ = "rope_parameters";
      theta = positive("rope_theta", theta);
      partial = positive("partial_rotary_factor", partial);
      check_base("rope_parameters.");
    }
    if (!override.is_object()) return;
    scaling_ = override;
    overridden_ = true;
  }

  double theta = 10000, partial = 1;

  [[noreturn]] void refuse(std::string_view name, const std::string& why) const {
    if (overridden_) fail(ErrorKind::Usage, "--rope-scaling: '{}' {}", name, why);
    config_.refuse(fmt::format("{}.{}", key_, name), why);
  }
  // A value of one type, or absent.
  template <typename T>
  T typed(const char* name, T otherwise, const char* expected) const {
    const auto found = scaling_.find(name);
    if (found == scaling_.end() || found->is_null()) return otherwise;
    try {
      return found->get<T>();
    } catch (const Json::exception&) {
      refuse(name, fmt::format("must be {}, found {}", expected, found->dump()));
    }
  }
  double number(const char* name, double otherwise) const {
    const auto found = scaling_.find(name);
    if (found == scaling_.end() || found->is_null()) return otherwise;
    if (!found->is_number() || found->get<double>() < 0 || found->get<double>() > kMostSetting)
      refuse(name, fmt::format("must be a number from 0 to {}, found {}", kMostSetting, found->dump()));
    return found->get<double>();
  }
  double positive(const char* name, std::optional<double> otherwise) const {
    const double value = number(name, otherwise.value_or(-1));
    if (value < 0) refuse(name, "is missing");
    if (value == 0) refuse(name, "must be above 0");
    return value;
  }
  // Refuses two values of which the first has to exceed the second.
  void check_order(const char* larger, double large, const char* smaller, double small) const {
    if (large <= small) refuse(larger, fmt::format("is {} and has to exceed {}, which is {}", large, smaller, small));
  }

  // For text the three positions of mrope are equal, and its sections only have to cover all frequencies.
  void check_sections(int64_t frequencies) const {
    const auto found = scaling_.find("mrope_section");
    if (found == scaling_.end() || found->is_null()) return;
    const auto whole = [&](const Json& item) { return item.is_number_integer() && item >= 0 && item <= frequencies; };
    if (!found->is_array() || !std::ranges::all_of(*found, whole))
      refuse("mrope_section",
             fmt::format("must be a list of whole numbers up to {}, found {}", frequencies, found->dump()));
    const auto sections = found->get<std::vector<int64_t>>();
    const int64_t sum = std::accumulate(sections.begin(), sections.end(), int64_t{0});
    if (!sections.empty() && sum != frequencies)
      refuse("mrope_section", fmt::format("has the sum {}, expected {}", sum, frequencies));
  }

  bool overridden() const { return overridden_; }
  bool has(const char* name) const { return scaling_.contains(name) && !scaling_[name].is_null(); }

  // One of kTypes.
  const Type& type() const {
    std::string name =
        typed("rope_type", typed("type", std::string(overridden_ ? "" : "default"), "a string"), "a string");
    if (name.empty()) refuse("rope_type", "is missing");
    const auto type = std::ranges::find(kTypes, name, &Type::name);
    if (type == kTypes.end())
      refuse("rope_type", fmt::format("is '{}'; known are default, linear, yarn, llama3", name));
    return *type;
  }
  // What the type does not know is refused on the command line and warned of in a config.
  void check_keys(const Type& type) const {
    for (const auto& [key, value] : scaling_.items()) {
      if (key == "rope_type" || key == "type" || std::ranges::find(type.keys, key) != type.keys.end()) continue;
      if (overridden_)
        refuse(key, fmt::format("is not known to type '{}'; it takes: {}", type.name, fmt::join(type.keys, ", ")));
      if (std::ranges::find(kOfConfigs, key) == kOfConfigs.end())
        log::warn("config keys_not_used=\"{}.{}\" file={}", key_, key, config_.place());
    }
  }

 private:
  void check_base(const std::string& level) const {
    if (!(theta > 1 && theta <= kMostSetting))
      config_.refuse(level + "rope_theta", fmt::format("must lie between 1 and {}, found {}", kMostSetting, theta));
    if (!(partial > 0 && partial <= 1))
      config_.refuse(level + "partial_rotary_factor", fmt::format("must lie between 0 and 1, found {}", partial));
  }

  static constexpr std::array<std::string_view, 4> kOfConfigs{"rope_theta", "partial_rotary_factor", "mrope_section",
                                                              "mrope_interleaved"};
  const ConfigReader& config_;
  Json scaling_ = Json::object();
  std::string key_ = "rope_scaling";
  bool overridden_ = false;
};

double mscale(double factor, double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

// YaRN: interpolates slow frequencies, keeps fast ones, and blends between.
float apply_yarn(std::vector<double>& f, const Settings& settings, double trained) {
  const double rot = 2.0 * static_cast<double>(f.size());
  const double factor = settings.positive("factor", std::nullopt);
  const double length = settings.positive("original_max_position_embeddings", trained);
  const double fast = settings.positive("beta_fast", 32), slow = settings.positive("beta_slow", 1);
  settings.check_order("beta_fast", fast, "beta_slow", slow);
  const auto correction = [&](double turns) {
    return rot * std::log(length / (2 * std::numbers::pi * turns)) / (2 * std::log(settings.theta));
  };
  double low = correction(fast), high = correction(slow);
  if (settings.typed("truncate", true, "true or false")) {
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
  const double weight = settings.number("mscale", 0.0), all = settings.number("mscale_all_dim", 0.0);
  if (weight != 0 && all != 0) scale = mscale(factor, weight) / mscale(factor, all);
  return static_cast<float>(settings.positive("attention_factor", scale));
}

void apply_llama3(std::vector<double>& f, const Settings& settings) {
  const double factor = settings.positive("factor", std::nullopt);
  const double low = settings.positive("low_freq_factor", 1), high = settings.positive("high_freq_factor", 4);
  settings.check_order("high_freq_factor", high, "low_freq_factor", low);
  const double length = settings.positive("original_max_position_embeddings", std::nullopt);
  for (double& value : f) {
    const double keep = std::clamp((length * value / (2 * std::numbers::pi) - low) / (high - low), 0.0, 1.0);
    value = value / factor * (1 - keep) + value * keep;
  }
}

}  // namespace

RopeTable read_rope(ConfigReader& config, int64_t head_size, const Json& override) {
  const Settings settings(config, override);
  const auto rot = static_cast<int64_t>(static_cast<double>(head_size) * settings.partial);
  if (rot < 2 || rot > head_size || rot % 2 != 0)
    config.refuse("partial_rotary_factor", fmt::format("rotates {} of {} features", rot, head_size));
  std::vector<double> f(static_cast<size_t>(rot / 2));
  for (size_t i = 0; i < f.size(); ++i)
    f[i] = std::pow(settings.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rot));
  settings.check_sections(rot / 2);
  settings.check_keys(settings.type());
  const std::string_view type = settings.type().name;
  const auto trained = static_cast<double>(config.integer("max_position_embeddings", 32768));
  RopeTable table;
  if (type == "yarn") {
    table.scale = apply_yarn(f, settings, trained);
  } else if (type == "linear") {
    const double factor = settings.positive("factor", std::nullopt);
    for (double& value : f) value /= factor;
  } else if (type == "llama3") {
    apply_llama3(f, settings);
  }
  table.frequencies.assign(f.begin(), f.end());
  return table;
}

int64_t read_context(ConfigReader& config, const Json& override) {
  const int64_t trained = config.size("max_position_embeddings", INT32_MAX);
  const Settings settings(config, override);
  const std::string_view type = settings.type().name;
  constexpr const char* kOriginal = "original_max_position_embeddings";
  double original = 0;
  if (type == "yarn" && (settings.overridden() || settings.has(kOriginal)))
    original = settings.positive(kOriginal, static_cast<double>(trained));
  else if (type == "linear" && settings.overridden())
    original = static_cast<double>(trained);
  if (original == 0) return trained;
  const double stretched = std::min(original * settings.positive("factor", std::nullopt), double{INT32_MAX});
  return std::max(trained, static_cast<int64_t>(stretched));
}

}  // namespace braid

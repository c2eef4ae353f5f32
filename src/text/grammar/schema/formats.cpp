// Dates are exact, leap years included; addresses and names keep to what is common.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/formats.h"

#include <map>

namespace braid {
namespace {

std::map<std::string, std::string> make_patterns() {
  const std::string leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  const std::string date =
      "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
      "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
      leap_year + "-02-29)";
  const std::string hour = "(?:[01][0-9]|2[0-3])", minute = "[0-5][0-9]";
  const std::string time =
      hour + ":" + minute + ":" + minute + "(?:\\.[0-9]{1,9})?(?:Z|[+-]" + hour + ":" + minute + ")";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
  // Written out: repetitions of what is itself repeated would have to be counted, which costs more.
  const std::string more = "(?:\\." + label + ")?";
  const std::string hostname = label + more + more + more + more;
  const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string ipv4 = byte + "(?:\\." + byte + "){3}";
  const std::string group = "[0-9A-Fa-f]{1,4}";
  std::string ipv6 = "(?:" + group + ":){7}" + group;
  for (int before = 0; before <= 6; ++before) {
    const std::string front = before == 0 ? "" : group + "(?::" + group + "){" + std::to_string(before - 1) + "}";
    const std::string behind = "(?:" + group + "(?::" + group + "){0," + std::to_string(6 - before) + "})?";
    ipv6 += "|" + front + "::" + behind;
  }
  const std::string word = "[A-Za-z0-9_+-]{1,32}";
  const std::string path = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const std::string tail = "(?:/" + path + "*)*(?:\\?(?:" + path + "|[/?])*)?(?:#(?:" + path + "|[/?])*)?";
  const std::string uri = "[A-Za-z][A-Za-z0-9+.-]{0,15}://" + hostname + "(?::[0-9]{1,5})?" + tail;
  const std::string amount = "[0-9]{1,9}";
  const std::string clock = "T(?:" + amount + "H(?:" + amount + "M)?(?:" + amount + "S)?|" + amount + "M(?:" + amount +
                            "S)?|" + amount + "S)";
  const std::string days =
      "(?:" + amount + "Y(?:" + amount + "M)?(?:" + amount + "D)?|" + amount + "M(?:" + amount + "D)?|" + amount + "D)";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", "P(?:" + days + "(?:" + clock + ")?|" + clock + "|" + amount + "W)"},
      {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
      {"email", word + "(?:\\." + word + ")?(?:\\." + word + ")?@" + label + "\\." + label + more + more},
      {"hostname", hostname},
      {"ipv4", ipv4},
      {"ipv6", ipv6},
      {"uri", uri},
      {"uri-reference", uri + "|" + tail},
      {"json-pointer", "(?:/(?:[^/~]|~[01])*)*"},
  };
}

}  // namespace

std::optional<std::string> format_pattern(const std::string& name) {
  static const std::map<std::string, std::string> patterns = make_patterns();
  const auto found = patterns.find(name);
  if (found == patterns.end()) return std::nullopt;
  return found->second;
}

}  // namespace braid

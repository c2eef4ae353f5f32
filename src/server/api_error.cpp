// SPDX-License-Identifier: Apache-2.0
#include "server/api_error.h"

namespace braid::server {
namespace {

constexpr std::pair<Fault, int> kStatus[] = {
    {Fault::Invalid, 400},     {Fault::Unauthorized, 401}, {Fault::NotFound, 404}, {Fault::Method, 405},
    {Fault::Late, 408},        {Fault::TooLarge, 413},     {Fault::Busy, 429},     {Fault::HeadersTooLarge, 431},
    {Fault::Unavailable, 503}, {Fault::Internal, 500},
};

}  // namespace

int status_of(Fault fault) {
  for (const auto& [known, status] : kStatus)
    if (known == fault) return status;
  return 500;
}

Fault fault_of(int status) {
  for (const auto& [fault, known] : kStatus)
    if (known == status) return fault;
  return Fault::Internal;
}

}  // namespace braid::server

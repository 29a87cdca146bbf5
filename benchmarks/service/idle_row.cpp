#include <fmt/format.h>

#include "benchmarks/service/fleet.hpp"
#include "benchmarks/service/plain_peer.hpp"
#include "benchmarks/service/rows.hpp"

namespace gleaner::bench {
namespace {

constexpr std::uint32_t kConnections = 5'000;
constexpr std::uint32_t kWarm = 100;  // connected before: what the first ones cost the process once is not theirs
constexpr std::uint32_t kPlainConnections = 600;

double kilobytes_each(const Memory& before, const Memory& after, std::uint32_t connections) {
  return (static_cast<double>(after.resident_bytes) - static_cast<double>(before.resident_bytes)) / connections / 1e3;
}

}  // namespace

Status measure_idle_connections(const Bed& bed, Rows& rows) {
  GLEANER_ASSIGN(Coordinator coordinator, Coordinator::start(bed, "idle"));
  GLEANER_ASSIGN(const auto fleet,
                 Fleet::make(bed, coordinator.port(), {.first_device = 0, .devices = kConnections, .payloads = {}}));
  GLEANER_TRY(fleet->connect(kWarm, std::chrono::seconds(30)));
  GLEANER_ASSIGN(const Memory before, coordinator.process().memory());
  GLEANER_TRY(fleet->connect(kConnections, std::chrono::seconds(120)));
  GLEANER_ASSIGN(const Memory after, coordinator.process().memory());

  GLEANER_ASSIGN(const auto plain, PlainFleet::make(bed, {.links = kPlainConnections}));
  GLEANER_ASSIGN(const Memory plain_before, plain->server().memory());
  GLEANER_TRY(plain->connect());
  GLEANER_ASSIGN(const Memory plain_after, plain->server().memory());
  rows.push_back({.name = "idle_connection",
                  .text = fmt::format("memory of an idle connection, {} held", kConnections),
                  .unit = "kB",
                  .value = kilobytes_each(before, after, kConnections - kWarm),
                  .target = 26.0,
                  .references = {{"a plain ssl::stream", kilobytes_each(plain_before, plain_after, kPlainConnections)}},
                  .note = {}});
  return {};
}

}  // namespace gleaner::bench

#include "cli/simulate/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.hpp"
#include "common/text.hpp"

namespace gleaner::cli {

SimulationProgress::SimulationProgress(Console& console, std::uint32_t versions)
    : console_(console), versions_(std::max<std::uint32_t>(versions, 1)) {}

std::string SimulationProgress::facts(const simulation::RoundRecord& record) const {
  const double spent_s = record.real_s - began_s_;
  const double rounds = record.round - began_round_;
  const double rate = spent_s > 0 && rounds > 0 ? rounds / spent_s : 0.0;
  const double left = versions_ - std::min(versions_, record.version);
  return fmt::format("round {}/{}  accuracy {}  virtual {}  {}  up {}  down {}  {} left", record.version, versions_,
                     human_percent(accuracy_), human_span(record.virtual_s),
                     rate > 0 ? fmt::format("{:.3g} rounds/s", rate) : "-", human_bytes(static_cast<double>(bytes_up_)),
                     human_bytes(static_cast<double>(bytes_down_)), rate > 0 ? human_span(left / rate) : "-");
}

void SimulationProgress::show(const simulation::RoundRecord& record) {
  if (began_s_ < 0.0) {
    began_s_ = record.round == 1 ? 0.0 : record.real_s;
    began_round_ = record.round == 1 ? 0 : record.round;
  }
  count(record);
  if (console_.err_is_terminal) {
    constexpr std::uint32_t kWidth = 24;
    const std::uint32_t filled = std::min(record.version, versions_) * kWidth / versions_;
    console_.err << fmt::format("\r\x1b[K[{:#<{}}{:.<{}}] {}", "", filled, "", kWidth - filled, facts(record))
                 << std::flush;
  } else if (record.version >= next_line_ || record.version == versions_) {
    console_.out << facts(record) << "\n" << std::flush;
    next_line_ = record.version + std::max<std::uint32_t>(1, versions_ / 20);
  }
}

void SimulationProgress::count(const simulation::RoundRecord& record) {
  if (record.accuracy) accuracy_ = record.accuracy;
  bytes_up_ += record.socket_bytes_up;
  bytes_down_ += record.socket_bytes_down;
}

void SimulationProgress::end() {
  if (console_.err_is_terminal) console_.err << "\n";
}

}  // namespace gleaner::cli

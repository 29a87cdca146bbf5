#pragma once
// Whether an open round may close: a pure function of counts, asked after every event.

#include <cstdint>
#include <string_view>

namespace gleaner {

enum class DeadlineState : std::uint8_t { none, running, passed };

enum class RoundVerdict : std::uint8_t {
  wait,     // answers may still come
  close,    // step with what is there
  abandon,  // too few and no more in time: everybody's pending part is put back
};

struct RoundProgress {
  std::uint32_t planned = 0;    // plans issued
  std::uint32_t answers = 0;    // usable updates and skips
  std::uint32_t failed = 0;     // plans that will never be answered: refused, declined, revoked
  std::uint32_t connected = 0;  // devices with an open plan that are connected now
  std::uint32_t answers_wanted = 0;
  std::uint32_t answers_min = 1;  // with fewer there is no step, whatever happens
  DeadlineState deadline = DeadlineState::none;
  bool all_must_answer = false;  // reproducible: who is away comes back, nothing closes without it
};

// answers + failed <= planned (GLEANER_CHECK).
//   quorum reached                      close
//   no plan open any more               close, or abandon below answers_min
//   all_must_answer                     wait
//   deadline passed                     close, or abandon below answers_min
//   no deadline and all the rest gone   close, or wait below answers_min: there is nobody to start anew with
RoundVerdict judge_round(const RoundProgress& progress);

std::string_view to_string(RoundVerdict verdict);

}  // namespace gleaner

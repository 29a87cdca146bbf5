#include <fmt/format.h>

#include <cmath>

#include "protocol/messages.hpp"
#include "protocol/wire.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kHiddenUnitsMax = 1U << 20;
constexpr std::uint32_t kClassesMin = 2;
constexpr std::uint32_t kClassesMax = 256;  // labels are bytes
constexpr std::int32_t kClipExponentMax = 60;

Status require(bool ok, std::string_view field, std::string_view expected) {
  if (ok) return {};
  return fail(ErrorCode::bad_input, fmt::format("{} must be {}", field, expected));
}
Status require_name(const std::string& name, std::string_view field) {
  return require(is_valid_name(name), field, "a name of 1 to 64 characters from a-z, 0-9, '.', '_' and '-'");
}

}  // namespace

Status check_run_spec(const RunSpec& s) {
  GLEANER_TRY(require(
      !s.name.empty() && s.name.size() <= wire::kTitleBytesMax && wire::is_printable(s.name.data(), s.name.size()),
      "name", "1 to 128 bytes of printable UTF-8"));
  if (!s.recipe.empty()) GLEANER_TRY(require_name(s.recipe, "recipe"));
  GLEANER_TRY(require_name(s.data, "data"));
  GLEANER_TRY(require_name(s.model, "model"));
  GLEANER_TRY(require_name(s.compressor, "compressor"));
  GLEANER_TRY(require_name(s.value_format_up, "value_format_up"));
  GLEANER_TRY(require_name(s.upload_rule, "upload_rule"));
  GLEANER_TRY(require(s.classes >= kClassesMin && s.classes <= kClassesMax, "classes", "from 2 to 256"));
  GLEANER_TRY(require(s.hidden_units <= kHiddenUnitsMax, "hidden_units", "at most 1048576"));
  GLEANER_TRY(require(s.dimension >= 1, "dimension", "at least 1"));
  GLEANER_TRY(require(s.local_epochs >= 1, "local_epochs", "at least 1"));
  GLEANER_TRY(require(s.batch_size >= 1, "batch_size", "at least 1"));
  GLEANER_TRY(require(std::isfinite(s.learning_rate) && s.learning_rate > 0, "learning_rate", "above 0 and finite"));
  GLEANER_TRY(require(s.momentum >= 0 && s.momentum < 1, "momentum", "at least 0 and below 1"));
  GLEANER_TRY(require(std::isfinite(s.weight_decay) && s.weight_decay >= 0, "weight_decay", "at least 0 and finite"));
  GLEANER_TRY(require(s.skip_share >= 0 && s.skip_share <= 1, "skip_share", "from 0 to 1"));
  GLEANER_TRY(require(std::isfinite(s.c0) && s.c0 >= 0, "c0", "at least 0 and finite"));
  GLEANER_TRY(require(std::isfinite(s.zeta) && s.zeta >= 0, "zeta", "at least 0 and finite"));
  return require(s.clip_exponent >= -kClipExponentMax && s.clip_exponent <= kClipExponentMax, "clip_exponent",
                 "from -60 to 60");
}

}  // namespace gleaner

#include "tests/protocol/random_messages.hpp"

#include <array>

namespace gleaner::testing {
namespace {

std::string random_name(Random& r) {
  static constexpr std::string_view kFirst = "abcxyz0189_";
  static constexpr std::string_view kOther = "abcxyz0189_.-";
  std::string name(1, kFirst[r.below(kFirst.size())]);
  for (auto more = r.below(64); more > 0; --more) name += kOther[r.below(kOther.size())];
  return name;
}

std::string random_text(Random& r, std::size_t bytes_max) {
  static constexpr std::array<std::string_view, 6> kPieces{
      "a", " ", "~", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xbe"};
  std::string text;
  for (auto more = r.below(200); more > 0; --more) {
    const std::string_view piece = kPieces[r.below(kPieces.size())];
    if (text.size() + piece.size() <= bytes_max) text += piece;
  }
  return text;
}

std::vector<std::string> random_names(Random& r) {
  std::vector<std::string> names(r.below(65));
  for (std::string& name : names) name = random_name(r);
  return names;
}

float random_float(Random& r) {
  static constexpr std::array<float, 5> kEdges{0.0F, -1.0F, 3.4e38F, 1e-45F, -0.5F};
  return r.below(2) == 0 ? kEdges[r.below(kEdges.size())] : static_cast<float>(r.uniform() * 100.0 - 50.0);
}

// Small and large values of any number.
template <class T>
T random_number(Random& r) {
  return static_cast<T>(r.bits64() >> r.below(64));
}
template <class T>
T nonzero(Random& r) {
  const T value = random_number<T>(r);
  return value == 0 ? T{1} : value;
}

ByteView random_bytes(Random& r, Bytes& bytes, std::size_t size_min) {
  static constexpr std::array<std::uint32_t, 4> kSizes{1, 40, 3000, kChunkBytesMax};
  const auto size = size_min + r.below(kSizes[r.below(32) == 0 ? 3 : r.below(3)]);
  bytes.resize(size);
  for (std::size_t i = 0; i < size; i += 97) bytes[i] = static_cast<std::byte>(r.bits32());
  return bytes;
}

Offer random_offer(Random& r) {
  Offer m{.lineage = {random_number<std::uint64_t>(r)}};
  RunSpec& s = m.spec;
  s.id = {random_number<std::uint64_t>(r)};
  s.name = "run " + random_text(r, 100);
  if (r.below(2) == 0) s.recipe = random_name(r);
  s.seed = random_number<std::uint64_t>(r);
  s.reproducible = r.below(2) == 0;
  s.data = random_name(r);
  s.model = random_name(r);
  s.classes = 2 + r.below(255);
  s.hidden_units = r.below(1U << 20);
  s.schema_hash = random_number<std::uint64_t>(r);
  s.dimension = nonzero<std::uint32_t>(r);
  s.local_epochs = nonzero<std::uint32_t>(r);
  s.batch_size = nonzero<std::uint32_t>(r);
  s.learning_rate = static_cast<float>(r.uniform()) + 1e-6F;
  s.momentum = static_cast<float>(r.uniform()) * 0.99F;
  s.weight_decay = static_cast<float>(r.uniform());
  s.compressor = random_name(r);
  s.per_tensor = r.below(2) == 0;
  s.value_format_up = random_name(r);
  s.upload_rule = random_name(r);
  s.skip_share = r.uniform();
  s.age_max = random_number<std::uint32_t>(r);
  s.c0 = r.uniform() * 10;
  s.rule_history = random_number<std::uint32_t>(r);
  s.zeta = r.uniform() * 10;
  s.clip_exponent = static_cast<std::int32_t>(r.below(121)) - 60;
  return m;
}

Accept random_accept(Random& r) {
  Accept m{.run = {random_number<std::uint64_t>(r)},
           .samples = random_number<std::uint32_t>(r),
           .schema_hash = random_number<std::uint64_t>(r),
           .has_model = r.below(2) == 0};
  if (m.has_model) {
    m.lineage = {random_number<std::uint64_t>(r)};
    m.version = {random_number<std::uint32_t>(r)};
    m.model_hash = random_number<std::uint64_t>(r);
  }
  if (r.below(2) == 0) {
    m.pending_plan = {nonzero<std::uint64_t>(r)};
    m.pending_digest = {random_number<std::uint64_t>(r)};
  }
  return m;
}

Plan random_plan(Random& r, Bytes& bytes) {
  Plan m{.run = {random_number<std::uint64_t>(r)},
         .id = {nonzero<std::uint64_t>(r)},
         .round = random_number<std::uint32_t>(r),
         .base = {nonzero<std::uint32_t>(r)},
         .base_hash = random_number<std::uint64_t>(r),
         .lineage = {random_number<std::uint64_t>(r)},
         .entries_max = random_number<std::uint32_t>(r),
         .deadline_ms = random_number<std::uint32_t>(r),
         .steps_max = random_number<std::uint32_t>(r),
         .threshold = random_float(r),
         .patch_clip = std::abs(random_float(r)),
         .sync = static_cast<SyncKind>(r.below(5))};
  if (r.below(2) == 0) {
    m.settled_plan = {nonzero<std::uint64_t>(r)};
    m.settled_outcome = static_cast<Outcome>(r.below(8));
  }
  if (m.sync == SyncKind::seeded) m.base = {0};
  if (m.sync != SyncKind::none && m.sync != SyncKind::seeded) {
    m.sync_from = {m.base.value - 1};
    m.sync_head = random_bytes(r, bytes, 0);
    m.sync_bytes = m.sync_head.size() + nonzero<std::uint32_t>(r);
  }
  return m;
}

Update random_update(Random& r, Bytes& bytes) {
  Update m{.plan = {nonzero<std::uint64_t>(r)},
           .digest = {random_number<std::uint64_t>(r)},
           .samples = random_number<std::uint32_t>(r),
           .offset = random_number<std::uint32_t>(r) >> 1,
           .compute_ms = random_number<std::uint32_t>(r),
           .left = random_float(r),
           .right = random_float(r),
           .loss = random_float(r),
           .bytes = random_bytes(r, bytes, 1)};
  m.total_bytes = m.offset + static_cast<std::uint32_t>(m.bytes.size()) + r.below(1000);
  return m;
}

Skip random_skip(Random& r) {
  return {.plan = {nonzero<std::uint64_t>(r)},
          .samples = random_number<std::uint32_t>(r),
          .compute_ms = random_number<std::uint32_t>(r),
          .left = random_float(r),
          .right = random_float(r),
          .loss = random_float(r)};
}

Settle random_settle(Random& r) {
  Settle m{.run = {random_number<std::uint64_t>(r)}, .plan = {nonzero<std::uint64_t>(r)}};
  if (r.below(2) == 0) {
    m.resend = true;
  } else {
    m.outcome = static_cast<Outcome>(r.below(8));
  }
  return m;
}

}  // namespace

Message random_message(std::size_t index, Random& r, Bytes& bytes) {
  switch (index) {
    case 0: {
      const auto low = nonzero<std::uint16_t>(r), high = nonzero<std::uint16_t>(r);
      return Hello{.version_min = std::min(low, high),
                   .version_max = std::max(low, high),
                   .software = random_text(r, 128),
                   .capabilities = random_names(r),
                   .cores = 1 + r.below(65'536)};
    }
    case 1:
      return Welcome{.version = nonzero<std::uint16_t>(r),
                     .heartbeat_ms = 1 + r.below(3'600'000),
                     .capabilities = random_names(r)};
    case 2: return random_offer(r);
    case 3: return random_accept(r);
    case 4: return Decline{.run = {random_number<std::uint64_t>(r)}, .reason = random_text(r, 512)};
    case 5: return random_settle(r);
    case 6: return random_plan(r, bytes);
    case 7: {
      return SyncChunk{.plan = {nonzero<std::uint64_t>(r)},
                       .offset = random_number<std::uint64_t>(r) >> 1,
                       .bytes = random_bytes(r, bytes, 1)};
    }
    case 8: return random_update(r, bytes);
    case 9: return random_skip(r);
    case 10: return Received{.plan = {nonzero<std::uint64_t>(r)}, .offset = random_number<std::uint32_t>(r)};
    case 11:
      return Refused{.plan = {random_number<std::uint64_t>(r)},
                     .code = static_cast<RefusalCode>(1 + r.below(13)),
                     .detail = random_text(r, 512)};
    case 12: return Heartbeat{};
    case 13: return Drain{.retry_after_ms = random_number<std::uint32_t>(r)};
    case 14: return Superseded{.retry_after_ms = random_number<std::uint32_t>(r)};
    case 15: return RunEnded{.run = {random_number<std::uint64_t>(r)}};
    default:
      return Failure{.code = static_cast<FailureCode>(1 + r.below(6)),
                     .retry_after_ms = random_number<std::uint32_t>(r),
                     .text = random_text(r, 512)};
  }
}

}  // namespace gleaner::testing

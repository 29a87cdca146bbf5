#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "common/check.hpp"
#include "protocol/messages.hpp"
#include "protocol/messages_generated.h"
#include "protocol/wire.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kHeartbeatMsMax = 3'600'000;
constexpr std::uint32_t kCoresMax = 65'536;

Status require(bool ok, std::string_view field, std::string_view expected) {
  if (ok) return {};
  return fail(ErrorCode::peer_fault, fmt::format("{} {}", field, expected));
}
Status require_finite(float value, std::string_view field) {
  return require(std::isfinite(value), field, "is not a finite number");
}

// The root table, or null when the bytes are no valid buffer. A message has one table in another at most and few
// vectors: the bounds keep the verifier's work linear in the size of the frame.
template <class T>
const T* root_of(ByteView body) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 4;
  options.max_tables = 8;
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(body.data()), body.size(), options);
  return verifier.VerifyBuffer<T>(nullptr) ? flatbuffers::GetRoot<T>(body.data()) : nullptr;
}

Result<std::string> text_of(const flatbuffers::String* text, std::string_view field, std::size_t bytes_max) {
  GLEANER_TRY(require(text != nullptr, field, "is missing"));
  GLEANER_TRY(require(text->size() <= bytes_max, field, "is too long"));
  GLEANER_TRY(require(wire::is_printable(text->c_str(), text->size()), field, "is not printable UTF-8"));
  return text->str();
}

Result<std::vector<std::string>> names_of(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names,
                                          std::string_view field) {
  GLEANER_TRY(require(names != nullptr, field, "is missing"));
  GLEANER_TRY(require(names->size() <= wire::kCapabilitiesMax, field, "has too many entries"));
  std::vector<std::string> out;
  out.reserve(names->size());
  for (const auto* name : *names) {
    GLEANER_ASSIGN(out.emplace_back(), text_of(name, field, wire::kNameBytesMax));
    GLEANER_TRY(require(is_valid_name(out.back()), field, "has an entry that is not a name"));
  }
  return out;
}

Result<RunSpec> run_spec_of(const wire::RunSpec& w) {
  RunSpec s;
  s.id = {w.id()};
  GLEANER_ASSIGN(s.name, text_of(w.name(), "Offer.spec.name", wire::kTitleBytesMax));
  GLEANER_ASSIGN(s.recipe, text_of(w.recipe(), "Offer.spec.recipe", wire::kNameBytesMax));
  s.seed = w.seed();
  s.reproducible = w.reproducible();
  GLEANER_ASSIGN(s.data, text_of(w.data(), "Offer.spec.data", wire::kNameBytesMax));
  GLEANER_ASSIGN(s.model, text_of(w.model(), "Offer.spec.model", wire::kNameBytesMax));
  s.classes = w.classes();
  s.hidden_units = w.hidden_units();
  s.schema_hash = w.schema_hash();
  s.dimension = w.dimension();
  s.local_epochs = w.local_epochs();
  s.batch_size = w.batch_size();
  s.learning_rate = w.learning_rate();
  s.momentum = w.momentum();
  s.weight_decay = w.weight_decay();
  GLEANER_ASSIGN(s.compressor, text_of(w.compressor(), "Offer.spec.compressor", wire::kNameBytesMax));
  s.per_tensor = w.per_tensor();
  GLEANER_ASSIGN(s.value_format_up, text_of(w.value_format_up(), "Offer.spec.value_format_up", wire::kNameBytesMax));
  GLEANER_ASSIGN(s.upload_rule, text_of(w.upload_rule(), "Offer.spec.upload_rule", wire::kNameBytesMax));
  s.skip_share = w.skip_share();
  s.age_max = w.age_max();
  s.c0 = w.c0();
  s.rule_history = w.rule_history();
  s.zeta = w.zeta();
  s.clip_exponent = w.clip_exponent();
  if (const Status status = check_run_spec(s); !status) {
    return fail(ErrorCode::peer_fault, "Offer.spec." + status.error().message());
  }
  return s;
}

Result<Message> decode(const wire::Hello& w) {
  Hello m{.version_min = w.version_min(), .version_max = w.version_max(), .cores = w.cores()};
  GLEANER_TRY(require(m.version_min >= 1 && m.version_min <= m.version_max, "Hello.version_min", "is out of range"));
  GLEANER_TRY(require(m.cores >= 1 && m.cores <= kCoresMax, "Hello.cores", "is out of range"));
  GLEANER_ASSIGN(m.software, text_of(w.software(), "Hello.software", wire::kTitleBytesMax));
  GLEANER_ASSIGN(m.capabilities, names_of(w.capabilities(), "Hello.capabilities"));
  return m;
}

Result<Message> decode(const wire::Welcome& w) {
  Welcome m{.version = w.version(), .heartbeat_ms = w.heartbeat_ms()};
  GLEANER_TRY(require(m.version >= 1, "Welcome.version", "is out of range"));
  GLEANER_TRY(
      require(m.heartbeat_ms >= 1 && m.heartbeat_ms <= kHeartbeatMsMax, "Welcome.heartbeat_ms", "is out of range"));
  GLEANER_ASSIGN(m.capabilities, names_of(w.capabilities(), "Welcome.capabilities"));
  return m;
}

Result<Message> decode(const wire::Offer& w) {
  GLEANER_TRY(require(w.spec() != nullptr, "Offer.spec", "is missing"));
  Offer m{.lineage = {w.lineage()}};
  GLEANER_ASSIGN(m.spec, run_spec_of(*w.spec()));
  return m;
}

Result<Message> decode(const wire::Accept& w) {
  const Accept m{.run = {w.run()},
                 .samples = w.samples(),
                 .schema_hash = w.schema_hash(),
                 .has_model = w.has_model(),
                 .lineage = {w.lineage()},
                 .version = {w.version()},
                 .model_hash = w.model_hash(),
                 .pending_plan = {w.pending_plan()},
                 .pending_digest = {w.pending_digest()}};
  const bool holds_something = m.lineage.value != 0 || m.version.value != 0 || m.model_hash != 0;
  GLEANER_TRY(require(m.has_model || !holds_something, "Accept.has_model", "is false beside a model's hash"));
  GLEANER_TRY(require(m.pending_plan.value != 0 || m.pending_digest.value == 0, "Accept.pending_digest",
                      "stands without a plan"));
  return m;
}

Result<Message> decode(const wire::Decline& w) {
  Decline m{.run = {w.run()}, .reason = {}};
  GLEANER_ASSIGN(m.reason, text_of(w.reason(), "Decline.reason", wire::kTextBytesMax));
  return m;
}

Result<Message> decode(const wire::Refused& w) {
  GLEANER_TRY(require(w.code() >= 1 && w.code() <= static_cast<std::uint8_t>(RefusalCode::wrong_digest), "Refused.code",
                      "is unknown"));
  Refused m{.plan = {w.plan()}, .code = static_cast<RefusalCode>(w.code()), .detail = {}};
  GLEANER_ASSIGN(m.detail, text_of(w.detail(), "Refused.detail", wire::kTextBytesMax));
  return m;
}

Result<Message> decode(const wire::Drain& w) { return Drain{.retry_after_ms = w.retry_after_ms()}; }
Result<Message> decode(const wire::Superseded& w) { return Superseded{.retry_after_ms = w.retry_after_ms()}; }
Result<Message> decode(const wire::RunEnded& w) { return RunEnded{.run = {w.run()}}; }

Result<Message> decode(const wire::Failure& w) {
  GLEANER_TRY(require(w.code() >= 1 && w.code() <= static_cast<std::uint8_t>(FailureCode::quarantined), "Failure.code",
                      "is unknown"));
  Failure m{.code = static_cast<FailureCode>(w.code()), .retry_after_ms = w.retry_after_ms(), .text = {}};
  GLEANER_ASSIGN(m.text, text_of(w.text(), "Failure.text", wire::kTextBytesMax));
  return m;
}

Result<Message> decode(const wire::SettleBody& w, ByteView) {
  GLEANER_TRY(require(w.outcome() <= static_cast<std::uint8_t>(Outcome::refused), "Settle.outcome", "is unknown"));
  GLEANER_TRY(require(w.resend() <= 1, "Settle.resend", "is neither 0 nor 1"));
  GLEANER_TRY(require(w.reserved0() == 0 && w.reserved1() == 0, "Settle.reserved", "is not zero"));
  const Settle m{
      .run = {w.run()}, .plan = {w.plan()}, .outcome = static_cast<Outcome>(w.outcome()), .resend = w.resend() == 1};
  GLEANER_TRY(require(m.plan.value != 0, "Settle.plan", "is zero"));
  GLEANER_TRY(require(!m.resend || m.outcome == Outcome::unknown, "Settle.resend", "is set beside an outcome"));
  return m;
}

Status check_sync(const Plan& m) {
  const bool carries = m.sync != SyncKind::none && m.sync != SyncKind::seeded;
  const bool steps = m.sync == SyncKind::patches || m.sync == SyncKind::absolute;
  GLEANER_TRY(require(carries == (m.sync_bytes > 0), "Plan.sync_bytes", "does not fit Plan.sync"));
  GLEANER_TRY(require(m.sync_head.size() <= m.sync_bytes, "Plan.sync_head", "is longer than Plan.sync_bytes"));
  GLEANER_TRY(require(!steps || m.sync_from < m.base, "Plan.sync_from", "is not before the base"));
  return require(m.sync != SyncKind::seeded || m.base.value == 0, "Plan.base", "is not 0 though the model is seeded");
}

Result<Message> decode(const wire::PlanHead& w, ByteView tail) {
  GLEANER_TRY(require(w.settled_outcome() <= static_cast<std::uint8_t>(Outcome::refused), "Plan.settled_outcome",
                      "is unknown"));
  GLEANER_TRY(require(w.sync() <= static_cast<std::uint8_t>(SyncKind::snapshot), "Plan.sync", "is unknown"));
  GLEANER_TRY(require(w.reserved0() == 0 && w.reserved1() == 0, "Plan.reserved", "is not zero"));
  const Plan m{.run = {w.run()},
               .id = {w.id()},
               .round = w.round(),
               .base = {w.base()},
               .base_hash = w.base_hash(),
               .lineage = {w.lineage()},
               .entries_max = w.entries_max(),
               .deadline_ms = w.deadline_ms(),
               .steps_max = w.steps_max(),
               .threshold = w.threshold(),
               .patch_clip = w.patch_clip(),
               .settled_plan = {w.settled_plan()},
               .settled_outcome = static_cast<Outcome>(w.settled_outcome()),
               .sync = static_cast<SyncKind>(w.sync()),
               .sync_from = {w.sync_from()},
               .sync_bytes = w.sync_bytes(),
               .sync_head = tail};
  GLEANER_TRY(require(m.id.value != 0, "Plan.id", "is zero"));
  GLEANER_TRY(require_finite(m.threshold, "Plan.threshold"));
  GLEANER_TRY(require(std::isfinite(m.patch_clip) && m.patch_clip >= 0, "Plan.patch_clip", "is not a finite bound"));
  GLEANER_TRY(require(m.settled_plan.value != 0 || m.settled_outcome == Outcome::unknown, "Plan.settled_outcome",
                      "stands without a plan"));
  GLEANER_TRY(check_sync(m));
  return m;
}

Result<Message> decode(const wire::SyncChunkHead& w, ByteView tail) {
  const SyncChunk m{.plan = {w.plan()}, .offset = w.offset(), .bytes = tail};
  GLEANER_TRY(require(m.plan.value != 0, "SyncChunk.plan", "is zero"));
  GLEANER_TRY(require(m.offset <= UINT64_MAX - m.bytes.size(), "SyncChunk.offset", "is out of range"));
  return m;
}

Result<Update> update_of(const wire::UpdateHead& w, std::uint64_t chunk_bytes) {
  const Update m{.plan = {w.plan()},
                 .digest = {w.digest()},
                 .samples = w.samples(),
                 .total_bytes = w.total_bytes(),
                 .offset = w.offset(),
                 .compute_ms = w.compute_ms(),
                 .left = w.left(),
                 .right = w.right(),
                 .loss = w.loss(),
                 .bytes = {}};
  GLEANER_TRY(require(w.reserved() == 0, "Update.reserved", "is not zero"));
  GLEANER_TRY(require(m.plan.value != 0, "Update.plan", "is zero"));
  GLEANER_TRY(require(m.offset + chunk_bytes <= m.total_bytes, "Update.offset", "reaches beyond Update.total_bytes"));
  GLEANER_TRY(require_finite(m.left, "Update.left"));
  GLEANER_TRY(require_finite(m.right, "Update.right"));
  GLEANER_TRY(require_finite(m.loss, "Update.loss"));
  return m;
}

Result<Message> decode(const wire::UpdateHead& w, ByteView tail) {
  GLEANER_ASSIGN(Update m, update_of(w, tail.size()));
  m.bytes = tail;
  return m;
}

Result<Message> decode(const wire::SkipBody& w, ByteView) {
  const Skip m{.plan = {w.plan()},
               .samples = w.samples(),
               .compute_ms = w.compute_ms(),
               .left = w.left(),
               .right = w.right(),
               .loss = w.loss()};
  GLEANER_TRY(require(w.reserved() == 0, "Skip.reserved", "is not zero"));
  GLEANER_TRY(require(m.plan.value != 0, "Skip.plan", "is zero"));
  GLEANER_TRY(require_finite(m.left, "Skip.left"));
  GLEANER_TRY(require_finite(m.right, "Skip.right"));
  GLEANER_TRY(require_finite(m.loss, "Skip.loss"));
  return m;
}

Result<Message> decode(const wire::ReceivedBody& w, ByteView) {
  GLEANER_TRY(require(w.reserved() == 0, "Received.reserved", "is not zero"));
  GLEANER_TRY(require(w.plan() != 0, "Received.plan", "is zero"));
  return Received{.plan = {w.plan()}, .offset = w.offset()};
}

template <class T>
Result<Message> decode_table(ByteView body, std::string_view name) {
  const T* const root = root_of<T>(body);
  GLEANER_TRY(require(root != nullptr, name, "is no valid FlatBuffer"));
  return decode(*root);
}

template <class T>
Result<Message> decode_struct(ByteView body, std::string_view name) {
  GLEANER_TRY(require(body.size() >= sizeof(T), name, "is too short"));
  T head;
  std::memcpy(&head, body.data(), sizeof(T));
  return decode(head, body.subspan(sizeof(T)));
}

using Decode = Result<Message> (*)(ByteView, std::string_view);

Result<Message> decode_heartbeat(ByteView, std::string_view) { return Heartbeat{}; }

// In the order of wire::kFrameRules.
constexpr std::array<Decode, wire::kFrameRules.size()> kDecoders{decode_table<wire::Hello>,
                                                                 decode_table<wire::Welcome>,
                                                                 decode_table<wire::Offer>,
                                                                 decode_table<wire::Accept>,
                                                                 decode_table<wire::Decline>,
                                                                 decode_struct<wire::SettleBody>,
                                                                 decode_struct<wire::PlanHead>,
                                                                 decode_struct<wire::SyncChunkHead>,
                                                                 decode_struct<wire::UpdateHead>,
                                                                 decode_struct<wire::SkipBody>,
                                                                 decode_struct<wire::ReceivedBody>,
                                                                 decode_table<wire::Refused>,
                                                                 decode_heartbeat,
                                                                 decode_table<wire::Drain>,
                                                                 decode_table<wire::Superseded>,
                                                                 decode_table<wire::RunEnded>,
                                                                 decode_table<wire::Failure>};

}  // namespace

Result<Message> decode_body(const FrameHeader& header, ByteView body) {
  GLEANER_CHECK(reinterpret_cast<std::uintptr_t>(body.data()) % alignof(std::uint64_t) == 0);
  if (header.type == 0 || header.type > kDecoders.size()) {
    return fail(ErrorCode::peer_fault, fmt::format("frame type {} is unknown", header.type));
  }
  const wire::FrameRule& rule = wire::kFrameRules[header.type - 1U];
  const bool fits =
      body.size() == header.body_bytes && body.size() >= rule.body_bytes_min && body.size() <= rule.body_bytes_max;
  GLEANER_TRY(require(fits, rule.name, "has a wrong length"));
  return kDecoders[header.type - 1U](body, rule.name);
}

bool is_update(const FrameHeader& header) { return frame_name(header.type) == "Update"; }
bool is_heartbeat(std::uint8_t type) { return frame_name(type) == "Heartbeat"; }

Result<Update> decode_update_head(const FrameHeader& header, std::span<const std::byte, kUpdateHeadBytes> head) {
  GLEANER_CHECK(is_update(header) && header.body_bytes > kUpdateHeadBytes);
  wire::UpdateHead w;
  std::memcpy(&w, head.data(), sizeof(w));
  return update_of(w, header.body_bytes - kUpdateHeadBytes);
}

}  // namespace gleaner
